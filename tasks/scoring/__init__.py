"""Candidates: how each kind gives scores, and where scores are kept.

`candidate` says what every kind must offer; `kinds` holds one module for each kind; `scored` keeps
scores on disk in `shards`; `parts` shares the work out to a cluster; `training` trains and
registers.
"""
