"""Digests of a judged model's files, and signatures of its verdicts."""
