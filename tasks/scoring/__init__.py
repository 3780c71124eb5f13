"""Candidates: `candidate` and `scorer` have the base classes, `kinds` a module for each kind.

`scored` computes and keeps scores, also on a cluster; `training` trains and registers models.
"""
