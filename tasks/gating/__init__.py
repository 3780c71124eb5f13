"""The policy, the evidence, and the verdict that follows from both."""
