"""What does the setting I run buy? Attacked, proved and trained as a framework runs it."""
