"""The report of a comparison: its results as tables and pictures, in Markdown and HTML."""

from __future__ import annotations

import base64
import io
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from itertools import islice
from pathlib import Path
from statistics import fmean

import numpy as np
from jinja2 import Environment
from markupsafe import Markup, escape
from matplotlib.figure import Figure
from sacrebleu.metrics.chrf import CHRF

from fairseq_odeformers.files import markdown_table, replacing
from fairseq_odeformers.models.common.kinds import Kind

from .figures import Quality, draw_learning_curves, draw_quality
from .notes import (
    ENOUGH,
    EQUAL,
    RULES_OUT,
    Note,
    Statistics,
    compute_statistics,
    count_decimals,
    different_defaults,
    find_majority,
    find_notes,
    half_interval,
    over_seeds,
    parse_tuned,
)
from .results import Comparison, Predictions, Row, Table, clock, to_words
from .scores import score_outputs

PAGE, DOCUMENT, TEMPLATE = "report.md", "report.html", "report.html"
UNITS = {
    Kind.TRANSLATION: "label-smoothed, bits per token",
    Kind.CLASSIFICATION: "bits per example",
    Kind.LANGUAGE_MODEL: "bits per token",
    Kind.MASKED_LM: "bits per token",
}
SPREAD = (
    "± gives the standard deviation over seeds, brackets the 95% interval of the mean, with three "
    "seeds or more, unless all are equal."
)
TESTS = {  # of significance, by the kind of models
    Kind.TRANSLATION: "a paired bootstrap over the texts",
    Kind.CLASSIFICATION: "McNemar's exact test",
}
BEST = "best checkpoint"  # whose scores count
SHOWN = 5  # texts on which models differ


class Number(str):
    """A cell with a figure, whose interval follows in brackets."""


class Verbatim(str):
    """A cell with a text of the data, which is shown as it is."""


@dataclass
class Picture:
    """A picture, and the name of its file."""

    name: str
    figure: Figure

    @cached_property
    def png(self) -> bytes:
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()

    @property
    def base64(self) -> str:
        return base64.b64encode(self.png).decode()


@dataclass
class Section:
    """A part of the report: notes above, tables, lines of Markdown below, and a picture."""

    title: str
    tables: Sequence[list[list[str]]] = ()  # the header of each first
    above: Sequence[Note] = ()
    below: Sequence[str] = field(default_factory=list)
    picture: Picture | None = None


def write_report(comparison: Comparison, out: Path) -> str:
    """Write ``report.md`` with its pictures, and ``report.html``; returns the former."""
    sections = list(make_sections(comparison))
    for section in sections:
        if section.picture:
            with replacing(out / section.picture.name) as path:
                path.write_bytes(section.picture.png)
    page = "\n".join(["# Comparison\n", *map(to_markdown, sections)])
    for name, text in ((PAGE, page), (DOCUMENT, to_html(sections))):
        with replacing(out / name) as path:
            path.write_text(text, encoding="utf-8")
    return page


# --- pages -----------------------------------------------------------------------------


def to_markdown(section: Section) -> str:
    """A section as Markdown; its picture is a file beside the page."""
    parts = [f"## {section.title}\n" if section.title else ""]
    if section.above:
        parts.append(f"**{' '.join(note.sentence for note in section.above)}**\n")
    parts += [
        markdown_table([list(map(escape_cell, row)) for row in table]) for table in section.tables
    ]
    parts.append("  \n".join(section.below))
    if section.picture:
        parts.append(f"![{section.title}]({section.picture.name})")
    return "\n".join(filter(None, parts)) + "\n"


def escape_cell(cell: str) -> str:
    """A cell of a table in Markdown."""
    if isinstance(cell, Verbatim):
        text = re.sub(r"([\\`*_\[\]#|])", r"\\\1", cell).replace("<", "&lt;")
        return " ".join(text.splitlines())
    return cell.replace("|", "\\|")


def to_html(sections: Sequence[Section]) -> str:
    """The report as one HTML file, with its pictures in it."""
    environment = Environment(autoescape=True)
    environment.tests["figure"] = lambda cell: isinstance(cell, Number)
    environment.filters |= {"inline": mark_code, "breakable": let_break}
    text = files("fairseq_odeformers.lab.compare").joinpath(TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(text).render(sections=sections)


def mark_code(line: str) -> Markup:
    """A line of Markdown whose only marks are those of code."""
    parts = str(escape(line)).split("`")
    return Markup("".join(f"<code>{p}</code>" if n % 2 else p for n, p in enumerate(parts)))


def let_break(text: str) -> Markup:
    """A name that may break after its parts; a text of the data breaks at its spaces alone."""
    escaped = str(escape(text))
    if isinstance(text, Verbatim) or " " in text:
        return Markup(escaped)
    return Markup(re.sub("([_-])", r"\1<wbr>", escaped))


# --- sections --------------------------------------------------------------------------


def make_sections(comparison: Comparison) -> Iterator[Section]:
    """All parts of the report."""
    yield describe_comparison(comparison)
    yield describe_trainings(comparison)
    yield from describe_tuning(comparison)
    on_trainings = find_notes(comparison)
    before: list[Note] = []
    for table in comparison.tables:
        notes = [*on_trainings, *find_notes(comparison, table)]
        statistics = compute_statistics(table, notes)
        section = compare_scores(comparison, table, statistics, notes)
        repeats = bool(section.above) and section.above == before
        before = list(section.above)
        yield replace(section, above=[Note(RULES_OUT, (), "As above.")]) if repeats else section
        yield from show_printed(comparison, table)
        if table.checkpoint == BEST:
            yield from tabulate_confusion(table)
            yield from picture_quality(comparison, table, statistics, notes)
            if not section.above:
                yield from show_differences(table)
    if comparison.curves:
        kind, rows = kind_of(comparison), [*comparison.trained.values()]
        metric = next(iter(rows[0].values())).validated
        curves = {name: list(of_seeds.values()) for name, of_seeds in comparison.curves.items()}
        figure = draw_learning_curves(curves, UNITS[kind], metric)
        yield Section("Learning curves", picture=Picture("curves.png", figure))
    yield describe_options(comparison)


def kind_of(comparison: Comparison) -> Kind:
    """The kind of models that are compared."""
    return Kind.of_task(first_row(comparison).task) or Kind.TRANSLATION


def first_row(comparison: Comparison) -> Row:
    return next(row for runs in comparison.rows.values() for row in runs.values())


def table_of(rows: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """A table of rows, which have their cells by column; a column without any is left out."""
    columns = dict.fromkeys(name for row in rows for name, cell in row.items() if cell)
    return [[*columns], *([row.get(name, "") for name in columns] for row in rows)]


def figures_over(values: Sequence[float], digits: int) -> Number:
    return Number(over_seeds(values, digits))


def describe_comparison(comparison: Comparison) -> Section:
    """What is compared, and on which machine."""
    models, row = len(comparison.rows), first_row(comparison)
    count = "1 model" if models == 1 else f"{models} models"
    lines = [f"{count} for {kind_of(comparison).purpose}, data `{row.data}`."]
    if row.environment:
        lines.append(f"Environment: {row.environment}.")
    return Section("", below=lines)


def describe_trainings(comparison: Comparison) -> Section:
    """Sizes, costs and validations, and what to keep in mind when they are compared."""
    unit, rows = UNITS[kind_of(comparison)], []
    validations: list[Row] = []
    for name, of_seeds in comparison.rows.items():
        runs = list(comparison.trained.get(name, {}).values())
        validations += runs
        one = next(iter(of_seeds.values()))
        row: dict[str, str] = {
            "architecture": name,
            "parameters": Number(f"{one.parameters:,}"),
            "seeds": Number(len(runs)),
            "unfinished": "; ".join(
                f"seed {seed}: {each.state}" for seed, each in of_seeds.items() if each.state
            ),
            "budget": Number(clock(60 * one.budget)) if one.budget else "",
        }
        if runs:
            row |= describe_costs(runs)
            curves = [curve for curve in comparison.curves.get(name, {}).values()]
            loss = f"validation loss ({unit})"
            if curves:
                row[loss] = figures_over([curve.loss[curve.best] for curve in curves], 3)
                row["training loss, last full epoch"] = figures_over(
                    [curve.train_loss[-1] for curve in curves], 3
                )
            metric = runs[0].validated
            if metric != "loss":
                digits = count_decimals(metric)
                row[f"validation {metric}"] = figures_over(
                    [r.validation or 0 for r in runs], digits
                )
        rows.append(row)
    notes = [SPREAD] if any(len(runs) > 1 for runs in comparison.rows.values()) else []
    if validations and (texts := validations[0].validation_texts):
        metric = validations[0].validated
        notes.append(f"Best checkpoints are chosen by the {metric} on {texts:,} validation texts.")
    notes += [note.sentence for note in find_notes(comparison) if note.kind != RULES_OUT]
    return Section("Trainings", [table_of(rows)], below=notes)


def describe_costs(runs: Sequence[Row]) -> dict[str, str]:
    """The updates and times of the seeds of an architecture."""
    updates, seconds = ([getattr(run, k) or 0 for run in runs] for k in ("updates", "seconds"))
    cpu = [run.cpu_seconds for run in runs if run.cpu_seconds is not None]
    costs = [clock(run.cost) for run in runs]
    return {
        "updates": Number(f"{fmean(updates):,.0f}"),
        "time": Number(clock(fmean(seconds))),
        "CPU time": Number(clock(fmean(cpu))) if len(cpu) == len(runs) else "",
        f"{'CPU ' * bool(cpu)}time, seed by seed": ", ".join(costs) if len(costs) > 1 else "",
        "tokens per second": Number(f"{fmean(run.tokens_per_second or 0 for run in runs):,.0f}"),
    }


def describe_tuning(comparison: Comparison) -> Iterator[Section]:
    """What was tried with the first seed, and what was chosen."""
    if not comparison.candidates:
        return
    chosen = {name: next(iter(runs.values())).tuned for name, runs in comparison.rows.items()}
    rows = []
    for row in comparison.candidates:
        cells = {"architecture": row.architecture, **parse_tuned(row.tuned)}
        cells["updates"] = Number(f"{row.updates or 0:,}")
        if row.validation is not None:
            digits = count_decimals(row.validated)
            cells[f"best validation {row.validated}"] = figures_over([row.validation], digits)
            cells[""] = "chosen" if chosen[row.architecture] == row.tuned else ""
        rows.append(cells)
    seed = comparison.candidates[0].seed
    yield Section(
        "Tuning", [table_of(rows)], below=[f"All candidates were trained with seed {seed}."]
    )


def compare_scores(
    comparison: Comparison, table: Table, statistics: Statistics, notes: Sequence[Note]
) -> Section:
    """The scores on a split, with tests against the baseline, seed by seed.

    Args:
        notes: on the trainings and on the scores.
    """
    main = table.metrics[0]
    digits, rows = count_decimals(main, table.first.texts), []
    for name, scores in table.scores.items():
        runs = table.main[name]
        row: dict[str, str] = {"architecture": name, "seeds": Number(len(runs))}
        for metric, of_seeds in scores.items():
            row[metric] = figures_over([each.value for each in of_seeds.values()], digits)
        row["seed by seed"] = ", ".join(over_seeds([each.value], digits) for each in runs.values())
        if error := statistics.errors.get(name):
            row["± over texts"] = Number(f"{error:.{digits}f}")
        row[f"{main} against {table.baseline}"] = Number(statistics.differences.get(name, ""))
        p_values = statistics.p_values.get(name, ())
        row[f"p against {table.baseline}"] = ", ".join(f"{p:.3f}" for p in p_values)
        paper = json.loads(next(iter(runs.values())).paper or "{}")
        rows.append(row | {f"paper: {column}": str(figure) for column, figure in paper.items()})
    rows += measure_majority(table, digits)
    below = [
        f"{metric}: `{next(iter(of_seeds.values())).signature}`"
        for metric, of_seeds in next(iter(table.scores.values())).items()
        if next(iter(of_seeds.values())).signature
    ]
    below += explain_statistics(table, statistics)
    others = [*find_notes(comparison, table), *find_notes(comparison, table, statistics)]
    below += [note.sentence for note in others if note.kind != RULES_OUT]
    above = [note for note in notes if note.kind == RULES_OUT]
    title = f"{table.split}, {table.checkpoint}"
    return Section(title, [table_of(rows)], above, below)


def measure_majority(table: Table, digits: int) -> Iterator[dict[str, str]]:
    """A row with the scores of predicting the most frequent class for all texts."""
    if table.metrics[0] == Kind.CLASSIFICATION.score and table.first.predictions:
        predictions = next(iter(next(iter(table.predictions.values())).values()))
        name, _ = find_majority(predictions)
        scores = score_outputs(predictions.reference, [name] * len(predictions.reference))
        yield {
            "architecture": f"always {name}",
            **{metric: figures_over([score], digits) for metric, score in scores.items()},
        }


def explain_statistics(table: Table, statistics: Statistics) -> Iterator[str]:
    """What differences, p-values and intervals over the texts mean."""
    row = table.first
    if statistics.errors:
        yield (
            f"± over texts gives the 95% interval of a score over the {row.texts:,} texts, beside "
            "the variation between seeds."
        )
    if statistics.differences:
        yield "Of differences, positive is better."
    if any(difference.interval for difference in statistics.differences.values()):
        yield (
            "Their brackets give Welch's 95% interval over the seeds, not corrected for several "
            f"comparisons; there is none where {EQUAL}."
        )
    if tested := sum(map(len, statistics.p_values.values())):
        test = TESTS[Kind.of_task(row.task) or Kind.TRANSLATION]
        yield f"p-values test the difference in {row.metric} for each seed ({test})."
        if tested > 1:
            yield f"They are corrected by Holm's method for {tested} comparisons."


def show_printed(comparison: Comparison, table: Table) -> Iterator[Section]:
    """What a recipe's own commands have printed."""
    place = table.split, table.checkpoint
    printed = [row for row in comparison.printed if (row.split, row.checkpoint) == place]
    if printed:
        rows = [["run", printed[0].metric]]
        rows += [[f"{row.architecture}, seed {row.seed}", row.printed] for row in printed]
        yield Section("", [rows])


def tabulate_confusion(table: Table) -> Iterator[Section]:
    """How often each class is predicted as each, in percent of its texts, over all seeds."""
    if table.metrics[0] != Kind.CLASSIFICATION.score or not table.first.predictions:
        return
    some = next(iter(next(iter(table.predictions.values())).values()))
    classes = sorted({*some.reference})
    rows = [["architecture", "class", "texts", *(f"as {name}" for name in classes)]]
    for name, runs in table.predictions.items():
        targets, outputs = (
            np.array([text for each in runs.values() for text in getattr(each, kind)])
            for kind in ("reference", "output")
        )
        for true in classes:
            of_class = outputs[targets == true]
            shares = [figures_over([100 * (of_class == each).mean()], 0) for each in classes]
            rows.append([name, true, Number(f"{some.reference.count(true):,}"), *shares])
    text = "Percent of the texts of each class, over all seeds."
    yield Section(f"Classes, {table.split}", [rows], below=[text])


def picture_quality(
    comparison: Comparison, table: Table, statistics: Statistics, notes: Sequence[Note]
) -> Iterator[Section]:
    """A picture of the first score against the cost of a training and the size of the model.

    Its bars are intervals over the seeds, or over the texts where there are too few seeds.
    """
    main, metric = table.main, table.metrics[0]
    fewest, most = (choose(map(len, main.values())) for choose in (min, max))
    kind, points = "seeds" if fewest >= ENOUGH else "texts", {}
    for name in filter(comparison.trained.__contains__, main):
        trained = list(comparison.trained[name].values())
        scores = [row.value for row in main[name].values()]
        error = half_interval(scores) if kind == "seeds" else statistics.errors.get(name, 0.0)
        cost = fmean(row.cost for row in trained)
        points[name] = Quality(cost, trained[0].parameters, scores, error)
    if points:
        seeds = count_seeds(most) if fewest == most else f"{fewest} to {most} seeds"
        headline = f"{metric} on {table.split}, {table.checkpoint}, {seeds}"
        unequal = [n.sentence for n in notes if n.sentence.startswith("Unequal effort")]
        caveat = unequal[0].partition(";")[0] if unequal else ""
        cpu = all(row.cpu_seconds for runs in comparison.trained.values() for row in runs.values())
        clock_of = "CPU" if cpu else "training"
        figure = draw_quality(points, metric, headline, kind, caveat, clock_of)
        picture = Picture(f"quality-{table.split}.png", figure)
        yield Section(f"{metric} against cost", picture=picture)


def count_seeds(number: int) -> str:
    return "one seed" if number == 1 else f"{number} seeds"


def show_differences(table: Table) -> Iterator[Section]:
    """Texts on which the models of the first seeds differ most in quality."""
    firsts = {name: next(iter(r.values())) for name, r in table.predictions.items() if r}
    if len(firsts) < 2:
        return
    some = next(iter(firsts.values()))
    spread = np.ptp([rate_outputs(each) for each in firsts.values()], axis=0)

    def outputs(index: int) -> dict[str, str]:
        return {name: each.output[index] for name, each in firsts.items()}

    differ = (index for index in np.argsort(spread)[::-1] if len({*outputs(index).values()}) > 1)
    tables = []
    for number, index in enumerate(islice(differ, SHOWN), start=1):
        texts = {"source": some.source[index], "reference": some.reference[index], **outputs(index)}
        rows = [["", f"{table.split}, text {number}"]]
        tables.append([*rows, *([name, Verbatim(text)] for name, text in texts.items())])
    none = [] if tables else ["Nowhere: on each text their outputs are the same."]
    yield Section(f"Where they differ most: {table.split}, {BEST}, first seed", tables, below=none)


def rate_outputs(predictions: Predictions) -> Sequence[float]:
    """How good each output is: the probability of the right class, or chrF of the sentence."""
    if predictions.probability:
        return predictions.probability
    lowercase = not any(text != text.lower() for text in predictions.output)
    score = CHRF(lowercase=lowercase).sentence_score
    pairs = zip(predictions.output, predictions.reference)
    return [score(text, [right]).score for text, right in pairs]


def describe_options(comparison: Comparison) -> Section:
    """The options of all trainings and evaluations, and the others for each architecture."""
    rows = {name: next(iter(runs.values())) for name, runs in comparison.rows.items()}
    given = {name: json.loads(row.options or "{}") for name, row in rows.items()}
    first, *others = given.values()
    shared = {k: v for k, v in first.items() if all(other.get(k) == v for other in others)}
    cells = []
    for name, row in rows.items():
        own = {k: v for k, v in given[name].items() if k not in shared}
        defaults = different_defaults(comparison, name)
        cells.append(
            {
                "architecture": name,
                "its own options": shlex.join(to_words(own)),
                "defaults that differ": ", ".join(f"{k} {v}" for k, v in defaults.items()),
                "size": row.size,
            }
        )
    row = first_row(comparison)
    text = [f"All trainings: `fairseq-train {row.data} {shlex.join(to_words(shared))}`"]
    if row.evaluation not in ("", "{}"):
        text.append(f"All evaluations: `{shlex.join(to_words(json.loads(row.evaluation)))}`")
    return Section("Options", [table_of(cells)], below=text)
