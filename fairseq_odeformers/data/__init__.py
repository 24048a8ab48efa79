"""Data sets for training."""
