"""Average the parameters of several checkpoints of one training run.

For example, average the last ten checkpoints of a run with --save-interval-updates 2000
--keep-interval-updates 10:

    odeformers average --checkpoint-dir checkpoints --by update --last 10 \\
        --output checkpoints/averaged.pt
"""

import argparse
import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

from fairseq_odeformers.checkpoints.origin import remember
from fairseq_odeformers.checkpoints.state import read_state
from fairseq_odeformers.checkpoints.trust import check_finite
from fairseq_odeformers.errors import InputError, naming_faults
from fairseq_odeformers.files import replacing
from odeformers.parser import Parser, output_file, positive_int

FILE_NAMES = {"epoch": r"checkpoint(\d+)\.pt", "update": r"checkpoint_\d+_(\d+)\.pt"}


def last_checkpoints(folder: Path, by: str, last: int) -> list[Path]:
    """Return the newest *last* checkpoints in *folder*, oldest first.

    Args:
        by: ``epoch`` for checkpoints such as ``checkpoint7.pt`` (``--save-interval``), or
            ``update`` for checkpoints such as ``checkpoint_7_14000.pt``
            (``--save-interval-updates``).
    """
    newest_first = checkpoint_utils.checkpoint_paths(str(folder), FILE_NAMES[by])
    if len(newest_first) < last:
        [other] = FILE_NAMES.keys() - {by}
        raise InputError(
            f"--last {last}: {folder} has {len(newest_first)} checkpoints by {by}; lower --last, "
            f"or pass --by {other}"
        )
    return [Path(path) for path in reversed(newest_first[:last])]


def average(paths: Sequence[Path]) -> dict[str, Any]:
    """Return the last checkpoint, with its parameters replaced by their mean over all checkpoints.

    Means are computed in float64, so that a tensor that is equal in all checkpoints does not change
    by a bit. Tensors that share memory continue to do so. The optimizer's state and the validation
    score are left out.

    Raises:
        OSError: a file does not exist.
        InputError: a file is not a checkpoint, or a value is not finite; or the checkpoints differ
            in the names or shapes of their tensors, or in the values of a tensor without a mean.
    """
    sums: dict[str, torch.Tensor] = {}
    remedy = "average checkpoints of one run"
    for path in paths:
        state = read_state(str(path))
        with naming_faults(path, "is not a checkpoint of a training run"):
            model = dict(state["model"])
            check_finite(str(path), model)
        for name in sorted(sums.keys() | model.keys()) if sums else ():
            if name not in sums or name not in model or sums[name].shape != model[name].shape:
                raise InputError(
                    f"{paths[0]} and {path} have different models: see {name}; {remedy}"
                )
            if not model[name].is_floating_point() and not torch.equal(sums[name], model[name]):
                raise InputError(
                    f"{paths[0]} and {path} differ in {name}, which has no mean; {remedy}"
                )
        for name, tensor in model.items():
            has_mean = tensor.is_floating_point()
            sums[name] = sums.get(name, 0) + tensor.double() if has_mean else tensor
    means = copy.deepcopy(model)
    for name, tensor in means.items():
        if tensor.is_floating_point():
            tensor.copy_(sums[name] / len(paths))
    state = {name: value for name, value in state.items() if name != "last_optimizer_state"}
    cfg = OmegaConf.to_container(state["cfg"], enum_to_str=True)  # fairseq saves a dictionary
    extra = {**(state.get("extra_state") or {}), "val_loss": None}
    return {**state, "model": means, "cfg": cfg, "extra_state": extra}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = Parser(
        prog="odeformers average",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--inputs", metavar="FILE", type=Path, nargs="+", help="checkpoints to average"
    )
    source.add_argument(
        "--checkpoint-dir",
        metavar="DIR",
        type=Path,
        help="folder of checkpoints, the --save-dir of a run",
    )
    parser.add_argument(
        "--last",
        metavar="N",
        type=positive_int,
        help="number of last checkpoints in DIR to average",
    )
    parser.add_argument(
        "--by",
        choices=FILE_NAMES,
        default="update",
        help="average checkpoints that were saved after an epoch, or after a number of updates "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--output", metavar="FILE", type=output_file, required=True, help="checkpoint to write"
    )
    args = parser.parse_args(arguments)
    if (args.checkpoint_dir is None) != (args.last is None):
        parser.error("--checkpoint-dir and --last go together")
    if args.checkpoint_dir and not args.checkpoint_dir.is_dir():
        parser.error(f"--checkpoint-dir {args.checkpoint_dir}: no such folder; pass --save-dir")
    paths = args.inputs or last_checkpoints(args.checkpoint_dir, args.by, args.last)
    state = average(paths)
    with replacing(args.output) as path:
        torch.save(state, path)
        remember(path)
    print(f"{args.output}: mean of {', '.join(path.name for path in paths)}")
