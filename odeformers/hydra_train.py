"""The command ``odeformers hydra-train``: fairseq-hydra-train with the options of this package."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Sequence
from inspect import signature
from typing import Any

from fairseq import utils
from fairseq.dataclass.initialize import hydra_init
from omegaconf import DictConfig, OmegaConf

from fairseq_odeformers.files import check_joined
from fairseq_odeformers.registry import import_plugins


def main(arguments: Sequence[str]) -> None:
    """Run ``fairseq-hydra-train`` after importing this package.

    After the import, options of a model, task or criterion need neither be in the YAML nor have a
    ``+``. Input files are relative to the current folder, not to the folder that Hydra makes.
    """
    import fairseq_cli.hydra_train as fairseq_hydra
    import hydra
    from fairseq.dataclass.configs import FairseqConfig
    from hydra._internal.utils import get_args

    groups = [name for name, part in FairseqConfig.__dataclass_fields__.items() if part.type is Any]
    option = re.compile(rf"^(?=({'|'.join(groups)})\.\w+=)")
    if hasattr(hydra, "compose"):  # hydra 1.0, for fairseq 0.12.2, has neither compose nor ++
        arguments = [option.sub("++", word) for word in arguments]
    sys.argv[1:] = arguments

    def train(cfg):
        try:
            make_absolute(cfg)
        except ValueError as error:  # Hydra would print a traceback
            sys.exit(f"odeformers hydra-train: error: {error}")
        return fairseq_hydra._hydra_main(cfg)

    train.__module__ = fairseq_hydra.__name__  # Hydra looks for fairseq's defaults next to it
    hydra_init(get_args().config_name or "config")
    settings = {"config_path": os.path.join("..", "fairseq", "config"), "config_name": "config"}
    if "version_base" in signature(hydra.main).parameters:  # not in hydra 1.0 and 1.1
        settings["version_base"] = "1.1"
        # hydra 1.3.5 and later announce that 1.4 drops this behaviour; fairseq requires 1.3.
        warnings.filterwarnings("ignore", r"\s*version_base=", UserWarning)
    hydra.main(**settings)(train)()


def make_absolute(cfg: DictConfig) -> None:
    """Make the input paths of a training run relative to the folder where Hydra was started.

    Raises:
        InputError: ``common.user_dir`` cannot be imported, or a path has a colon.
    """
    from hydra.utils import to_absolute_path

    def resolve(group: str, name: str, default: str | None = None) -> None:
        path = OmegaConf.select(cfg, f"{group}.{name}")
        if path not in (None, default):
            check_joined(to_absolute_path(path))
            paths = map(to_absolute_path, utils.split_paths(path))
            OmegaConf.update(cfg, f"{group}.{name}", os.pathsep.join(paths))

    resolve("task", "data")
    resolve("common", "user_dir")
    resolve("checkpoint", "finetune_from_model")
    resolve("checkpoint", "restore_file", "checkpoint_last.pt")  # the default is in --save-dir
    if folder := cfg.common.user_dir:
        import_plugins([folder])
