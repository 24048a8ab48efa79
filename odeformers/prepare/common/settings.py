"""Settings of a prepared folder: later preparations must have the same options and sources."""

import argparse
import json
from pathlib import Path
from typing import Any

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import MADE_FROM, find_free_name, reading
from fairseq_odeformers.options import flag
from odeformers.processes import name_differences

SETTINGS = "settings.json"  # the file with the options of a folder's preparation
NO_SETTINGS = ("source", "out", "default_out", "workers", "tasks")
SOURCE = "--from"
# The inputs of steps that are digests of files, and how a message describes different digests.
CONTENT = "from other content"
DIGESTS = {
    **dict.fromkeys(("from", "raw", "texts"), CONTENT),
    "vocab": "with another --vocab",
    "vocabulary": "with other --bpe-codes, --dict or tasks",
}


def check_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options that determine a result; check that the folder was made with the same."""
    settings = {
        flag(name): value
        for name, value in vars(args).items()
        if isinstance(value, (str, int, float, type(None))) and name not in NO_SETTINGS
    }
    if earlier := read_settings(args.out):
        earlier.setdefault("--corpus", settings.get("--corpus"))  # folders of 0.1 lack it
        values = {name: (earlier.get(name), value) for name, value in settings.items()}
        if changes := name_differences(values):
            what = f"with other settings ({', '.join(changes)})"
            raise InputError(describe_changes(args.out, what))
    return settings


def read_settings(out: Path) -> dict[str, Any]:
    """Read the settings of the preparation that has finished in a folder, if any."""
    path = out / SETTINGS
    if not path.exists():
        return {}
    with reading(path, f"is damaged; remove {out}"):
        return dict(json.loads(path.read_bytes()))


def name_source(args: argparse.Namespace) -> str:
    """Return ``--from`` as typed; "" if the corpus is downloaded or generated."""
    source = args.source or []
    return " ".join(map(str, source if isinstance(source, list) else [source]))


def describe_changes(out: Path, what: str) -> str:
    """Describe what differs from the preparation of a folder, with the remedy."""
    free = find_free_name(out)
    return f"{out} was prepared {what}; remove it, or give another --out, such as {free}"


def check_sources(folder: Path, inputs: dict[str, Any]) -> None:
    """Check that the result of a step would not replace one that was made from other files.

    Models may have been trained on data. Results of other steps are replaced unless a preparation
    has finished with them.

    Args:
        folder: the result of a step; data if its name ends in ``-bin``.

    Raises:
        InputError: the files have other digests than those in the folder's recipe.
    """
    source, recipe = read_settings(folder.parent).get(SOURCE), folder / MADE_FROM
    if not recipe.exists() or (source is None and not folder.name.endswith("-bin")):
        return
    with reading(recipe, f"is damaged; remove {folder}"):
        made_from = dict(json.loads(recipe.read_bytes()))
    present = json.loads(json.dumps(inputs))
    for name, what in DIGESTS.items():
        if differ(made_from.get(name), present.get(name)):
            files = f" ({SOURCE} {source})" if source and what == CONTENT else ""
            raise InputError(describe_changes(folder.parent, f"{what}{files}"))


def differ(before: Any, present: Any) -> bool:
    """Return whether digests differ: one of all files, or one per name.

    Test sets may be added, since models do not depend on them.
    """
    if not (isinstance(before, (dict, list)) and isinstance(present, (dict, list))):
        return before != present
    pairs = (each.items() if isinstance(each, dict) else each for each in (before, present))
    then, now = ({*map(tuple, each)} for each in pairs)
    return not then <= now or not all(name.startswith("test") for name, _ in now - then)
