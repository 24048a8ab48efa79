"""Data sets for training, and facts about binarised data."""
