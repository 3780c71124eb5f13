"""Two models on the same comments without labels: where they disagree, and what to label."""
