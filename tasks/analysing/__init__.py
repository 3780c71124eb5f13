"""Third step, on request: further analyses of one candidate on one set, a module each."""
