"""Characters that matplotlib's font lacks, in pictures."""

import io
import warnings

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from matplotlib.figure import Figure

from odeformers import fonts, plots

LETTERS = "中文"


def write_font(path, characters):
    """A font whose letters are squares as high as the line."""
    pen = TTGlyphPen(None)
    for at, point in enumerate([(0, 0), (0, 1000), (1000, 1000), (1000, 0)]):
        (pen.lineTo if at else pen.moveTo)(point)
    pen.closePath()
    square = pen.glyph()
    names = [".notdef", *(f"letter{ord(c)}" for c in characters)]
    font = FontBuilder(1000)
    font.setupGlyphOrder(names)
    font.setupCharacterMap(dict(zip(map(ord, characters), names[1:])))
    font.setupGlyf(dict.fromkeys(names, square))
    font.setupHorizontalMetrics(dict.fromkeys(names, (1000, 0)))
    font.setupHorizontalHeader(ascent=1000, descent=0)
    names = {"familyName": f"Squares {path.stem}", "psName": path.stem, "styleName": "Regular"}
    font.setupNameTable(names)
    font.setupOS2()
    font.setupPost()
    font.save(path)


def draw(text):
    figure = Figure()
    figure.text(0.1, 0.5, text)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.write(figure, file, format="svg")
    return file.getvalue().decode()


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The only folder of system fonts, for a new program."""
    monkeypatch.setattr(font_manager, "X11FontDirectories", [str(tmp_path)])
    monkeypatch.setattr(font_manager, "_get_fontconfig_fonts", list)
    monkeypatch.setattr(fonts, "WARNED", set())
    return tmp_path


def test_an_installed_font_draws_what_the_default_lacks(installed, caplog):
    """The default font draws the rest, and fonts newer than matplotlib's list are found."""
    for name, letters in (("one", LETTERS[0]), ("two", LETTERS[1])):
        write_font(installed / f"{name}.ttf", letters)
    drawn = draw(f"a {LETTERS}")
    for name, letter in (("DejaVuSans", "a"), ("one", LETTERS[0]), ("two", LETTERS[1])):
        assert f"#{name}-{ord(letter):x}" in drawn  # a glyph of a font
    assert not caplog.text


def test_a_missing_font_is_reported_once(installed, caplog):
    """One line says what to install, and matplotlib's warnings about each character are hidden."""
    for _ in range(2):
        draw(LETTERS)
    (record,) = caplog.records
    assert "中 文" in record.getMessage() and "fonts-noto-cjk" in record.getMessage()
