"""The one door to MLflow: runs, registered versions, model folders."""
