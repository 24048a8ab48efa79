"""The output of `--help` and `odeformers list`, for the pages of the reference."""

import contextlib
import io
import os
import re
from collections.abc import Iterator

from odeformers import user_dir
from odeformers.__main__ import main

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


def commands() -> str:
    """The help of each command, under a heading."""
    sections = (f"## `{name}`\n\n{fence(text)}" for name, text in helps())
    return "\n\n" + "\n\n".join(sections) + "\n\n"


def names() -> str:
    """All architectures, tasks and criterions."""
    return f"\n\n{fence(printed('list'))}\n\n"


def fence(text: str) -> str:
    return f"```text\n{text.strip()}\n```"
