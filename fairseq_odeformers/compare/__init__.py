"""Experiments: trainings of several architectures, and what is reported of them."""
