"""The front door: what Python and the command line share before anything is measured."""
