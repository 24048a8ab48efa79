"""Write what `--help` and `odeformers list` print into docs/reference.

    python scripts/reference.py

A page keeps its text; the lines between `<!-- odeformers ... -->` and `<!-- end -->` are replaced.
"""

import contextlib
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path

from odeformers import user_dir
from odeformers.__main__ import main

FOLDER = Path(__file__).parents[1] / "docs/reference"
PLACE = re.compile(r"^<!-- (odeformers.*) -->\n.*?^<!-- end -->$", re.M | re.S)
NO_HELP = ("hydra-train",)  # Hydra prints all options of fairseq


def printed(*words: str) -> str:
    """What a command prints on 100 columns, without the path of this installation."""
    text = io.StringIO()
    os.environ["COLUMNS"] = "100"
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main(words)
    return re.sub(rf"\s+{re.escape(str(user_dir()))}", " fairseq_odeformers", text.getvalue())


def helps(*names: str) -> Iterator[tuple[str, str]]:
    """A command and its help, then the same for its commands."""
    text = printed(*names, "--help")
    yield " ".join(["odeformers", *names]), text
    for name in re.findall(r"^    ([a-z][\w-]*)\s", commands_of(text), re.M):
        if name not in NO_HELP:
            yield from helps(*names, name)


def commands_of(text: str) -> str:
    """The lines of a help between the name that stands for a command and the options."""
    found = re.search(r"^positional arguments:\n  [A-Z]+\n(.*?)^\S", text, re.M | re.S)
    return found[1] if found else ""


def fill(page: str) -> str:
    """A page with the output of the commands that it names."""
    return PLACE.sub(lambda match: block(match[1]), page)


def block(command: str) -> str:
    name, *words = command.split()
    if words:
        shown = f"```text\n{printed(*words).strip()}\n```"
    else:
        shown = "\n\n".join(
            f"## `{name}`\n\n```text\n{text.strip()}\n```" for name, text in helps()
        )
    return f"<!-- {command} -->\n\n{shown}\n\n<!-- end -->"


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.md")):
        path.write_text(fill(path.read_text(encoding="utf-8")), encoding="utf-8")
