"""Many metrics at once: reports, comparisons, bootstrap, worst subgroup."""
