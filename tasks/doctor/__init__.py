"""Whether evaluations can work on this machine, and what to do where they cannot."""
