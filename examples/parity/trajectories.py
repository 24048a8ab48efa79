"""Draw what a trained N-ODE Transformer does: where its tokens go, and in how many steps.

In the left part of the figure each of some strings has a panel: the states of its tokens over time,
one block after the other, in the two principal components of the states of all of these strings. On
the right is the number of steps that a string takes by itself, against its length and parity.
Leaves trajectories.png, and steps.csv with all strings. Needs the extra ``plots``.
"""

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor
from torchdiffeq import odeint

from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.files import write_csv
from fairseq_odeformers.models.node_transformer.layout import features_first
from fairseq_odeformers.models.node_transformer.models import NodeTransformer
from fairseq_odeformers.models.node_transformer.stacks import make_solver
from fairseq_odeformers.modules.tableaus import ADAPTIVE
from fairseq_odeformers.tasks.parity import CLASSES, ParityTask
from odeformers import plots

STRINGS = "000 001 011 0110 0111 111111".split()
POINTS = 100  # of a trajectory, a block
STEPS = ("encoder_accepted", "encoder_rejected")
COLORS = {"<s>": plots.BLACK, "0": plots.BLUE, "1": plots.VERMILLION}
PARITIES = dict(zip(CLASSES, (plots.GREEN, plots.ORANGE)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("checkpoint", help="of a node_transformer on the task parity")
    parser.add_argument(
        "--strings", nargs="+", help="to be drawn; by default some that the model was trained on"
    )
    parser.add_argument("--out", type=Path, default=Path("data/parity"), help="folder")
    args = parser.parse_args()
    try:
        model, task, _ = Checkpoint.read(args.checkpoint).build()
        model.eval()
        check(model, task, args.checkpoint)
        longest = task.max_positions() - 1
        strings = args.strings or [text for text in STRINGS if len(text) <= longest] or ["0", "1"]
        texts = {string: encode(string, task) for string in strings}
        trajectories = {string: trajectory(model, task, tokens) for string, tokens in texts.items()}
        rows = steps_of_all(model, task)
        args.out.mkdir(parents=True, exist_ok=True)
        write_csv(args.out / "steps.csv", rows)
        plots.save(draw, (trajectories, rows), args.out / "trajectories.png")
    except (ValueError, OSError) as error:
        sys.exit(f"trajectories.py: error: {error}")
    print(f"wrote {args.out / 'trajectories.png'} and steps.csv")


def check(model, task, checkpoint: str) -> None:
    """Raise a ValueError if there is nothing to draw of a checkpoint."""
    if not isinstance(task, ParityTask) or not isinstance(model, NodeTransformer):
        raise ValueError(f"{checkpoint} is not of a node_transformer on the task parity")
    if model.args.ode_method not in ADAPTIVE:
        raise ValueError(
            f"{checkpoint} was trained with fixed steps (--ode-method "
            f"{model.args.ode_method}); train with one of {', '.join(ADAPTIVE)}"
        )


def encode(string: str, task) -> Tensor:
    """Tokens (1, T) of a string, after the start token."""
    dictionary = task.source_dictionary
    if not string or set(string) - {"0", "1"}:
        raise ValueError(f"--strings {string!r}: give strings of zeros and ones")
    if len(string) >= task.max_positions():
        raise ValueError(
            f"--strings {string}: the model was trained on {task.max_positions() - 1} bits"
        )
    return torch.tensor([[dictionary.bos(), *map(dictionary.index, string)]])


@torch.no_grad()
def trajectory(model, task, tokens: Tensor) -> tuple[np.ndarray, str]:
    """States over the time of all blocks (N POINTS, T, C), and the class of a string."""
    x, _ = model.encoder.forward_embedding(tokens)
    x = features_first(x.transpose(0, 1))
    states = []
    for block in model.encoder.layers:
        times = torch.linspace(0, block.final_time, POINTS)
        states.append(odeint(block.field.bind(x), x, times, rtol=1e-6, atol=1e-6))
        x = states[-1][-1]
    logits, _ = model(tokens, classification_head_name=task.cfg.classification_head_name)
    return torch.cat(states)[..., 0].transpose(1, 2).numpy(), CLASSES[logits.argmax()]


@torch.no_grad()
def steps_of_all(model, task) -> list[dict]:
    """The steps over all blocks, with the rejected ones, that each string takes by itself."""
    spec = model.encoder.spec
    for block in model.encoder.layers:
        block.solver = make_solver(replace(spec, adaptivity="sequence", adjoint=False))
    task.load_dataset("train")
    strings = task.dataset("train")
    batch = strings.collater(range(len(strings)))
    statistics = model.encoder(**batch["net_input"])["statistics"]
    steps = sum(count for name, count in statistics.items() if name.startswith(STEPS))
    symbols = task.source_dictionary.symbols
    rows = []
    for tokens, length, target, count in zip(
        batch["net_input"]["src_tokens"], strings.lengths, batch["target"], steps
    ):
        bits = "".join(symbols[index] for index in tokens[1:length])
        rows.append({"string": bits, "parity": CLASSES[target], "steps": int(count)})
    return rows


def draw(data: tuple[dict, list[dict]]) -> Figure:
    """Both parts of the figure, of the trajectories of some strings and the steps of all."""
    trajectories, rows = data
    figure = Figure(figsize=(9.6, 4.8), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[2, 1])
    draw_trajectories(left, trajectories)
    draw_steps(right.subplots(), rows)
    return figure


def draw_trajectories(figure, trajectories: dict) -> None:
    """A panel for each string, on its own scale: a line for each token from t = 0 to t = 1."""
    points = np.concatenate(
        [states.reshape(-1, states.shape[-1]) for states, _ in trajectories.values()]
    )
    mean = points.mean(0)
    _, _, directions = np.linalg.svd(points - mean, full_matrices=False)
    columns = math.ceil(len(trajectories) ** 0.5)
    rows = math.ceil(len(trajectories) / columns)
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for (string, (states, parity)), axes in zip(trajectories.items(), panels):
        for symbol, path in zip(
            ("<s>", *string), (states - mean).swapaxes(0, 1) @ directions[:2].T
        ):
            axes.plot(*path.T, color=COLORS[symbol], alpha=0.7)
            axes.plot(*path[0], "o", *path[-1], "x", color=COLORS[symbol])
        axes.set_title(f"{string}: {parity}")
    for axes in panels:  # those that are left
        axes.remove()
    lines = [Line2D([], [], color=color, label=symbol) for symbol, color in COLORS.items()]
    for marker, label in (("o", "t = 0, first block"), ("x", "t = 1, last block")):
        lines.append(Line2D([], [], color="grey", marker=marker, linestyle="", label=label))
    figure.legend(handles=lines, loc="outside upper center", ncols=len(lines))
    figure.supxlabel("first principal component", fontsize="medium")
    figure.supylabel("second principal component", fontsize="medium")


def draw_steps(axes, rows: list[dict]) -> None:
    """Mean, fewest and most steps of the strings of each length and parity."""
    for shift, (parity, strings) in zip((-0.1, 0.1), plots.group_by(rows, "parity")):
        by_length = {}
        for row in strings:
            by_length.setdefault(len(row["string"]), []).append(row["steps"])
        x, look = [length + shift for length in by_length], {"color": PARITIES[parity]}
        plots.means_and_ranges(axes, x, [*by_length.values()], label=parity, **look)
    plots.integer_ticks(axes)
    axes.set(xlabel="bits", ylabel="steps", title="solver's steps: mean, fewest, most")
    axes.legend()


if __name__ == "__main__":
    main()
