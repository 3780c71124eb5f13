"""Third step, optional: further analyses of one candidate on one set, one module each."""
