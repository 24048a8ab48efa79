"""Pairs of texts are read literally; a line that has something else is named."""

import pytest

from fairseq_odeformers.corpora.aan import read


def test_texts_are_literal(tmp_path):
    (tmp_path / "pairs.tsv").write_bytes(
        b"1.0\tP1\tC1\tb'one\\n'\tb\"it's\"\n0.0\tP2\tC2\t\"\xff\r\t two \r\n1\tP3\tC3\t\tlast"
    )
    assert list(read(tmp_path / "pairs.tsv")) == [
        ((b"b'one\\n'", b'b"it\'s"'), "1"),
        ((b'"\xff\r', b" two "), "0"),
        ((b"", b"last"), "1"),
    ]


@pytest.mark.parametrize(
    "line, message",
    [
        (b"1.0\tP1\tC1\ttext", "has 4 columns, expected 5: class, two ids and two texts"),
        (b"1.0\tP1\tC1\ta\tb\tc", "has 6 columns, expected 5"),
        (b"", "has 1 columns, expected 5"),
        (b"2.0\tP1\tC1\ta\tb", ": class '2', expected 0 or 1"),
        (b"0.5\tP1\tC1\ta\tb", ": class '0.5', expected 0 or 1"),
        (b"label\tid1\tid2\ta\tb", ": class 'label', expected 0 or 1"),
        (b"\xff\tP1\tC1\ta\tb", r": class '\\\\xff', expected 0 or 1"),
    ],
)
def test_a_bad_line_is_named(line, message, tmp_path):
    (tmp_path / "pairs.tsv").write_bytes(b"1.0\tP0\tC0\ta\tb\n" + line + b"\n")
    with pytest.raises(ValueError, match=f"pairs.tsv, line 2 ?{message}"):
        list(read(tmp_path / "pairs.tsv"))
