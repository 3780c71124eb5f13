"""The order of the steps, as Prefect flows: `train`, `evaluate` and `nightly`.

The numbers of steps are those of `biasgate.tasks`.
"""
