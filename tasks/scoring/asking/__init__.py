"""How a language model is asked for a judgement, and how its answer becomes a score."""
