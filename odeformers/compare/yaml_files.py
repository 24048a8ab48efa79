"""Files in YAML with the fields of dataclasses: ``comparison.yaml`` and ``run.yaml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from fairseq_odeformers.files import reading, replacing


def pick_fields(content: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """Pick the keys of a file that are fields of a dataclass."""
    return {item.name: content[item.name] for item in fields(kind) if item.name in content}


@contextmanager
def reading_yaml(path: Path) -> Iterator[dict[str, Any]]:
    """Read a file of this version; errors in the block name the file."""
    with reading(path, f"is no {path.name} of this version"):
        yield yaml.safe_load(path.read_text(encoding="utf-8"))


def write_yaml(path: Path, content: Mapping[str, Any]) -> None:
    with replacing(path) as temporary:
        temporary.write_text(yaml.safe_dump({**content}, sort_keys=False), encoding="utf-8")
