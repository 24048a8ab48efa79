"""Preparation of the data sets that the experiments run on."""
