"""Candidates: how each kind computes scores, and where scores are kept.

`candidate` has the base classes of all kinds; `kinds` has one module per kind; `scored` keeps
scores on disk in `shards`; `parts` divides the work among the workers of a cluster; `training`
trains and registers models.
"""
