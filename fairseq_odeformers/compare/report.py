"""The report of a comparison: the results of its runs as tables and pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

from scipy.stats import t as student

from fairseq_odeformers.files import replacing

from .figures import learning_curves, quality_against
from .outcomes import Perplexity, most_different
from .pages import Section, html_page, literal, markdown_page, png
from .plan import Plan
from .recipe import CLASSIFICATION, LANGUAGE_MODELING, TRANSLATION, command_line
from .results import Result, read_results
from .runs import AVERAGED, BEST
from .watch import clock

PAGE, DOCUMENT = "report.md", "report.html"
TITLES = {BEST: "best checkpoint", AVERAGED: "average of the last epochs"}
UNITS = {
    TRANSLATION: "label-smoothed, bits a token",
    CLASSIFICATION: "nats an example",
    LANGUAGE_MODELING: "bits a token",
}
Results = Mapping[str, Sequence[Result]]  # of each architecture, a seed each


def write_report(out: Path) -> list[Section]:
    """Write ``report.md`` with its pictures, and ``report.html``; returns the sections."""
    found = list(sections(*read_results(out)))
    for section in found:
        if section.figure:
            name, figure = section.figure
            with replacing(out / name) as path:
                path.write_bytes(png(figure))
    for name, make in ((PAGE, markdown_page), (DOCUMENT, html_page)):
        with replacing(out / name) as path:
            path.write_text(make(found), encoding="utf-8")
    return found


def sections(plan: Plan, results: Results) -> Iterator[Section]:
    """All parts of the report."""
    trained = {
        name: [result.training for result in of_name if result.training]
        for name, of_name in results.items()
    }
    yield trainings(plan, trained)
    for split in plan.recipe.test_sets():
        for checkpoint in TITLES:
            of_split = {
                name: {result.seed: result.outcomes[checkpoint, split] for result in of_name}
                for name, having in results.items()
                if (of_name := [r for r in having if (checkpoint, split) in r.outcomes])
            }
            if of_split:
                yield scores(plan, f"{split}, {TITLES[checkpoint]}", of_split)
                yield from own_scores(plan, results, checkpoint, split)
            if of_split and checkpoint == BEST:
                yield quality(plan, trained, split, of_split)
                yield from differences(split, of_split)
    trained = {name: runs for name, runs in trained.items() if runs}
    if trained:
        figure = learning_curves(trained, UNITS[plan.recipe.kind])
        yield Section("Learning curves", figure=("curves.png", figure))
    yield options(plan)


def trainings(plan: Plan, trained: Mapping[str, Sequence]) -> Section:
    """Size, length and loss of the trainings."""
    train = plan.recipe.train
    metric = train.get("best-checkpoint-metric", "loss")
    header = ["architecture", "parameters", "seeds", "updates", "time", "tokens a second"]
    header += [f"validation loss ({UNITS[plan.recipe.kind]})", "training loss, last epoch"]
    header += [f"validation {metric}"] if metric != "loss" else []
    best = max if train.get("maximize-best-checkpoint-metric") else min
    rows = [header]
    for entry in plan.entries:
        runs = trained[entry.name]
        row = [entry.name, f"{entry.parameters:,}", str(len(runs))]
        if runs:
            row += [
                f"{fmean(run.updates[-1] for run in runs):,.0f}",
                clock(fmean(run.seconds[-1] for run in runs)),
                f"{fmean(run.tokens for run in runs):,.0f}",
                over_seeds([min(run.losses) for run in runs], 3),
                over_seeds([run.train_losses[-1] for run in runs], 3),
            ]
            if metric != "loss" and all(run.metrics for run in runs):
                row.append(over_seeds([best(run.metrics) for run in runs], 3))
        rows.append(row + [""] * (len(header) - len(row)))
    return Section("Trainings", table=rows)


def scores(plan: Plan, title: str, outcomes: Mapping[str, Mapping]) -> Section:
    """The scores on a split, with tests against the first architecture, seed by seed."""
    first = next(iter(next(iter(outcomes.values())).values()))
    main, paper, baseline = next(iter(first.scores)), plan.recipe.paper, plan.entries[0].name
    columns = sorted({column for figures in paper.values() for column in figures})
    header = ["architecture", "seeds", *first.scores, "seed by seed", f"p against {baseline}"]
    rows = [[*header, *(f"paper: {column}" for column in columns)]]
    for name, runs in outcomes.items():
        row = [name, str(len(runs))]
        for column in first.scores:
            row.append(over_seeds([run.scores[column] for run in runs.values()], first.digits))
        row.append(", ".join(f"{run.scores[main]:.{first.digits}f}" for run in runs.values()))
        tests = [
            run.p_value(outcomes[baseline][seed])
            for seed, run in runs.items()
            if name != baseline and seed in outcomes.get(baseline, ())
        ]
        row.append(", ".join(f"{p:.3f}" for p in tests if p is not None))
        row += [str(paper.get(name, {}).get(column, "")) for column in columns]
        rows.append(row)
    return Section(title, "\n".join(f"`{line}`" for line in first.signatures), rows)


def own_scores(plan: Plan, results: Results, checkpoint: str, split: str) -> Iterator[Section]:
    """What the recipe's own command says of each run."""
    rows = [
        [f"{name}, seed {result.seed}", line]
        for name, of_name in results.items()
        for result in of_name
        for line in result.scores.get((checkpoint, split), ())
    ]
    if rows:
        yield Section("", table=[["run", plan.recipe.score[split]], *rows])


def quality(plan: Plan, trained: Mapping, split: str, outcomes: Mapping[str, Mapping]) -> Section:
    """A picture of the first score against the time of a training and the size of the model."""
    first = next(iter(next(iter(outcomes.values())).values()))
    column = next(iter(first.scores))
    points = {
        entry.name: (
            fmean(run.seconds[-1] / 60 for run in trained[entry.name]),
            entry.parameters / 1e6,
            [run.scores[column] for run in outcomes[entry.name].values()],
        )
        for entry in plan.entries
        if entry.name in outcomes and trained[entry.name]
    }
    figure = quality_against(points, f"{column}, {split}")
    return Section(f"{column} against cost", figure=(f"quality-{split}.png", figure))


def differences(split: str, outcomes: Mapping[str, Mapping]) -> Iterator[Section]:
    """The texts on which the architectures differ most, by their first seeds."""
    firsts = {name: next(iter(runs.values())) for name, runs in outcomes.items()}
    if len(firsts) < 2 or any(isinstance(outcome, Perplexity) for outcome in firsts.values()):
        return
    for number, texts in enumerate(most_different(firsts), start=1):
        rows = [["", f"{split}, text {number}"]]
        rows += [[name, literal(text)] for name, text in texts.items()]
        yield Section("Where they differ most" if number == 1 else "", table=rows)


def options(plan: Plan) -> Section:
    """The options that all trainings share, and those in which they differ."""
    first, *others = (entry.options for entry in plan.entries)
    shared = {k: v for k, v in first.items() if all(o.get(k) == v for o in others)}
    rows = [["architecture", "its own options", "size"]]
    for entry in plan.entries:
        own = {name: value for name, value in entry.options.items() if name not in shared}
        rows.append([entry.name, " ".join(command_line(own)), entry.note])
    line = " ".join(command_line(shared))
    return Section("Options", f"All trainings: `fairseq-train {plan.recipe.data} {line}`", rows)


def over_seeds(values: Sequence[float], digits: int) -> str:
    """The mean; of several values the standard deviation, and of three or more the 95% interval.

    The interval is Student's, of the mean over seeds.
    """
    text = f"{fmean(values):,.{digits}f}"
    if len(values) > 1:
        spread = stdev(values)
        text += f" ± {spread:.{digits}f}"
    if len(values) > 2:
        half = student.ppf(0.975, len(values) - 1) * spread / math.sqrt(len(values))
        low, high = fmean(values) - half, fmean(values) + half
        text += f" ({low:,.{digits}f} to {high:,.{digits}f})"
    return text
