"""What MkDocs does with the pages of the repository, which are written to be read on GitHub.

The site has the layout of the repository, so that links between pages hold in both. A file of code
that a page links to gets a page of its own, and a notebook has its outputs. Each link of a
paragraph that begins with "Docstrings" becomes these docstrings. Formulas become MathML.
"""

import ast
import html
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import griffe
from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = ("*.md", "docs/**/*.md", "examples/**/*.md")
# A link to a file; or a block of code, which the first group does not match.
LINK = re.compile(r"^```.*?^```|\]\((?!https?:|#)([^)#\s]+)", re.M | re.S)
REFERENCES = re.compile(r"^Docstrings .*:\n\[.+(?:\n.+)*", re.M)
FORMULA = re.compile(r'(<(span|div) class="arithmatex">)\\[(\[](.*?)\\[)\]](?=</\2>)', re.S)
# How many parts an element of MathML has.
PARTS = {
    **dict.fromkeys(("mfrac", "mover", "mroot", "msub", "msup", "munder"), 2),
    **dict.fromkeys(("msubsup", "munderover"), 3),
}


def on_files(files: Files, config) -> Files:
    """The pages of the repository, by their paths in it, and the files that they link to."""
    pages = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    linked = {
        target(page, path)
        for page in pages
        for path in LINK.findall(page.read_text("utf-8"))
        if path
    }
    found = [
        file for file in files if file.src_dir != config.docs_dir or file.src_uri.endswith(".css")
    ]
    for path in sorted(pages | linked):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in (".md", ".png", ".svg"):
            found.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
        else:
            found.append(File.generated(config, f"{name}.md", content=source(path, name)))
    return Files(found)


def target(page: Path, path: str) -> Path:
    """The file that a link of a page leads to; of a folder, the one that introduces it."""
    found = (page.parent / path).resolve()
    inside = (found / "README.md", found / "__init__.py", found)
    return next((path for path in inside if path.is_file()), found)


def source(path: Path, name: str) -> str:
    """A page with the text of a file, which a search does not look into, or with a notebook."""
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text("utf-8"))["cells"]
        return "\n\n".join(part for cell in cells for part in notebook_cell(cell))
    fence = f'``` {path.suffix[1:] or "text"}\n--8<-- "{name}"\n```'
    return f"---\nsearch: {{exclude: true}}\n---\n\n# `{name}`\n\n{fence}\n"


def notebook_cell(cell: dict) -> Iterator[str]:
    """The text or the code of a cell, and its outputs."""
    text = "".join(cell["source"])
    yield text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"
    for output in cell.get("outputs", []):
        data = output.get("data", {"text/plain": output.get("text")})
        if "image/png" in data:
            png = "".join(data["image/png"]).replace("\n", "")
            yield f'<img alt="Output of this cell" src="data:image/png;base64,{png}">'
        else:
            yield f"```text\n{''.join(data['text/plain']).strip()}\n```"


def on_page_markdown(markdown: str, page, config, files: Files) -> str:
    """Let links to files lead to their pages, and show references."""
    here = ROOT / page.file.src_uri

    def to_reference(path):
        file = target(here, path)
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if "/reference/" in page.file.src_uri and (names := public_names(file, markdown)):
            return "\n".join(directive(f"{module}.{name}") for name in names)
        return directive(module, show_submodules=file.name == "__init__.py")

    def to_references(match):
        return "\n".join(map(to_reference, LINK.findall(match[0])))

    def to_page(match):
        if not match[1]:
            return match[0]
        path = target(here, match[1])
        if not files.get_file_from_path(path.relative_to(ROOT).as_posix()):
            path = path.with_name(f"{path.name}.md")
        return f"]({os.path.relpath(path, here.parent)}"

    return LINK.sub(to_page, REFERENCES.sub(to_references, markdown))


def public_names(file: Path, markdown: str) -> list[str]:
    """The classes and functions of a file, or of a package's files, that a page names as code."""
    files = sorted(file.parent.glob("*.py")) if file.name == "__init__.py" else [file]
    found = []
    for each in files:
        inside = [] if each == file else [each.stem]
        for node in ast.parse(each.read_text("utf-8")).body:
            named = isinstance(node, (ast.ClassDef, ast.FunctionDef))
            if named and re.search(rf"`(?:\w+\.)?{node.name}\b", markdown):
                found.append(".".join([*inside, node.name]))
    return found


def directive(name: str, **options) -> str:
    """The lines that insert the docstrings of an object, below the heading of their section."""
    return f"::: {name}\n    options: {json.dumps({'heading_level': 3, **options})}\n"


def on_page_content(content: str, page, config, files: Files) -> str:
    """Turn the formulas of a page and its docstrings into MathML, which needs no script."""

    def formula(match):
        tex = " ".join(html.unescape(match[3]).split())
        try:
            return match[1] + to_mathml(tex, "block" if match[2] == "div" else "inline")
        except Exception as error:  # latex2mathml's have no class in common
            reason = f"{type(error).__name__}: {error}"
            raise PluginError(f"{page.file.src_uri}: no MathML of {tex} ({reason})") from error

    return FORMULA.sub(formula, content)


def to_mathml(tex: str, display: str) -> str:
    """A formula as MathML; a ValueError for what latex2mathml passes over without an error."""
    math = ElementTree.fromstring(convert(tex, xmlns="", display=display))
    for element in math.iter():
        text = element.text or ""
        if element.tag == "mi" and text[:1] in ("", *"\\&{}$#%"):
            raise ValueError(f"{text or 'nothing'} where a name should be")
        if len(element) != PARTS.get(element.tag, len(element)):
            raise ValueError(f"{element.tag} lacks a part")
        if "linebreak" in element.attrib:
            raise ValueError("browsers do not break lines: one formula per line")
        mend(element)
    return ElementTree.tostring(math, encoding="unicode")


def mend(element) -> None:
    """Change what latex2mathml writes and browsers set badly."""
    if element.tag == "mi" and element.text in "~;":  # operators, with space around them
        element.tag, element.text = "mo", element.text.replace("~", "∼")
    elif element.tag == "mo" and element.text and element.text.isalpha():  # \max
        element.attrib.update(lspace="0", rspace="0.17em")
    elif element.tag == "msup" and element[1].text in ("′", "″", "‴"):  # raised in itself
        element.tag = "mrow"
        element[1].tag, element[1].attrib = "mo", {"lspace": "0", "rspace": "0"}
    elif len(element) > 1 and all(letter.get("mathvariant") == "normal" for letter in element):
        element.tag, element.text = "mi", "".join(letter.text for letter in element)
        del element[:]


class ReStructuredText(griffe.Extension):
    """Formulas of docstrings, and their references to names, in the Markdown of the site."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)

    def on_attribute_instance(self, *, attr, **_):
        """An option of a config has its default as its value, and its help as its docstring."""
        call = attr.value
        if isinstance(call, griffe.ExprCall) and str(call.function) == "option":
            default, help, *_ = call.arguments
            attr.value = default
            attr.docstring = griffe.Docstring(to_markdown(text_of(help)), parent=attr)


def text_of(code) -> str:
    """The text of an argument's code: its value if it is a string, otherwise its source."""
    try:
        return str(ast.literal_eval(str(code)))
    except (SyntaxError, ValueError):
        return str(code)


def to_markdown(text: str) -> str:
    """Formulas and references of reStructuredText in Markdown."""
    text = re.sub(r"^( *)\.\. math::\s*((?:.+\n?)+)", displayed, text, flags=re.M)
    text = re.sub(r":math:`([^`]+)`", r"$\1$", text)
    return re.sub(r":\w+:`[.~!]*([^`]+)`", r"`\1`", text)


def displayed(math) -> str:
    """Formulas on lines of their own, which end in a wide space or a line break of TeX."""
    lines = re.split(r"(?:\\quad|\\\\)\n", math[2])
    return "".join(f"\n{math[1]}$${' '.join(line.split())}$$\n" for line in lines)
