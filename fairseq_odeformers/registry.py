"""What the plugin registers with fairseq, and the options of its architectures."""

from __future__ import annotations

from dataclasses import fields
from difflib import get_close_matches

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf

from fairseq_odeformers.models.common.options import flag

KINDS = {
    "architectures": ARCH_MODEL_REGISTRY,
    "tasks": TASK_REGISTRY,
    "criterions": CRITERION_REGISTRY,
}


def registered() -> dict[str, list[str]]:
    """The names of the plugin's architectures, tasks and criterions."""
    package = f"{__package__}."
    return {
        kind: sorted(name for name, owner in items.items() if owner.__module__.startswith(package))
        for kind, items in KINDS.items()
    }


def option_rows(arch: str) -> list[tuple[str, str, str]]:
    """The options of an architecture: names on the command line, default, and help.

    A default that is another option's value is that option's name.

    Raises:
        ValueError: there is no such architecture.
    """
    known = registered()["architectures"]
    if arch not in known:
        near = get_close_matches(arch, known, n=3)
        remedy = f"did you mean {' or '.join(near)}?" if near else "see the list"
        raise ValueError(f"no architecture {arch!r}; {remedy}")
    config = MODEL_DATACLASS_REGISTRY[arch]
    defaults = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    rows = [("option", "default", "")]
    for item in fields(config):
        text = item.metadata.get("help")
        if text is not None:
            alias = item.metadata.get("argparse_alias")
            name = ", ".join([flag(item.name), *([alias] if alias else [])])
            rows.append((name, shown(defaults[item.name]), text))
    return rows


def shown(default) -> str:
    """A default as one writes it; ``${model.encoder_layers}`` is ``--encoder-layers``."""
    if isinstance(default, str) and default.startswith("${model."):
        return flag(default[len("${model.") : -1])
    return "" if default is None else str(default)
