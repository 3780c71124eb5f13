"""The steps of the pipeline, one per module, in pipeline order.

`data` freezes evaluation sets, `scoring` scores candidates on them, `measuring` computes the
bias metrics, `reporting` and `figures` draw them, `tracking` logs them, `gating` decides.
"""
