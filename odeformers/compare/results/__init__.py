"""Results of a comparison: rows, the files that they name, and statistics of all of them."""
