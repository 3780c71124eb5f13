"""Labels that raters gave: what their disagreement means for every metric."""
