"""The sections of a report as Markdown, one HTML file, CSV and LaTeX."""

import base64
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from markdown import markdown
from matplotlib.figure import Figure
from tabulate import tabulate

from fairseq_odeformers.files import markdown_table

Table = list[list[str]]  # the header first


@dataclass
class Section:
    """A part of the report, with a table, text or a picture, or several of them."""

    title: str
    text: str = ""  # Markdown
    table: Table = field(default_factory=list)
    figure: tuple[str, Figure] | None = None  # the name of its file, and the picture
    warning: str = ""  # Markdown above the table

    def markdown(self) -> str:
        """The section as Markdown; its picture is a file beside it."""
        parts = [f"## {self.title}\n" if self.title else ""]
        parts.append(f"**{self.warning}**\n" if self.warning else "")
        if self.table:
            rows = [[cell.replace("|", "\\|") for cell in row] for row in self.table]
            parts.append(markdown_table(rows))
        parts.append(self.text)
        if self.figure:
            parts.append(f"![{self.title}]({self.figure[0]})")
        return "\n".join(filter(None, parts)) + "\n"


def markdown_page(sections: Sequence[Section]) -> str:
    """The report as Markdown."""
    return "\n".join(["# Comparison\n", *(section.markdown() for section in sections)])


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; }
body { max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid #ddd; }
th, td { text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #888; vertical-align: bottom; }
table:has(th:nth-child(9)) { font-size: .85rem; }
table:has(th:nth-child(9)) :is(th, td) { padding: .3rem .4rem; }
.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
p:has(img) { overflow-x: auto; }
img { min-width: 40rem; max-width: 100%; }
code { background: #f4f4f4; padding: .1rem .3rem; overflow-wrap: anywhere; }
@media (max-width: 45rem) {
  th, td { padding: .3rem .4rem; }
  th:first-child, td:first-child { position: sticky; left: 0; background: #fff; }
  th { white-space: nowrap; }
}
"""


def html_page(sections: Sequence[Section]) -> str:
    """The report as one HTML file, with its pictures in it."""
    body = markdown(markdown_page(sections), extensions=["tables"])
    body = re.sub(r"<td>(?=[-+\d.,:±() to]+</td>)", '<td class="number">', body)
    # An interval is below its mean: side by side they make wide tables scroll.
    body = re.sub(r" (?=\([-+\d., to]+\)</td>)", "<br>", body)
    # Names may break after their parts.
    names = r"(?<=<td>)[\w.-]+(?=</td>)|(?<=<th>)[^<]+"
    body = re.sub(names, lambda name: re.sub("([_-])", r"\1<wbr>", name[0]), body)
    for section in sections:
        if section.figure:
            name, figure = section.figure
            data = base64.b64encode(png(figure)).decode()
            body = body.replace(f'src="{escape(name)}"', f'src="data:image/png;base64,{data}"')
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    return (
        f'<!doctype html><html lang="en"><head>{head}<title>Comparison</title>'
        f"<style>{STYLE}</style></head><body>{body}</body></html>\n"
    )


def literal(text: str) -> str:
    """Markdown, also in a table, that shows a text of the data as it is."""
    return re.sub(r"([\\`*_\[\]#|])", r"\\\1", text).replace("<", "&lt;")


def png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def csv_table(table: Table) -> str:
    """A table as CSV."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(table)
    return buffer.getvalue()


def latex_table(table: Table) -> str:
    """A table as LaTeX, for the package booktabs."""
    sides = ("left", *["right"] * (len(table[0]) - 1))
    style = {"tablefmt": "latex_booktabs", "disable_numparse": True, "colalign": sides}
    return tabulate(table, "firstrow", **style) + "\n"
