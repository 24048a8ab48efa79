"""``scripts/diagrams.py`` against the diagrams in the repository."""

import runpy
from xml.etree import ElementTree

import pytest
from script_helpers import ROOT

FOLDER = ROOT / "docs" / "diagrams"
DRAWN = runpy.run_path(str(ROOT / "scripts" / "diagrams.py"))["diagrams"]()


def test_every_diagram_is_on_the_page_of_its_family():
    pages = {page.stem: page.read_text("utf-8") for page in ROOT.glob("docs/papers/*.md")}
    shown = {f"{name}.svg" for name, text in pages.items() if f"diagrams/{name}.svg" in text}
    assert {*DRAWN} == shown | {"blocks.svg"}
    assert {*DRAWN} == {path.name for path in FOLDER.iterdir()}


@pytest.mark.parametrize("name", DRAWN)
def test_the_committed_file_is_what_the_script_writes(name):
    assert (FOLDER / name).read_bytes() == DRAWN[name].encode()


@pytest.mark.parametrize("name", DRAWN)
def test_a_diagram_has_a_title_and_a_description(name):
    root = ElementTree.parse(FOLDER / name).getroot()
    svg = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{svg}svg" and root.get("viewBox")
    assert root.findtext(f"{svg}title") and root.findtext(f"{svg}desc")


@pytest.mark.parametrize("name", DRAWN)
def test_text_has_no_shifts_within_a_line(name):
    """Some renderers misplace shifted text, and so subscripts are separate characters."""
    root = ElementTree.fromstring(DRAWN[name])
    assert not list(root.iter("{http://www.w3.org/2000/svg}tspan"))
