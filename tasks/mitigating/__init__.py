"""From measuring to mitigating: diagnose training data, change it, train again, compare."""
