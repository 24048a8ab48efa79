"""docs/hooks.py converts pages, docstrings and notebooks for the site."""

import importlib
import json
import re
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

pytest.importorskip("mkdocs")  # not on Python 3.10
markdown = importlib.import_module("markdown")
hooks = importlib.import_module("docs.hooks")
PluginError = importlib.import_module("mkdocs.exceptions").PluginError
Files = importlib.import_module("mkdocs.structure.files").Files

PYTHON_PAGES = ("api", "building_blocks", "tasks_and_criterions")
PAGE = SimpleNamespace(file=SimpleNamespace(src_uri="docs/page.md"))


def content(text):
    """The HTML of a page in Markdown, with the extension of mkdocs.yml that finds formulas."""
    extension = "pymdownx.arithmatex"
    html = markdown.markdown(
        text, extensions=[extension], extension_configs={extension: {"generic": True}}
    )
    return hooks.on_page_content(html, page=PAGE, config=None, files=None)


def formulas(html):
    """The display, the text and the MathML of each formula."""
    for element in map(ElementTree.fromstring, re.findall(r"<math.*?</math>", html)):
        yield element.get("display"), "".join(element.itertext()), element


def test_a_formula_of_a_page_becomes_mathml():
    html = content("For $j<i$ and\n\n$$x' = x + \\frac12 \\mathrm{FFN}(x)$$\n")
    (inline, less, _), (block, equation, math) = formulas(html)
    assert (inline, less) == ("inline", "j<i")
    assert (block, equation) == ("block", "x′=x+12FFN(x)")
    assert [part.text for part in next(math.iter("mfrac"))] == ["1", "2"]
    assert "FFN" in [name.text for name in math.iter("mi")]  # a word, not three factors
    assert "\\" not in html


def test_formulas_of_docstrings_become_mathml():
    docstring = r"""With :math:`\dot X`:

    .. math::
        a = 1, \quad b = 2, \quad
        c < 3

    and more.
    """
    displayed = [(display, text) for display, text, _ in formulas(content(in_page(docstring)))]
    assert displayed == [("inline", "X˙"), ("block", "a=1,b=2,"), ("block", "c<3")]


def in_page(docstring):
    """A docstring as mkdocstrings passes it on, without its indentation."""
    return re.sub("^    ", "", hooks.to_markdown(docstring), flags=re.M)


def test_a_paragraph_of_links_becomes_references():
    """GitHub shows the links, and the site the docstrings of the linked files."""
    folder = "../fairseq_odeformers/models/macaron"
    page = (
        "Docstrings with arguments:\n"
        f"[`layer.py`]({folder}/layer.py),\n"
        f"[`stacks.py`]({folder}/stacks.py)\n\n"
        f"See [`naive.py`]({folder}/naive.py).\n"
    )
    text = hooks.on_page_markdown(page, page=PAGE, config=None, files=Files([]))
    for module in ("layer", "stacks"):
        assert f"::: fairseq_odeformers.models.macaron.{module}\n    options: {{" in text
    assert "Docstrings" not in text
    assert f"See [`naive.py`]({folder}/naive.py.md)." in text


def test_a_reference_page_has_only_the_docstrings_that_it_names():
    package = "[`modules`](../../fairseq_odeformers/modules/__init__.py)"
    page = f"`LayerHistory(layers)` and `hand_over`\n\nDocstrings with arguments:\n{package}\n"
    reference = SimpleNamespace(file=SimpleNamespace(src_uri="docs/reference/page.md"))
    text = hooks.on_page_markdown(page, page=reference, config=None, files=Files([]))
    modules = "fairseq_odeformers.modules"
    assert re.findall("::: (.+)", text) == [f"{modules}.layer_history.LayerHistory"]


@pytest.mark.parametrize(
    "path",
    [
        *sorted(hooks.ROOT.glob("docs/papers/*.md")),
        *(hooks.ROOT / f"docs/reference/{name}.md" for name in PYTHON_PAGES),
    ],
    ids=lambda path: path.stem,
)
def test_pages_of_papers_have_a_paragraph_of_references(path):
    page = SimpleNamespace(file=SimpleNamespace(src_uri=str(path.relative_to(hooks.ROOT))))
    text = hooks.on_page_markdown(path.read_text("utf-8"), page, config=None, files=Files([]))
    assert "\n::: fairseq_odeformers." in text and "\nDocstrings" not in text


@pytest.mark.parametrize(
    "tex", [r"\unknown x", r"\frac{1}", "x_", r"\left( x", "a & b", r"a \\ b", "x}"]
)
def test_a_formula_without_mathml_is_an_error(tex):
    with pytest.raises(PluginError, match=re.escape(f"docs/page.md: no MathML of {tex} (")):
        content(f"About ${tex}$.")


def test_the_page_of_a_notebook_shows_its_outputs(tmp_path):
    output = {"output_type": "stream", "name": "stdout", "text": ["nfe 56\n"]}
    picture = {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo=\n"}}
    value = {"output_type": "execute_result", "data": {"text/plain": ["(2, 3)"]}}
    cells = [
        {"cell_type": "markdown", "source": ["# Solve\n", "it"]},
        {"cell_type": "code", "source": ["solve()"], "outputs": [output, picture, value]},
    ]
    path = tmp_path / "notebook.ipynb"
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert hooks.source(path, path.name).split("\n\n") == [
        "# Solve\nit",
        "```python\nsolve()\n```",
        "```text\nnfe 56\n```",
        '<img alt="Output of this cell" src="data:image/png;base64,iVBORw0KGgo=">',
        "```text\n(2, 3)\n```",
    ]
