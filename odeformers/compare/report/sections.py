"""Write the report of a comparison: tables and pictures of its results, in Markdown and HTML."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from statistics import fmean, median

from fairseq_odeformers.data.classification import f1_score
from fairseq_odeformers.files import replacing
from fairseq_odeformers.registry import Kind
from odeformers.processes import to_words

from ..numbers import clock, count_decimals, describe_difference, format_seeds, p_as_text
from ..results.intervals import WELCH, Difference, OverSeeds
from ..results.rows import (
    BEST_CHECKPOINT,
    CLASSES,
    LOSSES,
    RESULTS,
    Comparison,
    Table,
    lock,
    name_time,
    read_comparison,
)
from ..results.statistics import Statistics
from .figures import draw_learning_curves, draw_quality
from .judge import INCONCLUSIVE, VERDICT_DEFINITION, Judged, Verdict, judge
from .notes import REMARK, RULES_OUT, Note, different_defaults, find_majority, parse_tuned
from .pages import Section, to_html, to_page, to_png

PAGE, DOCUMENT = "report.md", "report.html"
UNITS = {
    Kind.TRANSLATION: "bits per token",
    Kind.CLASSIFICATION: "bits per example",
    Kind.LANGUAGE_MODEL: "bits per token",
    Kind.MASKED_LM: "bits per token",
}


def unit_of(comparison: Comparison) -> str:
    """Return the unit of losses; earlier versions validated translators with label smoothing."""
    rows = [row for runs in comparison.trained.values() for row in runs]
    smoothed = comparison.kind is Kind.TRANSLATION and any(r.validated == "loss" for r in rows)
    return f"{'label-smoothed, ' * smoothed}{UNITS[comparison.kind]}"


def write_report(out: Path, baseline: str = "", margin: float | None = None) -> str:
    """Write ``report.md`` with its pictures, and ``report.html``, about the runs in a folder.

    Args:
        baseline: architecture that the others are compared with (default: the baseline of the
            runs).
        margin: difference that counts as none, see :func:`.find_margin`.

    Returns:
        The content of ``report.md``.
    """
    known = (out / RESULTS).is_file()  # another folder stays as it is
    with lock(out / PAGE) if known else nullcontext():
        sections = [*make_sections(read_comparison(out, baseline), margin)]
        files = {each.picture: to_png(each.figure) for each in sections if each.figure}
        page = to_page(sections)
        files |= {PAGE: page.encode(), DOCUMENT: to_html(sections, files).encode()}
        for name, content in files.items():
            with replacing(out / name) as path:
                path.write_bytes(content)
    return page


# --- sections --------------------------------------------------------------------------


def make_sections(comparison: Comparison, margin: float | None = None) -> Iterator[Section]:
    """Yield the sections of the report."""
    row, count, unit = comparison.rows[0], len(comparison.runs), unit_of(comparison)
    models = "1 model" if count == 1 else f"{count} models"
    lines = [
        f"This comparison has {models} for {comparison.kind.purpose}, trained on `{row.data}`."
    ]
    if row.environment:
        lines.append(f"Environment: {row.environment}.")
    yield Section(lines=lines)
    run_notes, judged = judge(comparison, margin)
    yield from describe_verdicts(run_notes, judged)
    yield describe_runs(comparison, unit, run_notes)
    if comparison.candidates:
        yield describe_tuning(comparison)
    for each in judged:
        table = each.table
        yield compare_scores(each)
        if printed := [row for row in comparison.printed if row.place == table.first.place]:
            rows = [[f"{row.architecture}, seed {row.seed}", row.printed] for row in printed]
            yield Section(table=[["run", printed[0].metric], *rows])
        if table.checkpoint == BEST_CHECKPOINT:
            figure = draw_quality(table.main, each.statistics.errors)
            title, picture = f"{table.metric} against cost", f"quality-{table.split}.png"
            yield Section(title, figure=figure, picture=picture)
    trained = [row for row in chain(*comparison.trained.values()) if row.learning]
    if trained:
        figure = draw_learning_curves(trained, unit)
        yield Section("Learning curves", figure=figure, picture="curves.png")
    if comparison.runs:  # else, there are only candidates
        yield describe_options(comparison)


def describe_verdicts(run_notes: Sequence[Note], judged: Sequence[Judged]) -> Iterator[Section]:
    """Describe the verdicts on differences from the baseline, and the notes that affect them.

    The first section has the notes that rule out comparisons. A section for each table lists its
    verdicts. The last section has the definition of the verdicts, and the other notes.
    """
    places: dict[Note, list[str]] = {note: [] for note in run_notes}
    for each in judged:
        for note in each.notes:
            places.setdefault(note, []).append(name_place(each.table))
    sentences = {
        note: f"On {' and on '.join(at)}: {note.sentence}"
        if 0 < len(at) < len(judged)
        else note.sentence
        for note, at in places.items()
        if note.kind != REMARK
    }
    warnings = [sentence for note, sentence in sentences.items() if note.kind == RULES_OUT]
    lines = [] if judged else ["No model has been scored."]
    yield Section("Verdict", warnings, lines=lines)
    compared = [each for each in judged if each.verdicts]
    for each in compared:
        table = each.table
        digits = count_decimals(table.metric, table.first.texts)
        differences = each.statistics.differences
        place = f"{capitalize(table.metric)} on {name_place(table)}"
        line = f"{place}, compared with {table.baseline} (margin {each.margin:.3g}):"
        items = [
            explain(name, verdict, differences.get(name), digits)
            for name, verdict in each.verdicts.items()
        ]
        yield Section(lines=[line], items=items)
    lines = [VERDICT_DEFINITION] * bool(compared)
    lines += [sentence for note, sentence in sentences.items() if note.kind != RULES_OUT]
    if lines:
        yield Section(lines=lines)


def name_place(table: Table) -> str:
    """Name the split and the checkpoint of a table in a sentence."""
    return f"{table.split} at the {table.checkpoint}"


def capitalize(text: str) -> str:
    """Capitalise the first letter of a text; the others stay."""
    return text[:1].upper() + text[1:]


def explain(name: str, verdict: Verdict, difference: Difference | None, digits: int) -> str:
    """Put the verdict on a model into words."""
    open_order = verdict.word == INCONCLUSIVE
    word = verdict.word if open_order else " ".join(filter(None, verdict))
    line = f"{name}: {word}"
    if difference:
        line += f", {describe_difference(difference, digits)}"
    return f"{line}. {capitalize(verdict.reason)}." if open_order else f"{line}."


def table_of(rows: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """Make a table of rows, given as cells by column; a column without cells is left out."""
    columns = dict.fromkeys(name for row in rows for name, cell in row.items() if cell)
    return [[*columns], *([row.get(name, "") for name in columns] for row in rows)]


def describe_runs(comparison: Comparison, unit: str, notes: Sequence[Note]) -> Section:
    """Describe sizes, costs and validations, and what to keep in mind when comparing them."""
    trained = [*chain(*comparison.trained.values())]
    rows = []
    for name, (one, *others) in comparison.runs.items():
        runs = comparison.trained.get(name, [])
        row: dict[str, str] = {
            "architecture": name,
            "parameters": f"{one.parameters:,}",
            "seeds": str(len(runs)),
            "unfinished": "; ".join(f"seed {r.seed}: {r.state}" for r in (one, *others) if r.state),
            "budget": clock(60 * one.budget) if one.budget else "",
        }
        if runs:
            row["updates"] = f"{fmean(run.updates or 0 for run in runs):,.0f}"
            row[name_time(trained)] = clock(fmean(run.cost for run in runs))
            if runs[0].cpu_seconds:
                row["wall-clock time"] = clock(fmean(run.seconds or 0 for run in runs))
            speeds = [run.tokens / run.cost for run in runs if run.tokens and run.cost]
            row[f"tokens per {name_time(trained, 'second')}"] = (
                f"{fmean(speeds):,.0f}" if speeds else ""
            )
            if curves := [run.learning for run in runs if run.learning]:
                losses = {
                    f"validation loss ({unit})": [curve.loss[curve.best] for curve in curves],
                    "training loss, last full epoch": [curve.train_loss[-1] for curve in curves],
                }
                row |= {column: format_seeds(values, 3) for column, values in losses.items()}
            if (metric := runs[0].validated) not in LOSSES:
                values = [run.validation or 0 for run in runs]
                row[f"validation {metric}"] = format_seeds(values, count_decimals(metric))
        rows.append(row)
    lines = []
    if any(len(runs) > 1 for runs in comparison.trained.values()):
        lines.append(
            "± precedes the standard deviation over seeds. Brackets contain the 95% interval of "
            "the mean if three seeds or more have different values."
        )
    if trained and trained[0].validation_texts:
        lines.append(
            f"Best checkpoints have the {trained[0].best_validation} on "
            f"{trained[0].validation_texts:,} validation texts."
        )
    lines.append(tell_total_cost(comparison))
    lines += [note.sentence for note in notes if note.kind == REMARK]
    return Section("Training runs", table=table_of(rows), lines=lines)


def tell_total_cost(comparison: Comparison) -> str:
    """Say how many hours all runs took: CPU time if it is known, and wall-clock time otherwise."""
    runs = [row for row in comparison.rows if not row.metric]
    on_cpu = sum(row.cpu_seconds or 0 for row in runs) / 3600
    on_clock = sum(row.seconds or 0 for row in runs if not row.cpu_seconds) / 3600
    hours = [f"{on_cpu:,.2g} CPU hours"] if on_cpu else []
    hours += [f"{on_clock:,.2g} hours of wall-clock time on GPUs"] if on_clock else []
    chosen = {name: rows[0].tuned for name, rows in comparison.runs.items()}
    rejected = sum(
        row.trained and row.tuned != chosen.get(row.architecture, row.tuned) for row in runs
    )
    unfinished = sum(not row.trained for row in runs)
    counts = [f"{rejected} with rejected values" * bool(rejected)]
    counts.append(f"{unfinished} unfinished" * bool(unfinished))
    among = " and ".join(filter(None, counts))
    return (
        f"Total cost: {' and '.join(hours) or 'no time yet'}, without validations, for "
        f"{len(runs)} training run{'s' * (len(runs) > 1)}"
        f"{f', {among}' if among else ''}."
    )


def describe_tuning(comparison: Comparison) -> Section:
    """Describe the values tried with the tuning seed, and the chosen values."""
    rows = []
    for row in comparison.candidates:
        cells = {"architecture": row.architecture, **parse_tuned(row.tuned)}
        cells["updates"] = f"{row.updates or 0:,}"
        if row.validation is not None:
            digits = count_decimals(row.validated)
            cells[f"{row.best_validation} (validation)"] = format_seeds([row.validation], digits)
        chosen = {run.tuned for run in comparison.runs.get(row.architecture, ())}
        cells[""] = "chosen" if row.trained and row.tuned in chosen else ""
        cells["unfinished"] = "" if row.trained else row.state
        rows.append(cells)
    line = (
        f"All candidates were trained with seed {comparison.candidates[0].seed}. Among equal "
        "results, the lowest validation loss decides. To try more values, add them to `--tune` and "
        "keep `--out`."
    )
    return Section("Tuning", table=table_of(rows), lines=[line])


def compare_scores(judged: Judged) -> Section:
    """Describe the scores on a split seed by seed, tests against the baseline, and remarks."""
    table, statistics = judged.table, judged.statistics
    digits, rows = count_decimals(table.metric, table.first.texts), []
    for name, runs in table.main.items():
        row: dict[str, str] = {"architecture": name, "seeds": str(len(runs))}
        for metric, scores in table.scores.items():
            if name in scores:
                row[metric] = format_seeds([each.value for each in scores[name]], digits)
        row["seed by seed"] = ", ".join(format_seeds([each.value], digits) for each in runs)
        if error := statistics.errors.get(name):
            row["± over texts"] = f"{error:.{digits}f}"
        if difference := statistics.differences.get(name):
            column = f"{table.metric} against {table.baseline}"
            row[column] = describe_difference(difference, digits)
            if difference.p_value is not None:
                row["p over seeds"] = p_as_text(difference.p_value)
        tested = statistics.p_values.get(name, {})
        all_seeds = [*tested] == [each.seed for each in runs]
        row["p over texts"] = ", ".join(
            f"{'' if all_seeds else f'seed {seed}: '}{p_as_text(p)}" for seed, p in tested.items()
        )
        for source in ("paper", "cited"):
            figures = json.loads(getattr(runs[0], source) or "{}")
            row |= {f"{source}: {column}": str(figure) for column, figure in figures.items()}
        rows.append(row)
    if table.metric == Kind.CLASSIFICATION.score and table.first.outputs:
        name, share = find_majority(table.first.outputs)
        always = score_constant(share, count_classes(table))
        always = {m: format_seeds([always[m]], digits) for m in always if m in table.scores}
        rows.append({"architecture": f"always {name}", **always})
    firsts = [next(iter(runs.values()))[0] for runs in table.scores.values()]
    lines = [f"{row.metric}: `{row.signature}`" for row in firsts if row.signature]
    if statistics.errors:
        lines.append(
            f"± over texts is half of the 95% interval of a score over the {statistics.unit}."
        )
    lines += describe_seeds(statistics.over_seeds, table.baseline, digits)
    if tests := sum(map(len, statistics.p_values.values())):
        adjusted = f", adjusted for {tests} tests (Benjamini-Hochberg)" if tests > 1 else ""
        lines.append(f"p over texts is the p-value of {statistics.test}, seed by seed{adjusted}.")
    lines += name_limits(statistics)
    lines += [note.sentence for note in judged.notes if note.kind == REMARK]
    return Section(f"{table.split}, {table.checkpoint}", (), table_of(rows), lines)


def count_classes(table: Table) -> int:
    """Return the number of classes over which macro-F1 is a mean."""
    for runs in table.scores.values():
        signature = next(iter(runs.values()))[0].signature
        if match := re.fullmatch(rf"{CLASSES}:(\d+)", signature):
            return int(match[1])
    outputs = table.first.outputs
    assert outputs  # earlier versions have predictions without a signature
    return len({*outputs.reference, *outputs.output})


def score_constant(share: float, classes: int) -> dict[str, float]:
    """Return the scores of a model that predicts one of the classes for all texts.

    Args:
        share: percentage of texts that have this class.
    """
    f1 = f1_score(share, share + 100)
    return {"accuracy": share, "macro-F1": f1 / classes}


def describe_seeds(estimates: OverSeeds, baseline: str, digits: int) -> Iterator[str]:
    """Explain how intervals over seeds were computed, and which difference the seeds detect."""
    if not estimates.differences:
        return
    yield f"A positive difference means that a model is better than {baseline}."
    if compared := sum(each.interval is not None for each in estimates.differences.values()):
        models = "1 model" if compared == 1 else f"{compared} models at once"
        yield f"Brackets contain 95% intervals over seeds, for {models}."
    apart = [name for name, each in estimates.differences.items() if each.method == WELCH]
    if apart:
        who = ", ".join(f"{name} (F-test, p = {p:.2g})" for name, p in estimates.left.items())
        yield (
            f"The scores of some models vary more or less over seeds than the others' scores: "
            f"{who}. Therefore Welch's test at the Bonferroni level compares "
            f"{', '.join(apart) if estimates.pool else 'all models'} with {baseline}."
        )
    if estimates.spread is not None and estimates.least_difference is not None:
        decimals = max(2, digits)
        yield (
            f"Dunnett's test assumes that the scores of {len(estimates.pool)} models vary equally "
            f"over seeds. Their standard deviation is about {estimates.spread:.{decimals}f}; if "
            f"this is the true one, these seeds detect a difference of "
            f"{estimates.least_difference:.{decimals}f} with 80% power."
        )


def name_limits(statistics: Statistics) -> Iterator[str]:
    """Say whether seeds or texts limit the claims about each model: the larger p-value decides."""
    limits: dict[str, list[str]] = {"seeds": [], "test texts": []}
    for name, difference in statistics.differences.items():
        tested = statistics.p_values.get(name)
        if difference.p_value is not None and tested:
            which = "seeds" if difference.p_value >= median(tested.values()) else "test texts"
            limits[which].append(name)
    needs = [f"more {which} ({', '.join(names)})" for which, names in limits.items() if names]
    if needs:
        yield (
            f"To strengthen a claim, add {' or '.join(needs)}: the larger of the two p-values "
            "(over texts, their median) shows what limits the claim."
        )


def describe_options(comparison: Comparison) -> Section:
    """Describe the options that all training runs and evaluations share, then other options."""
    rows = {name: runs[0] for name, runs in comparison.runs.items()}
    base = rows.get(comparison.baseline) or next(iter(rows.values()))
    given = {name: json.loads(row.options or "{}") for name, row in rows.items()}
    first, *others = given.values()
    shared = {k: v for k, v in first.items() if all(other.get(k) == v for other in others)}
    cells = []
    for name, row in rows.items():
        own = {k: v for k, v in given[name].items() if k not in shared}
        defaults = different_defaults(row, base)
        cells.append(
            {
                "architecture": name,
                "its own options": shlex.join(to_words(own)),
                "defaults that differ": ", ".join(f"{k} {v}" for k, v in defaults.items()),
                "size": row.size,
            }
        )
    lines = [f"All training runs: `fairseq-train {base.data} {shlex.join(to_words(shared))}`"]
    if base.evaluation not in ("", "{}"):
        lines.append(f"All evaluations: `{shlex.join(to_words(json.loads(base.evaluation)))}`")
    return Section("Options", table=table_of(cells), lines=lines)
