"""Trust: which files a verdict is about, and who vouches for it."""
