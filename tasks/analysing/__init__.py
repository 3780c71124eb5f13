"""Third step, optional: further analyses of a candidate on a set, a module for each kind."""
