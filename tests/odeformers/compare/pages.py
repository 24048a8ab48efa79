"""Read the tables of a page in Markdown."""

import re


def tables(page):
    """The tables of a page in Markdown, as lists of rows; a row is a dictionary by column."""
    results, rows = [], []
    for line in [*page.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
        elif rows:
            header, _, *body = rows
            results.append([dict(zip(header, row)) for row in body])
            rows = []
    return results


def table(page, column):
    """The first table that has a column whose name contains a text, by the first cell of a row."""
    for rows in tables(page):
        if rows and any(column in name for name in rows[0]):
            return {next(iter(row.values())): row for row in rows}
    raise AssertionError(f"no column {column}:\n{page}")


def cell(row, column):
    """The cell of a column whose name begins with a text."""
    (name,) = (name for name in row if name.startswith(column))
    return row[name]


def numbers(text):
    """The numbers in a text; a minus is one only before the first digit."""
    return [
        float(text_numbers.replace(",", ""))
        for text_numbers in re.findall(r"[+-]?\d[\d,]*\.?\d*", text)
    ]
