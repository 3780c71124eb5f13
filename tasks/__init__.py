"""The steps of the pipeline, in pipeline order; imported as `biasgate.tasks`.

1. Freeze: `data` reads evaluation sets and freezes them.
2. Score: `scoring` trains, opens and scores candidates.
3. Measure: `measuring` computes the bias metrics; `analysing` does further analyses.
4. Report: `reporting` writes pages, cards and messages for people.
5. Decide: `gating` judges candidates by the policy.
6. Track: `tracking` logs MLflow runs.
7. Promote: `promoting` moves `champion`, and verifies the evidence of its verdicts.
8. Disclose: `disclosing` writes documents for third parties from existing results.

`evaluation_file` has the settings of an evaluation file, which `reading_evaluation` reads and
checks. `records` has the types of the files that steps write. `common`, `store` and
`mlflow_server` serve all steps.
"""
