"""Checks that decide whether a model may be built from a checkpoint.

The model and the task must be safe, the weights must be finite, and the model must be no larger
than the weights. The configuration may neither call functions of OmegaConf nor name files of
subwords.
"""

import re
import threading
from argparse import Namespace
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from fairseq.data.encoders import BPE_REGISTRY, TOKENIZER_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from torch import Tensor
from torch.nn.modules.module import register_module_parameter_registration_hook

from fairseq_odeformers.errors import InputError, naming_faults

# Modules of fairseq with models and tasks that run no code named by a checkpoint, and with
# tokenizers and subwords that read no file named by it.
SAFE = {
    *("fairseq.models.transformer.transformer_legacy", "fairseq.models.transformer_lm"),
    *("fairseq.models.roberta.model", "fairseq.models.bart.model"),
    *("fairseq.tasks.translation", "fairseq.tasks.language_modeling"),
    *("fairseq.tasks.masked_lm", "fairseq.tasks.sentence_prediction"),
    *("fairseq.data.encoders.bytes", "fairseq.data.encoders.characters"),
    *(f"fairseq.data.encoders.{name}_tokenizer" for name in ("moses", "nltk", "space")),
}
ENCODERS = {"bpe": BPE_REGISTRY, "tokenizer": TOKENIZER_REGISTRY}
# An interpolation that may call a function; ${model.dropout} does not.
RESOLVER = re.compile(r"\$\{.*:", re.DOTALL)


def check_trust(path: str, cfg, weights: Mapping[str, Tensor]) -> None:
    """Check the configuration and the weights of a checkpoint before a model is built from it.

    Raises:
        InputError: the model or the task is not registered, or is fairseq's and not known to be
            safe; or a weight is not finite.
    """
    with naming_faults(path, "is not a checkpoint of a training run"):
        arch, task = read_names(cfg)
        check_name(path, "architecture", arch, ARCH_MODEL_REGISTRY)
        check_name(path, "task", task, TASK_REGISTRY)
        check_finite(path, weights)


def read_names(cfg) -> tuple[str, str]:
    """Return the architecture and the task of a configuration, as names that fairseq looks up."""
    model, task = cfg.model, cfg.task
    arch = getattr(model, "_name", None) or getattr(model, "arch", None)
    legacy = getattr(task, "task", None)
    name = legacy if isinstance(legacy, str) else getattr(task, "_name", None)
    return str(arch), str(name)


def check_name(path: str, kind: str, name: str, registry: dict) -> None:
    """Check that the architecture or task of a checkpoint may be built.

    It may be built if this package or another plugin has registered it. Some of fairseq's own
    architectures and tasks run programs, or load files or models that an option names; only those
    in :data:`SAFE` may be built.

    Raises:
        InputError: the architecture or the task may not be built.
    """
    if name not in registry:
        raise InputError(
            f"{path} has the {kind} {name}, which is not registered; pass the folder that "
            "registers it to --user-dir (in Python: import it)"
        )
    module = registry[name].__module__
    if module.startswith("fairseq.") and module not in SAFE:
        raise InputError(
            f"{path} has fairseq's {kind} {name}, which may run code from a checkpoint; if you "
            "trust the file, use fairseq's own commands"
        )


def check_encoders(path: str, cfg: Any, options: Container[str] = ()) -> None:
    """Check the subwords and the tokenizer of a checkpoint before they are built.

    Most of fairseq's subwords and tokenizers read files that an option names, and download them if
    it names a URL.

    Args:
        options: options that replace the checkpoint's.

    Raises:
        InputError: the checkpoint names subwords or a tokenizer of fairseq that are not in
            :data:`SAFE`.
    """
    for option, registry in ENCODERS.items():
        saved = cfg.get(option)
        key = option if isinstance(saved, Namespace) else "_name"  # fairseq has both forms
        name = saved if isinstance(saved, str) else getattr(saved, key, None)
        module = getattr(registry.get(name), "__module__", "")
        if option not in options and module.startswith("fairseq.") and module not in SAFE:
            raise InputError(
                f"{path} has the {option} {name}, which reads files or URLs that the checkpoint "
                f"names; use load_translator or load_language_model with {option}={name!r} and "
                "its other options"
            )


def check_interpolations(path: str, config: Any) -> None:
    """Check a configuration before OmegaConf replaces the interpolations in it.

    Raises:
        InputError: an interpolation calls a function, as ``${oc.env:HOME}`` does to read the
            environment. fairseq never saves such an interpolation.
    """
    values, seen = [config], set[int]()
    while values:
        value = values.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Namespace):
            value = vars(value)
        if isinstance(value, Mapping):
            values += value.values()
        elif isinstance(value, (list, tuple)):
            values += value
        elif isinstance(value, str) and RESOLVER.search(value):
            raise InputError(
                f"{path} is not loaded: its configuration has {value[:80]!r}, which calls a "
                "function of OmegaConf; fairseq never saves this: get the file again from a source "
                "that you trust"
            )


def check_finite(path: str, weights: Mapping[str, Tensor]) -> None:
    """Check that the weights of a checkpoint are finite.

    Raises:
        InputError: a weight is not finite; the message names the first one.
    """
    for name, tensor in weights.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise InputError(f"{path}: {name} is not finite; use an earlier checkpoint")


@contextmanager
def limit_size(path: str, weights: Sequence[Tensor]) -> Iterator[None]:
    """Limit the parameters that the ``with`` block may register to about the checkpoint's size.

    The limit is somewhat higher, since a model may register a parameter twice or have a head that
    the checkpoint lacks. Models that other threads build are not counted.

    Raises:
        InputError: the block registers far more parameters, for example for a million layers.
    """
    thread = threading.get_ident()
    remaining = [4 * len(weights) + 100, 4 * sum(map(Tensor.numel, weights)) + 10**6]

    def count(module, name, parameter):
        if parameter is not None and threading.get_ident() == thread:
            remaining[0] -= 1
            remaining[1] -= parameter.numel()
            if min(remaining) < 0:
                raise InputError(
                    f"{path}: its options describe a larger model than its weights; the file is "
                    "damaged or was edited; export it again"
                )

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()
