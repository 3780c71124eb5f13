"""The steps of the pipeline, in pipeline order; imported as `biasgate.tasks`.

1. `data` freezes evaluation sets.
2. `scoring` trains, opens and scores candidates.
3. `measuring` computes the bias metrics.
4. `reporting` writes what people read.
5. `gating` decides by the policy.
6. `tracking` logs MLflow runs.
7. `promoting` moves `champion`, and verifies what it rests on.

`evaluation_file` reads what is to be done; `common` and `mlflow_server` serve all steps.
"""
