"""A candidate that never answers, for an evaluation that `write_inputs` wrote."""

# The file slow.py.
SLOW = """\
import time

def score(texts):
    time.sleep(3600)
"""
# What takes the place of the line `policy: own.yaml`.
CANDIDATE = """\
  - {name: slow, kind: python, call: "slow.py:score", version: "1"}
policy: own.yaml
"""
