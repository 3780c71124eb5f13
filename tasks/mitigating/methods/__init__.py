"""Methods that mitigate bias: before training (`row_methods`), and after (`score_methods`)."""
