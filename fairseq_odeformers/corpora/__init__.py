"""Preparation of the corpora that the experiments run on."""
