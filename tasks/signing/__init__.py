"""Trust: the files that a verdict is about, and its signatures."""
