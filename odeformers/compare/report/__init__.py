"""The report of a comparison: sections, notes on what they cannot show, pictures and pages."""
