"""Candidates: how each kind gives scores, and where scores are kept.

`candidate` is the seam; `score_file`, `tfidf` and `mlflow_model` are the kinds; `kinds` names
them for configurations; `scored` keeps scores on disk; `training` trains and registers.
"""
