"""Data sets that training reads."""
