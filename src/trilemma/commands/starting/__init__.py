"""Commands for the first hour: a scenario to start from, a look at it, what a budget means."""
