"""The policy, the evidence, and the verdict computed from both."""
