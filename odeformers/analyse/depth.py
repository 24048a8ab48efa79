"""Score trained models with other numbers of steps or tolerances: do they still follow an ODE?"""

import argparse
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from matplotlib.figure import Figure
from torch import Tensor

from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.errors import InputError
from fairseq_odeformers.models.common.dial import Dial
from fairseq_odeformers.options import hyphenate
from fairseq_odeformers.registry import Kind, family_of
from odeformers.plots import (
    columns,
    group_by,
    label_families,
    label_powers_of_ten,
    legend,
    panels,
    styles,
)
from odeformers.predict import batches, naming_split, probabilities

from .maps import NotApplicable
from .result import Row, Tables, markdown

BATCH_SIZE = 16  # number of texts that are scored together
COMPARED_TEXTS = 2  # number of texts whose states are compared with a fine solution
STEPS = (1 / 4, 1 / 2, 1, 2, 4, 8)  # multiples of the number of steps in training
TOLERANCES = (100, 10, 1, 1 / 10, 1 / 100)  # multiples of the tolerances in training
FINE_FACTOR = 4  # multiple of the largest number of steps
FINE_TOLERANCE = 1 / 10  # multiple of the smallest tolerance
ROUNDING = 1e-6  # relative error of states that fairseq's softmax in single precision allows
MAX_RISE = 0.01  # relative rise of the loss that a model may show and still follow an ODE
MAX_ORDER_GAP = 0.5  # largest difference of the order from the method's
Build = Callable[[float], Any]  # builds a model for a value of the dial


def analyse(path: str, args: argparse.Namespace) -> Tables:
    """Compute the tables of a checkpoint.

    Raises:
        NotApplicable: the depth of the model cannot be changed.
    """
    checkpoint = Checkpoint.read(path)
    trained, task, cfg = checkpoint.build(args.data)
    ask = getattr(type(trained), "depth_dials", None)
    if ask is None:
        models = ARCH_MODEL_REGISTRY.items()
        dialled = {family_of(arch) for arch, model in models if hasattr(model, "depth_dials")}
        raise NotApplicable(
            f"{path}: {type(trained).__name__} has a layer for each depth; use a model with a "
            f"variable number of steps, from {', '.join(sorted(dialled))}"
        )
    try:
        dials = ask(cfg.model)
    except ValueError as error:
        raise NotApplicable(f"{path}: {error}") from error
    if checkpoint.regression:
        raise NotApplicable(
            f"{path}: it predicts numbers, and classes are scored here; leave it out"
        )
    rows, verdicts = [], []
    for dial in dials:

        def build(value: float, dial: Dial = dial) -> Any:
            model, *_ = checkpoint.build(args.data, task=task, **dial.at(value))
            return model.double().to(args.device).eval()

        values = values_of(dial, args.steps)
        measured = measure(dial, build, values, task, args.split, checkpoint.kind)
        rows += measured
        verdicts.append({"dial": dial.name, **judge(dial, measured)})
    return {"depth": rows, "verdicts": verdicts}


def values_of(dial: Dial, steps: Sequence[int] | None) -> list[float]:
    """Return the values to measure, from coarse to fine, including the value in training.

    Args:
        steps: numbers of steps to measure instead of multiples of the number in training.
    """
    if dial.order is None:
        return sorted({dial.value * factor for factor in TOLERANCES}, reverse=True)
    wanted = steps or [max(1, round(dial.value * factor)) for factor in STEPS]
    return sorted({*wanted, int(dial.value)})


@torch.no_grad()
def measure(
    dial: Dial, build: Build, values: Sequence[float], task, split: str, kind: Kind | None
) -> list[Row]:
    """Measure loss, score, the error of the states, and its order, for each value in a row.

    The models compute in double precision, so that the error comes from the solver and not from
    rounding. ``order`` is the order at which the error falls from the previous row.
    """
    rows: list[Row] = []
    fine = FINE_FACTOR * values[-1] if dial.order else FINE_TOLERANCE * values[-1]
    with naming_split(task, split):
        sample = next(iter(batches(task, split, [build(dial.value)], COMPARED_TEXTS)), None)
    if sample is None:
        raise InputError(
            f"{split} of {task.cfg.data} has no text that fits the model; choose a different "
            "--split"
        )
    solution = states(build(fine), sample)
    for value in values:
        model = build(value)
        scores = score(model, task, split, kind)
        row = {"dial": dial.name, "value": value, "trained": value == dial.value, **scores}
        error = (states(model, sample) - solution).norm() / solution.norm()
        rows.append({**row, "error": error.item(), "order": None})
    for before, row in pairwise(rows):
        if min(before["error"], row["error"]) > ROUNDING:
            ratio = math.log(row["value"] / before["value"])
            row["order"] = abs(math.log(before["error"] / row["error"]) / ratio)
            row["order"] *= 1 if before["error"] > row["error"] else -1
    return rows


def states(model: Any, sample: dict) -> Tensor:
    """Return the last states (N, C) of the N tokens of a batch that are not padding."""
    inputs = sample["net_input"]
    if hasattr(model, "classification_heads"):
        x, tokens = model(**inputs)[0], inputs["src_tokens"]
    else:
        encoder = getattr(model, "encoder", None)
        source = encoder and encoder(inputs["src_tokens"], inputs["src_lengths"])
        tokens = inputs["prev_output_tokens" if encoder else "src_tokens"]
        x, _ = model.decoder.extract_features(tokens, source)
    stack = getattr(model, "decoder", None) or model.encoder
    return x[tokens != stack.dictionary.pad()]


def score(model: Any, task, split: str, kind: Kind | None) -> Row:
    """Return the loss in nats per class or token, and the accuracy or the perplexity."""
    if kind is Kind.CLASSIFICATION:
        _, targets, probs = probabilities(task, [model], split, BATCH_SIZE)
        if targets is None:
            raise InputError(
                f"{split} of {task.cfg.data} has no classes; choose a different --split"
            )
        loss = -probs.gather(1, targets.unsqueeze(1)).log().mean().item()
        accuracy = (probs.argmax(1) == targets).double().mean().item()
        return {"loss": loss, "perplexity": None, "accuracy": accuracy}
    total, count, pad = 0.0, 0, task.target_dictionary.pad()
    for sample in batches(task, split, [model], BATCH_SIZE):
        out = model(**sample["net_input"])
        target = model.get_targets(sample, out)
        lprobs = model.get_normalized_probs(out, log_probs=True, sample=sample)
        losses = -lprobs.gather(-1, target.unsqueeze(-1)).squeeze(-1)[target != pad]
        total, count = total + losses.double().sum().item(), count + losses.numel()
    loss = total / max(1, count)
    return {"loss": loss, "perplexity": math.exp(min(loss, 700)), "accuracy": None}


def judge(dial: Dial, rows: Sequence[Row]) -> Row:
    """Judge whether a model follows an ODE by the rows of a dial from coarse to fine.

    A model follows an ODE if no finer solution has a loss more than 1% above the loss at the value
    in training and, on a fixed grid, if the error of its states falls with about the order of the
    method, beginning with the number of steps in training. If the steps in training are too coarse,
    the model depends on them (Ott et al. 2021).
    """
    place = next(number for number, row in enumerate(rows) if row["trained"])
    finer, loss = rows[place + 1 :], rows[place]["loss"]
    worst = max((row["loss"] for row in finer), default=loss)
    order = finer[0]["order"] if finer else None
    verdict: Row = {"rise": worst / loss - 1, "order": order, "method": dial.order, "follows": None}
    if finer:
        falls = dial.order is None or order is None or abs(order - dial.order) <= MAX_ORDER_GAP
        verdict["follows"] = verdict["rise"] <= MAX_RISE and falls
    return verdict


def sentence(row: Row) -> str:
    """Put a verdict into words."""
    name = f"**{row['model']}**, `{row['dial']}`"
    if row["follows"] is None:
        return f"{name}: no finer solution was measured, so the verdict is inconclusive."
    order = ""
    if row["method"] is not None:
        shown = "below rounding" if row["order"] is None else f"order {row['order']:.2f}"
        order = f", and the error of its states falls with {shown} (the method's: {row['method']})"
    rise = round(100 * row["rise"], 2) + 0.0  # not -0.0
    facts = f"finer solutions change the loss by {rise:+.2f}% at worst{order}"
    if row["follows"]:
        return f"{name}: {facts}. The trained model still follows an ODE."
    if row["rise"] > MAX_RISE:
        return (
            f"{name}: {facts}. The trained model no longer follows an ODE: its steps have become "
            "part of it (Ott et al. 2021)."
        )
    return (
        f"{name}: {facts}. The score does not depend on the number of steps. The steps are too "
        "coarse to show the method's order, so the verdict is inconclusive."
    )


def page(tables: Tables, args: argparse.Namespace) -> tuple[str, list[Callable]]:
    """Return the page in Markdown, and the figures; print the sentences of the page."""
    sentences = "\n".join(f"- {sentence(row)}" for row in tables["verdicts"])
    print(f"\n{sentences}")
    text = f"# Depth as a dial\n\n{sentences}\n\n{markdown(tables['depth'])}"
    return text, [depth, convergence]


def depth(tables: Tables) -> Figure:
    """Perplexity or accuracy against the number of steps or the tolerance.

    All panels of one measure have the same scale. A star marks the depth in training. Tolerances
    fall from left to right.
    """
    measures = ("perplexity", "accuracy")
    rows = [
        {**row, "measure": name, "score": row[name]}
        for row in tables["depth"]
        for name in measures
        if row[name] is not None
    ]
    return curves(rows, "score")


def convergence(tables: Tables) -> Figure:
    """Distance of the last states from a finer solution, relative to the norm of that solution."""
    rows = [{**row, "measure": "error"} for row in tables["depth"]]
    figure = curves(rows, "error")
    for axes in figure.axes:
        axes.set_yscale("log")
        label_powers_of_ten(axes)
    return figure


def curves(rows: list[Row], y: str) -> Figure:
    """Draw a panel for each option and measure, with a curve for each model.

    The panels of a measure share their vertical axis.
    """
    places = [{**row, "panel": (row["dial"], row["measure"])} for row in rows]
    grouped = dict(group_by(places, "panel"))
    looks = styles(dict.fromkeys(row["model"] for row in rows))
    names = label_families(looks)
    figure, grid = panels(len(grouped), 3, 3.5, 3)
    drawn, first = {}, {}
    for axes, ((option, measure), of_panel) in zip(grid, grouped.items()):
        if axes is not first.setdefault(measure, axes):
            axes.sharey(first[measure])
        for model, of_model in group_by(of_panel):
            look = {"label": names[model], **looks[model]}
            (drawn[model],) = axes.plot(*columns(of_model, "value", y), **look)
            star = {
                "marker": "*",
                "markersize": 15,
                "linestyle": "",
                "color": looks[model]["color"],
            }
            axes.plot(*columns([row for row in of_model if row["trained"]], "value", y), **star)
        axes.set_xscale("log")
        axes.set(xlabel=f"--{hyphenate(option)}", ylabel=measure)
        if "steps" in option:
            ticks = sorted({row["value"] for row in of_panel})
            axes.set_xticks(ticks, [f"{value:g}" for value in ticks])
            axes.minorticks_off()
        else:
            axes.invert_xaxis()
    legend(figure, [*drawn.values()])
    return figure
