"""The results of a comparison: rows, the files that they name, and statistics."""
