"""A table of any texts is read as it was written, or refused."""

import csv
import random

import pytest

from odeformers.prepare.common.tables import read_pairs

WORDS = ["a", "the sea"]
ODD = [*WORDS, '"', '""', ",", ";", "'", "it's", "3,5", " ", '"quiet"', "\\"]


def make_rows(drawn, pieces):
    texts = (" ".join(drawn.choices(pieces, k=drawn.randint(1, 4))) for _ in range(16))
    pairs = [*zip(texts, texts)][: drawn.randint(0, 8)]
    return [("der Wind", "the wind"), *pairs, ("das Ende", "the end")]


def check(path, rows):
    """Whether a table is read as these rows except for spaces, rather than refused in one line."""
    try:
        actual = read_pairs(path, ("de", "en"))
    except ValueError as error:
        assert str(path) in str(error) and "\n" not in str(error)
        return False
    expected, actual = (
        [[text.split() for text in row] for row in table] for table in (rows, actual)
    )
    assert actual == expected
    return True


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("name", ["own.csv", "own.tsv"])
def test_tables_of_spreadsheets_are_read_or_refused(name, separator, quoting, tmp_path):
    """A ``.csv`` with a clear first line is always read, and a ``.tsv`` if it is not quoted."""
    path, drawn, is_read = tmp_path / name, random.Random(1), []
    for pieces in [WORDS, [*ODD, "\t", "\n"]] * 20:
        rows = make_rows(drawn, pieces)
        with open(path, "w", newline="") as file:
            csv.writer(file, delimiter=separator, quoting=quoting).writerows(rows)
        is_read.append(check(path, rows))
    if name == "own.csv":
        assert all(is_read)
    else:
        assert any(is_read) == ((separator, quoting) == ("\t", csv.QUOTE_MINIMAL))


def test_quotes_between_tabs_are_text(tmp_path):
    """Few tables of plain lines look like quoted ones by chance."""
    path, drawn = tmp_path / "own.tsv", random.Random(1)
    is_read = []
    for _ in range(60):
        rows = make_rows(drawn, ODD)
        path.write_text("".join("\t".join(row) + "\n" for row in rows))
        is_read.append(check(path, rows))
    assert is_read.count(True) > 54
