"""Fonts for characters of a figure that matplotlib's default font lacks, such as Chinese."""

import logging
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

logger = logging.getLogger(__name__)
MAX_LISTED = 8  # maximum number of characters in the warning
EAST_ASIAN = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "FULLWIDTH", "IDEOGRAPHIC"}
WARNED: set[str] = set()  # characters in earlier warnings


def fit_fonts(figure: Figure) -> None:
    """Add installed fonts to the texts of a figure if their font lacks characters.

    If no font has a character, a warning says what to install, once per program.
    """
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    default = font_manager.findfont(font_manager.FontProperties())
    missing = {c for t in texts for c in t.get_text() if is_drawn(c)} - read_characters(default)
    families = []
    while missing and (path := find_font(missing)):
        families.append(name_family(path))
        missing -= read_characters(path)
    for text in texts if families else ():
        text.set_fontfamily([*text.get_fontfamily(), *families])
    if unknown := sorted(missing - WARNED):
        WARNED.update(unknown)
        east_asian = {unicodedata.name(c, "").split()[0] for c in unknown} & EAST_ASIAN
        name, package = (
            ("Noto Sans CJK", "fonts-noto-cjk") if east_asian else ("Noto Sans", "fonts-noto-core")
        )
        dots = " ..." if len(unknown) > MAX_LISTED else ""
        logger.warning(
            f"no installed font has {' '.join(unknown[:MAX_LISTED])}{dots}, so pictures show "
            f"boxes; install one that does, such as {name} (apt install {package})"
        )


def is_drawn(character: str) -> bool:
    """Return whether a character is visible, unlike spaces, controls and variation selectors."""
    return not (character.isspace() or unicodedata.category(character) in ("Cc", "Cf", "Mn"))


@cache
def read_characters(path: str) -> frozenset[str]:
    """Read the set of a font's characters; it is empty for bitmap and unreadable fonts."""
    try:
        font = FT2Font(path)
        return frozenset(map(chr, font.get_charmap())) if font.scalable else frozenset()
    except (RuntimeError, OSError):
        return frozenset()


def find_font(characters: set[str]) -> str | None:
    """Find the installed font with most of the characters; among equals, the shortest file name."""
    paths = sorted(font_manager.findSystemFonts(), key=lambda path: (len(Path(path).stem), path))
    best = max(paths, key=lambda path: len(characters & read_characters(path)), default=None)
    return best if best and characters & read_characters(best) else None


def name_family(path: str) -> str:
    """Return the family of a font; register it with matplotlib if it was installed recently."""
    manager = font_manager.fontManager
    if all(entry.fname != path for entry in manager.ttflist):
        manager.addfont(path)
    return next(entry.name for entry in manager.ttflist if entry.fname == path)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Hide matplotlib's warning about each missing character."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from")
        yield
