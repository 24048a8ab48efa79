"""What came out of a comparison: rows, what they name, and what they say together."""
