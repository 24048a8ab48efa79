"""The report of a comparison: what its runs have left, as tables and pictures."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, stdev

import yaml
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset
from scipy.stats import t as student

from fairseq_odeformers.files import check_regular, naming, read_lines, replacing

from .figures import learning_curves, quality_against
from .pages import Section, html_page, literal, markdown_page, png
from .plan import Entry, Plan
from .recipe import CLASSIFICATION, LANGUAGE_MODELING, TRANSLATION, Recipe, checked, command_line
from .results import (
    Classes,
    Perplexity,
    Training,
    Translations,
    examples,
    read_training,
)
from .runs import AVERAGED, BEST, LOG, SCORE

PLAN, PAGE, DOCUMENT = "plan.yaml", "report.md", "report.html"
TITLES = {BEST: "best checkpoint", AVERAGED: "average of the last epochs"}
UNITS = {
    TRANSLATION: "label-smoothed, bits a token",
    CLASSIFICATION: "nats an example",
    LANGUAGE_MODELING: "bits a token",
}


def save_plan(plan: Plan, out: Path) -> None:
    """Keep a plan beside its runs, for reports, with the architectures of earlier commands."""
    entries = {entry.name: entry for entry in plan.entries}
    if (out / PLAN).is_file() and (earlier := load_plan(out)).recipe.data == plan.recipe.data:
        entries |= {entry.name: entry for entry in earlier.entries if entry.name not in entries}
    content = {
        "recipe": asdict(plan.recipe),
        "entries": [asdict(entry) for entry in entries.values()],
        "user_dir": plan.user_dir,
    }
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / PLAN) as path:
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def load_plan(out: Path) -> Plan:
    """The plan that :func:`save_plan` has kept.

    Raises:
        ValueError: there is none.
    """
    path = out / PLAN
    if not path.is_file():
        raise ValueError(f"{out} is not a folder of odeformers compare: it has no {PLAN}")
    with naming(path, f"is not a {PLAN} of odeformers compare"):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        entries = tuple(checked(Entry, entry, str(path)) for entry in content["entries"])
        return Plan(checked(Recipe, content["recipe"], str(path)), entries, content["user_dir"])


class Report:
    """What the runs of a comparison have left so far.

    Args:
        out: their folder.
    """

    def __init__(self, out: Path):
        check_regular(out)
        self.out = out
        self.plan = load_plan(out)
        self.recipe = self.plan.recipe
        self.names = [entry.name for entry in self.plan.entries]
        self.entries = dict(zip(self.names, self.plan.entries))
        self.metric = self.recipe.train.get("best-checkpoint-metric", "loss")
        self.trainings: dict[str, dict[int, Training]] = defaultdict(dict)
        for name in self.names:
            for seed in self.seeds(name):
                log = self.folder(name, seed) / LOG
                with naming(log):
                    if log.exists() and (training := read_training(log, self.metric)).losses:
                        self.trainings[name][seed] = training

    def folder(self, name: str, seed: int) -> Path:
        return self.out / f"{name}-seed{seed}"

    def seeds(self, name: str) -> list[int]:
        """The seeds that have a folder, those of earlier commands too; ``01`` is not one's name."""
        found = (path.name[len(name) + 5 :] for path in self.out.glob(f"{name}-seed*"))
        return sorted(int(text) for text in found if re.fullmatch("0|[1-9][0-9]*", text))

    def outcome(self, name: str, seed: int, checkpoint: str, split: str):
        """The result of a run on a split, or None if it is not there yet."""
        folder = self.folder(name, seed)
        kind = self.recipe.kind
        path = folder / f"{checkpoint}.{split}.{'tsv' if kind == CLASSIFICATION else 'out'}"
        if not path.exists():
            return None
        with naming(path):
            if kind == TRANSLATION:
                return Translations(path, self.recipe.train["target-lang"], self.references(split))
            return Classes(path, self.texts(split)) if kind == CLASSIFICATION else Perplexity(path)

    def references(self, split: str) -> list[str] | None:
        """The text of a test set before it was tokenised, if the preparation has left it."""
        path = (
            Path(self.recipe.data).parent / "plain" / f"{split}.{self.recipe.train['target-lang']}"
        )
        return list(read_lines(path)) if path.is_file() else None

    def texts(self, split: str) -> list[str] | None:
        """The texts of a labelled split, as far as the dictionary knows their symbols."""
        folder = Path(self.recipe.data) / "input0"
        if not (folder / f"{split}.idx").is_file():
            return None
        with naming(folder / split):
            dictionary = Dictionary.load(str(folder / "dict.txt"))
            dataset = MMapIndexedDataset(str(folder / split))
            return [dictionary.string(dataset[index]) for index in range(len(dataset))]

    def sections(self) -> Iterator[Section]:
        """All parts of the report."""
        yield self.summary()
        for split in self.plan.splits:
            for checkpoint in (BEST, AVERAGED) if self.recipe.average else (BEST,):
                yield from self.scores(split, checkpoint)
        if self.trainings:
            trainings = {name: list(runs.values()) for name, runs in self.trainings.items()}
            figure = learning_curves(trainings, UNITS[self.recipe.kind])
            yield Section("Learning curves", figure=("curves.png", figure))
        yield self.options()

    def summary(self) -> Section:
        """Size, length and loss of the trainings."""
        header = ["architecture", "parameters", "seeds", "updates", "minutes", "tokens a second"]
        header += [f"validation loss ({UNITS[self.recipe.kind]})", "training loss, last epoch"]
        if self.metric != "loss":
            header.append(f"validation {self.metric}")
        best = max if self.recipe.train.get("maximize-best-checkpoint-metric") else min
        rows = [header]
        for name in self.names:
            runs = list(self.trainings.get(name, {}).values())
            row = [name, f"{self.entries[name].parameters:,}", str(len(runs))]
            if runs:
                row += [
                    mean([run.updates[-1] for run in runs], 0),
                    mean([run.seconds[-1] / 60 for run in runs], 1),
                    mean([run.tokens for run in runs], 0),
                    over_seeds([min(run.losses) for run in runs], 3),
                    over_seeds([run.train_losses[-1] for run in runs], 3),
                ]
                if self.metric != "loss" and all(run.metrics for run in runs):
                    row.append(over_seeds([best(run.metrics) for run in runs], 3))
            rows.append(row + [""] * (len(header) - len(row)))
        return Section("Trainings", table=rows)

    def scores(self, split: str, checkpoint: str) -> Iterator[Section]:
        """The scores on a split, and the examples that differ most."""
        outcomes = {
            name: {
                seed: outcome
                for seed in self.seeds(name)
                if (outcome := self.outcome(name, seed, checkpoint, split)) is not None
            }
            for name in self.names
        }
        outcomes = {name: runs for name, runs in outcomes.items() if runs}
        if not outcomes:
            return
        first = next(iter(next(iter(outcomes.values())).values()))
        baseline = outcomes.get(self.names[0], {})
        paper = sorted({column for figures in self.recipe.paper.values() for column in figures})
        header = ["architecture", "seeds", *first.columns, "seed by seed"]
        rows = [[*header, f"p against {self.names[0]}", *(f"paper: {name}" for name in paper)]]
        for name, runs in outcomes.items():
            values = {c: [run.scores[c] for run in runs.values()] for c in first.columns}
            row = [name, str(len(runs))]
            row += [over_seeds(values[column], first.digits) for column in first.columns]
            row.append(", ".join(f"{value:.{first.digits}f}" for value in values[first.columns[0]]))
            tests = [
                run.p_value(baseline[seed])  # pyright: ignore[reportArgumentType]  of one class
                for seed, run in runs.items()
                if name != self.names[0] and seed in baseline
            ]
            row.append(", ".join(f"{p:.3f}" for p in tests if p is not None))
            row += [str(self.recipe.paper.get(name, {}).get(column, "")) for column in paper]
            rows.append(row)
        title = f"{split}, {TITLES[checkpoint]}"
        yield Section(title, "\n".join(f"`{line}`" for line in first.signatures), rows)
        yield from self.own_scores(split, checkpoint)
        if checkpoint == BEST:
            points = {
                name: (
                    fmean(run.seconds[-1] / 60 for run in self.trainings[name].values()),
                    self.entries[name].parameters / 1e6,
                    [run.scores[first.columns[0]] for run in runs.values()],
                )
                for name, runs in outcomes.items()
                if self.trainings.get(name)
            }
            figure = quality_against(points, f"{first.columns[0]}, {split}")
            yield Section(
                f"{first.columns[0]} against cost", figure=(f"quality-{split}.png", figure)
            )
            yield from self.differences(outcomes, split)

    def own_scores(self, split: str, checkpoint: str) -> Iterator[Section]:
        """What the recipe's own command says of each run."""
        rows = [
            [f"{name}, seed {seed}", line]
            for name in self.names
            for seed in self.seeds(name)
            for path in [self.folder(name, seed) / f"{checkpoint}.{split}.{SCORE}"]
            if path.exists()
            for line in read_lines(path)
        ]
        if rows:
            yield Section("", table=[["run", self.recipe.score[split]], *rows])

    def differences(self, outcomes, split: str) -> Iterator[Section]:
        """The texts on which the architectures differ most, by their first seeds."""
        firsts = {name: next(iter(runs.values())) for name, runs in outcomes.items()}
        if len(firsts) < 2 or not all(map(len, firsts.values())):
            return
        for number, example in enumerate(examples(firsts), start=1):
            texts = {"source": example.source, "reference": example.reference, **example.outputs}
            rows = [["", f"{split}, text {number}"]]
            rows += [[name, literal(text)] for name, text in texts.items()]
            title = "Where they differ most" if number == 1 else ""
            yield Section(title, table=rows)

    def options(self) -> Section:
        """The options that all trainings share, and those in which they differ."""
        first, *others = (entry.options for entry in self.plan.entries)
        shared = {k: v for k, v in first.items() if all(o.get(k) == v for o in others)}
        rows = [["architecture", "its own options", "size"]]
        for entry in self.plan.entries:
            own = {name: value for name, value in entry.options.items() if name not in shared}
            rows.append([entry.name, " ".join(command_line(own)), entry.note])
        text = f"All trainings: `fairseq-train {self.recipe.data} {' '.join(command_line(shared))}`"
        return Section("Options", text, rows)


def mean(values: Sequence[float], digits: int) -> str:
    return f"{fmean(values):,.{digits}f}"


def over_seeds(values: Sequence[float], digits: int) -> str:
    """The mean; of several values the standard deviation, and of three or more the 95% interval.

    The interval is Student's, of the mean over seeds.
    """
    text = mean(values, digits)
    if len(values) > 1:
        spread = stdev(values)
        text += f" ± {spread:.{digits}f}"
    if len(values) > 2:
        half = student.ppf(0.975, len(values) - 1) * spread / math.sqrt(len(values))
        low, high = fmean(values) - half, fmean(values) + half
        text += f" ({low:,.{digits}f} to {high:,.{digits}f})"
    return text


def write_report(out: Path) -> list[Section]:
    """Write ``report.md`` with its pictures, and ``report.html``; returns the sections."""
    sections = list(Report(out).sections())
    for section in sections:
        if section.figure:
            name, figure = section.figure
            with replacing(out / name) as path:
                path.write_bytes(png(figure))
    for name, make in ((PAGE, markdown_page), (DOCUMENT, html_page)):
        with replacing(out / name) as path:
            path.write_text(make(sections), encoding="utf-8")
    return sections
