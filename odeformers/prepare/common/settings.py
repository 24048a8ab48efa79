"""Settings of a prepared folder: its options and source files, which later preparations keep."""

import argparse
import json
from collections.abc import Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_odeformers.files import MADE_FROM, find_free_name, reading
from fairseq_odeformers.options import flag
from odeformers.arguments import name_differences

SETTINGS = "settings.json"  # the file with the options of a folder's preparation
NO_SETTINGS = ("source", "out", "default_out", "workers", "tasks")
SOURCE = "--from"
DIGESTS = ("from", "raw", "texts")  # inputs of steps that contain digests of the sources


class Finished(NamedTuple):
    """An earlier preparation that has finished in the folder of the present one."""

    out: Path
    earlier: str  # its --from
    source: str  # --from of the present preparation


finished: ContextVar[Finished | None] = ContextVar("finished", default=None)


def check_settings(args: argparse.Namespace) -> tuple[dict[str, Any], str | None]:
    """Return the options that determine a result, and check that the folder has no others.

    Also return ``--from`` of a preparation that has finished in the folder, or None if none has, or
    if its version did not record it.
    """
    settings = {
        flag(name): value
        for name, value in vars(args).items()
        if isinstance(value, (str, int, float, type(None))) and name not in NO_SETTINGS
    }
    path, source = args.out / SETTINGS, None
    if path.exists():
        with reading(path, f"is damaged; remove {args.out}"):
            earlier = dict(json.loads(path.read_bytes()))
        earlier.setdefault("--corpus", settings.get("--corpus"))  # folders of 0.1 lack it
        values = {name: (earlier.get(name), value) for name, value in settings.items()}
        if changes := name_differences(values):
            raise ValueError(describe_changes(args.out, changes))
        source = earlier.get(SOURCE)
    return settings, source


def describe_changes(out: Path, changes: Iterable[str]) -> str:
    """Describe what differs from the preparation of a folder, with the remedy."""
    return (
        f"{out} was prepared with other settings ({', '.join(changes)}); remove it, or give "
        f"another --out, such as {find_free_name(out)}"
    )


def check_sources(folder: Path, inputs: dict[str, Any]) -> None:
    """Check that the result of a finished preparation would not be made from other files.

    Models may have been trained on it. A preparation of an earlier version is not checked.

    Raises:
        ValueError: the digests of the files in the folder's recipe are others.
    """
    before, recipe = finished.get(), folder / MADE_FROM
    if before is None or not recipe.exists():
        return
    with reading(recipe, f"is damaged; remove {folder}"):
        made_from = dict(json.loads(recipe.read_bytes()))
    present = json.loads(json.dumps(inputs))
    if any(differ(made_from.get(name), present.get(name)) for name in DIGESTS):
        changes = name_differences({SOURCE: (before.earlier, before.source)})
        files = f"{SOURCE} {before.source}" if before.source else "the downloaded files"
        unnamed = f"{files}: the content has changed"
        raise ValueError(describe_changes(before.out, changes or [unnamed]))


def differ(before: Any, present: Any) -> bool:
    """Return whether digests differ: one of all files, or one per name.

    Test sets may be added, since models do not depend on them.
    """
    if not (isinstance(before, (dict, list)) and isinstance(present, (dict, list))):
        return before != present
    pairs = (each.items() if isinstance(each, dict) else each for each in (before, present))
    then, now = ({*map(tuple, each)} for each in pairs)
    return not then <= now or not all(name.startswith("test") for name, _ in now - then)
