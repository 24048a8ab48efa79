"""Pages have the figures of the tables that trainings and measurements left."""

import re
import runpy
import sys
from itertools import pairwise

import markdown
import pytest
from script_helpers import ROOT

SCRIPT = runpy.run_path(str(ROOT / "scripts/pages.py"))
MARKED, fill = SCRIPT["MARKED"], SCRIPT["fill"]
PAGES = {
    str(page.relative_to(ROOT)): text
    for page in SCRIPT["pages"]()
    if "<!--" in (text := page.read_text("utf-8"))
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_what_the_script_writes(page):
    if page == "docs/reference/commands.md" and sys.version_info >= (3, 13):
        pytest.skip("argparse writes options in another way")
    assert fill(PAGES[page]) == PAGES[page]


@pytest.mark.parametrize("page", PAGES)
def test_its_marks_are_not_shown(page):
    shown = markdown.markdown(PAGES[page], extensions=["tables", "fenced_code"])
    assert "--" not in re.sub(r"<!--.*?-->|<code.*?</code>", "", shown, flags=re.S)
    assert PAGES[page].count("<!--") == 2 * len(MARKED.findall(PAGES[page]))


@pytest.mark.parametrize("page", PAGES)
def test_a_comment_does_not_break_a_paragraph(page):
    """A line that begins with one starts HTML in CommonMark; python-markdown is lenient."""
    lines = ["", *PAGES[page].splitlines()]
    for before, line in pairwise(lines):
        assert not line.startswith("<!--") or (not before and re.fullmatch(r"<!--\S*?-->", line))


def test_each_figure_is_on_a_page():
    named = {match[1].split("; ")[0] for text in PAGES.values() for match in MARKED.findall(text)}
    assert named == SCRIPT["FIGURES"].keys()


def test_another_number_is_replaced_and_another_line_end_is_not():
    """An editor may wrap a paragraph."""
    page = "p <!--=p; multi30k-paired-bootstrap; p, best checkpoint; {}-->{}<!--/-->."
    page = page.format("transevolve_fullff_2_prenorm", "{}")
    assert fill(page.format("0.05")) == page.format("0.04, 0.03, 0.001")
    assert fill(page.format("0.04, 0.03,\n0.001")) == page.format("0.04, 0.03,\n0.001")
