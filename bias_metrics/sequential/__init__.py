"""Rows that arrive night by night: pooled, and judged every night without more false passes."""
