"""What MkDocs does with the pages of the repository, which are written to be read on GitHub.

The site has the layout of the repository, so that links between pages hold in both. A file of code
that a page links to gets a page of its own, and a command behind ``$`` is followed by what it
prints.
"""

import contextlib
import io
import json
import os
import re
from pathlib import Path

import griffe
from mkdocs.structure.files import File, Files

import odeformers

ROOT = Path(__file__).parents[1]
PAGES = ("*.md", "docs/**/*.md", "examples/**/*.md")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def on_files(files: Files, config) -> Files:
    """The pages of the repository, by their paths in it, and the files that they link to."""
    pages = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    linked = {
        target(page, path) for page in pages for path in LINK.findall(page.read_text("utf-8"))
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
        frames = {"code": "```python\n{}\n```", "markdown": "{}"}
        return "\n\n".join(
            frames[cell["cell_type"]].format("".join(cell["source"])) for cell in cells
        )
    fence = f'``` {path.suffix[1:] or "text"}\n--8<-- "{name}"\n```'
    return f"---\nsearch: {{exclude: true}}\n---\n\n# `{name}`\n\n{fence}\n"


def on_page_markdown(markdown: str, page, config, files: Files) -> str:
    """Let links to files lead to their pages, and run the commands that the page shows."""
    here = ROOT / page.file.src_uri

    def to_page(match):
        path = target(here, match[1])
        if not files.get_file_from_path(path.relative_to(ROOT).as_posix()):
            path = path.with_name(f"{path.name}.md")
        return f"]({os.path.relpath(path, here.parent)}"

    markdown = LINK.sub(to_page, markdown)
    return re.sub(r"^\$ odeformers (.*)\n", printed, markdown, flags=re.M)


def printed(match) -> str:
    """A command of this project, and what it prints."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        odeformers.main(match[1].split())
    return match[0] + text.getvalue().replace(f"{ROOT}/", "")


class ReStructuredText(griffe.Extension):
    """Formulas of docstrings, and their references to names, in the Markdown of the site."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(text: str) -> str:
    """Formulas and references of reStructuredText as those of Markdown."""
    text = re.sub(r"^( *)\.\. math::\s*((?:.+\n?)+)", displayed, text, flags=re.M)
    text = re.sub(r":math:`([^`]+)`", r"$\1$", text)
    return re.sub(r":\w+:`[.~!]*([^`]+)`", r"`\1`", text)


def displayed(math) -> str:
    """A formula on lines of its own; a wide space at the end of a line ends a line of it."""
    indent, text = math[1], " ".join(math[2].replace("\\quad\n", r"\\ ").split())
    return f"\n{indent}$$\n{indent}\\begin{{gathered}} {text} \\end{{gathered}}\n{indent}$$\n"
