"""Models: one folder per paper, one for baselines, and shared parts in ``common``."""
