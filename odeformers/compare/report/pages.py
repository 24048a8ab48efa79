"""Write the sections of a report as Markdown, with separate pictures, and as HTML."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from fairseq_odeformers.files import markdown_table
from odeformers.plots import write

TEMPLATE = "report.html"


@dataclass(frozen=True)
class Section:
    """A section of the report: warnings, a table, lines of Markdown, a list, and a picture.

    Each of these may be missing.
    """

    title: str = ""
    warnings: Sequence[str] = ()
    table: Sequence[Sequence[str]] = ()  # rows, beginning with the header
    lines: Sequence[str] = ()
    items: Sequence[str] = ()  # the items of the list
    figure: Figure | None = None
    picture: str = ""  # file of the picture


def to_png(figure: Figure) -> bytes:
    file = io.BytesIO()
    write(figure, file, format="png", dpi=110)
    return file.getvalue()


def to_page(sections: Sequence[Section]) -> str:
    """Write the report as Markdown, with pictures in separate files."""
    return "\n".join(["# Comparison\n", *map(to_markdown, sections)])


def to_markdown(section: Section) -> str:
    parts = [f"## {section.title}\n"] if section.title else []
    if section.warnings:
        parts.append(f"**{' '.join(section.warnings)}**\n")
    if section.table:
        cells = [[cell.replace("|", "\\|") for cell in row] for row in section.table]
        parts.append(markdown_table(cells))
    if section.lines:
        parts.append("  \n".join(section.lines) + "\n" * bool(section.items))
    if section.items:
        parts.append("\n".join(f"- {item}" for item in section.items))
    if section.figure:
        parts.append(f"![{section.title}]({section.picture})")
    return "\n".join(parts).rstrip("\n") + "\n"


def to_html(sections: Sequence[Section], pictures: Mapping[str, bytes]) -> str:
    """Write the report as one HTML file that contains all pictures, which are given by name."""
    environment = Environment(autoescape=True)
    environment.tests["figure"] = re.compile(r"[+-]?\d").match
    environment.filters |= {
        "inline": mark_code,
        "breakable": let_break,
        "embedded": lambda name: base64.b64encode(pictures[name]).decode(),
    }
    text = files("odeformers.compare.report").joinpath(TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(text).render(sections=sections)


def mark_code(line: str) -> Markup:
    """Convert a line of Markdown to HTML; only backticks are marks."""
    parts = str(escape(line)).split("`")
    return Markup("".join(f"<code>{p}</code>" if n % 2 else p for n, p in enumerate(parts)))


def let_break(text: str) -> Markup:
    """Let a name break after its parts, in HTML."""
    return Markup(re.sub("([_-])", r"\1<wbr>", str(escape(text))))
