"""Mitigate bias: change the training data of a candidate, and train it again."""
