"""Pages contain the numbers of the tables of trainings and measurements."""

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
def test_a_page_equals_the_scripts_output(page):
    if page == "docs/reference/commands.md" and sys.version_info >= (3, 13):
        pytest.skip("argparse writes options in another way")
    assert fill(PAGES[page]) == PAGES[page]


@pytest.mark.parametrize("page", PAGES)
def test_marks_of_a_page_are_not_shown(page):
    shown = markdown.markdown(PAGES[page], extensions=["tables", "fenced_code"])
    assert "--" not in re.sub(r"<!--.*?-->|<code.*?</code>", "", shown, flags=re.S)
    assert PAGES[page].count("<!--") == 2 * len(MARKED.findall(PAGES[page]))


@pytest.mark.parametrize("page", PAGES)
def test_a_comment_does_not_break_a_paragraph(page):
    """A line that begins with a comment would start HTML in CommonMark."""
    lines = ["", *PAGES[page].splitlines()]
    for before, line in pairwise(lines):
        assert not line.startswith("<!--") or (not before and re.fullmatch(r"<!--\S*?-->", line))


def test_each_figure_is_on_a_page():
    names = {match[1].split("; ")[0] for text in PAGES.values() for match in MARKED.findall(text)}
    assert names == SCRIPT["FIGURES"].keys()


def test_numbers_are_replaced_without_rewrapping():
    """An editor may wrap a paragraph elsewhere."""
    page = "p <!--=p; multi30k-paired-bootstrap; p, best checkpoint; {}-->{}<!--/-->."
    page = page.format("transevolve_fullff_2_prenorm", "{}")
    assert fill(page.format("0.05")) == page.format("0.04, 0.03, 0.001")
    assert fill(page.format("0.04, 0.03,\n0.001")) == page.format("0.04, 0.03,\n0.001")
