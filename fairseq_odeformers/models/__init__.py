"""Models: one folder per paper, their baselines, and what they share in ``common``."""
