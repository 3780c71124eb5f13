"""The order of the steps, as Prefect flows: `train`, `evaluate`, `nightly`, `mitigate`, `count`.

The numbers of steps are those of `biasgate.tasks`.
"""
