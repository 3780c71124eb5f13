"""History of scheduled runs: the numbers of each night, and the changes between nights."""
