"""The format of exports: weights as safetensors, and the configuration as JSON.

``odeformers export checkpoint_best.pt folder`` writes ``model.safetensors`` and ``config.json``.
These files contain no code, and reading them unpickles nothing. The loaders of ``hub``, and
``--path`` of ``predict`` and ``translate``, accept the folder in place of the checkpoint. Writing
and reading exports require the extra ``export``.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from fairseq_odeformers.errors import naming_faults
from fairseq_odeformers.files import reading, replacing_folder, sha256

from .trust import check_interpolations

WEIGHTS, CONFIG = "model.safetensors", "config.json"
OWN_SUM = "sha256 of the above"  # an entry of CONFIG


def write_export(
    weights: Mapping[str, Tensor], cfg: DictConfig, classes: list[str] | None, folder: Path
) -> None:
    """Write the parts of a checkpoint to a new folder.

    A tensor that several parameters share, such as tied embeddings, is written once.
    """
    from safetensors.torch import save_file

    written: dict[str, Tensor] = {}
    shared, places = {}, {}
    for name, tensor in weights.items():
        place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if tensor.numel() and place in places:
            shared[name] = places[place]
        else:
            places[place] = name
            written[name] = tensor.contiguous()
    with replacing_folder(folder) as temporary, naming_faults(folder, "cannot be written"):
        save_file(written, temporary / WEIGHTS)
        config = {
            "config": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
            "classes": classes,
            "shared": shared,
            "sha256": sha256(temporary / WEIGHTS),
        }
        config[OWN_SUM] = checksum(config)
        (temporary / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def read_export(folder: Path) -> dict:
    """Read a folder that :func:`write_export` wrote, in the form that :func:`.read_state` returns.

    Raises:
        InputError: the folder is damaged, or its configuration calls a function (see
            :func:`.check_interpolations`).
    """
    from safetensors.torch import load_file

    with reading(folder / CONFIG, "is damaged, or not part of an export"):
        saved = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        if saved.pop(OWN_SUM) != checksum(saved):
            raise ValueError("its SHA-256 differs")
        cfg, classes, expected, shared = (
            saved[name] for name in ("config", "classes", "sha256", "shared")
        )
        check_interpolations(str(folder / CONFIG), cfg)
        cfg = OmegaConf.create(cfg)
    with reading(folder / WEIGHTS, "is damaged"):
        if sha256(folder / WEIGHTS) != expected:
            raise ValueError(f"its SHA-256 is not the one in {CONFIG}")
        weights = load_file(folder / WEIGHTS)
        weights.update({name: weights[first] for name, first in shared.items()})
    task_state = {} if classes is None else {"classes": classes}
    return {"args": None, "cfg": cfg, "model": weights, "task_state": task_state}


def checksum(config: dict) -> str:
    """Return the SHA-256 of a configuration as JSON, in hexadecimal."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
