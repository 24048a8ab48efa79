"""The report of a comparison: the results of its runs as tables and pictures."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from statistics import fmean

import numpy as np

from fairseq_odeformers.files import markdown_table, replacing
from fairseq_odeformers.models.common.kinds import Kind

from .caveats import (
    Outcomes,
    any_of,
    explain_comparison,
    find_ceiling,
    find_missing_texts,
    find_obstacles,
    find_open_choices,
    find_reservations,
    find_sampling_error,
    find_unequal_times,
    find_worse_averages,
)
from .figures import Quality, learning_curves, quality_against
from .intervals import (
    ENOUGH,
    SPREAD,
    Difference,
    correct_by_holm,
    difference_interval,
    half_interval,
    over_seeds,
)
from .logs import clock, report_progress
from .outcomes import Classes, Outcome, better, count_decimals
from .pages import Section, Table, html_page, literal, markdown_page, png
from .plan import Plan
from .recipe import count_validation_texts, to_words
from .results import Results, count_seeds
from .runs import AVERAGED, BEST

PAGE, DOCUMENT = "report.md", "report.html"
UNITS = {
    Kind.TRANSLATION: "label-smoothed, bits per token",
    Kind.CLASSIFICATION: "bits per example",
    Kind.LANGUAGE_MODEL: "bits per token",
    Kind.MASKED_LM: "bits per token",
}


def write_report(results: Results, out: Path) -> list[Section]:
    """Write ``report.md`` with its pictures, and ``report.html``; returns the sections."""
    parts = list(sections(results))
    for section in parts:
        if section.figure:
            name, figure = section.figure
            with replacing(out / name) as path:
                path.write_bytes(png(figure))
    for name, make in ((PAGE, markdown_page), (DOCUMENT, html_page)):
        with replacing(out / name) as path:
            path.write_text(make(parts), encoding="utf-8")
    return parts


def sections(results: Results) -> Iterator[Section]:
    """All parts of the report."""
    recipe = results.plan.recipe
    last = f"average of the last {recipe.average} checkpoints"
    titles = {BEST: "best checkpoint", AVERAGED: last}
    yield describe_comparison(results.plan)
    yield describe_trainings(results)
    yield from describe_tuning(results)
    yield from (Section("", text) for text in find_missing_texts(results))
    warning = ""
    for (split, checkpoint), outcomes in results.outcomes.items():
        scores = compare_scores(results, f"{split}, {titles[checkpoint]}", outcomes)
        repeated, warning = scores.warning == warning, scores.warning
        yield replace(scores, warning="As above.") if warning and repeated else scores
        if checkpoint == AVERAGED:
            best = results.outcomes.get((split, BEST), {})
            yield from (Section("", text) for text in find_worse_averages(best, outcomes))
        if lines := results.scores[split, checkpoint]:
            yield Section("", table=[["run", recipe.score[split]], *lines])
        if checkpoint == BEST:
            yield from tabulate_confusion(split, outcomes)
            yield from draw_quality(results, split)
            if not scores.warning:
                yield from show_differences(results, split)
    if results.trainings:
        runs = {name: list(having.values()) for name, having in results.trainings.items()}
        best = {name: [run.find_best(recipe.best) for run in runs[name]] for name in runs}
        logged = all(
            len(run.metrics) == len(run.losses) for of_name in runs.values() for run in of_name
        )
        metric = recipe.metric if logged else "loss"
        figure = learning_curves(runs, best, UNITS[recipe.kind], metric)
        yield Section("Learning curves", figure=("curves.png", figure))
    yield describe_options(results.plan)


def describe_comparison(plan: Plan) -> Section:
    """What is compared, on which machine, and how long it took."""
    models = len(plan.entries)
    count = "1 model" if models == 1 else f"{models} models"
    lines = [f"{count} for {plan.recipe.kind.purpose}, data `{plan.recipe.data}`."]
    if plan.environment:
        facts = (f"{name} {value}" for name, value in plan.environment.items())
        lines.append(f"Environment: {', '.join(facts)}.")
    if plan.command_seconds:
        spent = clock(plan.command_seconds)
        lines.append(f"All commands together took {spent}, with planning and evaluation.")
    return Section("", "  \n".join(lines))


def describe_trainings(results: Results) -> Section:
    """Size, length and loss of the trainings."""
    recipe = results.plan.recipe
    metric, unit = recipe.metric, UNITS[recipe.kind]
    rows = []
    for entry in results.plan.entries:
        runs = results.trainings.get(entry.name, {}).values()
        row = {
            "architecture": entry.name,
            "parameters": f"{entry.parameters:,}",
            "seeds": str(len(runs)),
            "unfinished": "; ".join(results.unfinished.get(entry.name, ())),
            "budget": clock(60 * entry.budget) if entry.budget else "",
        }
        if runs:
            times = [clock(run.seconds[-1]) for run in runs]
            best_losses = [run.losses[run.find_best(recipe.best)] for run in runs]
            row |= {
                "updates": f"{fmean(run.updates[-1] for run in runs):,.0f}",
                "time": clock(fmean(run.seconds[-1] for run in runs)),
                "time, seed by seed": ", ".join(times) if len(times) > 1 else "",
                "tokens per second": f"{fmean(run.tokens_per_second for run in runs):,.0f}",
                f"validation loss ({unit})": over_seeds(best_losses, 3),
                "training loss, last full epoch": over_seeds(
                    [run.train_losses[-1] for run in runs], 3
                ),
            }
        if runs and metric != "loss" and all(run.metrics for run in runs):
            bests = [recipe.best(run.metrics) for run in runs]
            row[f"validation {metric}"] = over_seeds(bests, count_decimals(metric))
        rows.append(row)
    notes = [SPREAD] if len(recipe.seeds) > 1 else []
    if texts := count_validation_texts(recipe):
        notes.append(f"Best checkpoints are chosen by the {metric} on {texts:,} validation texts.")
    return Section("Trainings", "  \n".join([*notes, *find_reservations(results)]), table_of(rows))


def describe_tuning(results: Results) -> Iterator[Section]:
    """What was tried with the first seed, and what was chosen."""
    if not results.candidates:
        return
    recipe = results.plan.recipe
    rows, digits = [], count_decimals(recipe.metric)
    for entry, value in results.candidates:
        row = {"architecture": entry.name, **{name: str(v) for name, v in entry.tried.items()}}
        row["updates"] = f"{entry.updates:,}"
        if value is not None:
            row[f"best validation {recipe.metric}"] = over_seeds([value], digits)
            row[""] = "chosen" if entry in results.plan.entries else ""
        rows.append(row)
    notes = [f"All candidates were trained with seed {recipe.seeds[0]}."]
    notes += find_open_choices(results)
    yield Section("Tuning", "  \n".join(notes), table_of(rows))


def compare_scores(results: Results, title: str, outcomes: Outcomes) -> Section:
    """The scores on a split, with tests against the first architecture, seed by seed."""
    plan, first = results.plan, any_of(outcomes)
    baseline = plan.entries[0].name
    obstacles = dict(find_obstacles(results, outcomes))
    comparable = outcomes.keys() - {*chain(*obstacles.values())}
    others = [n for n in outcomes if n != baseline and {n, baseline} <= comparable]
    tests = compare_runs(outcomes, others, baseline, title)
    differences = {name: compare_seeds(outcomes[name], outcomes[baseline]) for name in others}
    rows = []
    for name, runs in outcomes.items():
        row = {"architecture": name, "seeds": str(len(runs))}
        for column in first.scores:
            values = [run.scores[column] for run in runs.values()]
            row[column] = over_seeds(values, first.digits)
        mains = (over_seeds([run.scores[first.main]], first.digits) for run in runs.values())
        row["seed by seed"] = ", ".join(mains)
        row[f"{first.main} against {baseline}"] = str(differences.get(name, ""))
        row[f"p against {baseline}"] = ", ".join(f"{p:.3f}" for p in tests.get(name, ()))
        paper = sorted(plan.recipe.paper.get(name, {}).items())
        rows.append(row | {f"paper: {column}": str(figure) for column, figure in paper})
    if isinstance(first, Classes):
        name, scores = first.majority()
        scores = {column: over_seeds([value], first.digits) for column, value in scores.items()}
        rows.append({"architecture": f"always {name}", **scores})
    notes = [f"{name}: `{text}`" for name, text in first.signatures.items()]
    notes += [*find_ceiling(outcomes), *find_sampling_error(outcomes)]
    notes += explain_comparison(outcomes, differences, tests)
    return Section(title, "  \n".join(notes), table_of(rows), warning=" ".join(obstacles))


def compare_seeds(runs: Mapping[int, Outcome], others: Mapping[int, Outcome]) -> Difference:
    """By how much runs score better than others."""
    ours, theirs = signed_scores(runs), signed_scores(others)
    mean, digits = fmean(ours) - fmean(theirs), next(iter(runs.values())).digits
    return Difference(mean, difference_interval(ours, theirs), digits)


def signed_scores(runs: Mapping[int, Outcome]) -> list[float]:
    """The first score of each run; a higher one is better."""
    return [better(run.main) * run.scores[run.main] for run in runs.values()]


def compare_runs(
    outcomes: Outcomes, others: Sequence[str], baseline: str, title: str
) -> dict[str, list[float]]:
    """p-values of other architectures, seed by seed, corrected by Holm's method."""
    p_values: list[tuple[str, float]] = []
    for name in others:
        for seed in outcomes[name].keys() & outcomes[baseline].keys():
            report_progress(f"testing {title}: {name}, seed {seed}")
            p = outcomes[name][seed].p_value(outcomes[baseline][seed])
            p_values += [(name, p)] if p is not None else []
    tests: dict[str, list[float]] = {}
    for (name, _), p in zip(p_values, correct_by_holm([p for _, p in p_values])):
        tests.setdefault(name, []).append(p)
    return tests


def tabulate_confusion(split: str, outcomes: Outcomes) -> Iterator[Section]:
    """How often each class is predicted as each, in percent of its texts, over all seeds."""
    first = any_of(outcomes)
    if not isinstance(first, Classes):
        return
    classes = np.unique(first.targets).tolist()
    rows = [["architecture", "class", "texts", *(f"as {name}" for name in classes)]]
    for name, runs in outcomes.items():
        targets, predictions = (
            np.concatenate([getattr(run, kind) for run in runs.values()])
            for kind in ("targets", "predictions")
        )
        for true in classes:
            of_class = predictions[targets == true]
            shares = [over_seeds([100 * (of_class == each).mean()], 0) for each in classes]
            rows.append([name, true, f"{(first.targets == true).sum():,}", *shares])
    yield Section(f"Classes, {split}", "Percent of the texts of each class, over all seeds.", rows)


def draw_quality(results: Results, split: str) -> Iterator[Section]:
    """A picture of the first score against the time of a training and the size of the model.

    Its bars are intervals over the seeds, or over the texts where there are too few seeds.
    """
    outcomes = results.outcomes[split, BEST]
    column = any_of(outcomes).main
    fewest, most = (choose(map(len, outcomes.values())) for choose in (min, max))
    kind, points = "seeds" if fewest >= ENOUGH else "texts", {}
    for entry in results.plan.entries:
        if entry.name in outcomes and entry.name in results.trainings:
            runs = outcomes[entry.name].values()
            seconds = fmean(run.seconds[-1] for run in results.trainings[entry.name].values())
            scores = [run.scores[column] for run in runs]
            of_texts = (run.error() for run in runs)
            error = half_interval(scores) if kind == "seeds" else fmean(of_texts)
            points[entry.name] = Quality(seconds, entry.parameters, scores, error)
    if points:
        seeds = count_seeds(most) if fewest == most else f"{fewest} to {most} seeds"
        headline = f"{column} on {split}, best checkpoint, {seeds}"
        figure = quality_against(points, column, headline, kind, find_unequal_times(results))
        yield Section(f"{column} against cost", figure=(f"quality-{split}.png", figure))


def show_differences(results: Results, split: str) -> Iterator[Section]:
    """Five texts on which the models of the first seeds differ most in quality.

    Their tables are text of the section, which ``--csv`` and ``--latex`` leave out.
    """
    outcomes = results.outcomes[split, BEST]
    firsts = {name: next(iter(runs.values())) for name, runs in outcomes.items()}
    examples = any_of(outcomes).examples
    if len(firsts) < 2 or not examples:
        return
    spread = np.ptp([run.qualities() for run in firsts.values()], axis=0)

    def outputs(index: int) -> dict[str, str]:
        return {name: str(run.examples[index][2]) for name, run in firsts.items()}

    differ = (index for index in np.argsort(spread)[::-1] if len({*outputs(index).values()}) > 1)
    tables = []
    for number, index in enumerate(islice(differ, 5), start=1):
        source, reference, _ = examples[index]
        texts = {"source": source, "reference": reference, **outputs(index)}
        rows = [["", f"{split}, text {number}"]]
        rows += [[name, literal(str(text))] for name, text in texts.items()]
        tables.append(markdown_table(rows))
    none = "Nowhere: on each text their outputs are the same."
    title = f"Where they differ most: {split}, best checkpoint, first seed"
    yield Section(title, "\n".join(tables) or none)


def describe_options(plan: Plan) -> Section:
    """The options of all trainings and evaluations, and the others for each architecture."""
    first, *others = (entry.options for entry in plan.entries)
    shared = {k: v for k, v in first.items() if all(o.get(k) == v for o in others)}
    rows = []
    for entry in plan.entries:
        own = to_words({k: v for k, v in entry.options.items() if k not in shared})
        own_options = {"its own options": shlex.join(own), "size": entry.note}
        rows.append({"architecture": entry.name, **own_options})
    text = f"All trainings: `fairseq-train {plan.recipe.data} {shlex.join(to_words(shared))}`"
    if plan.recipe.evaluate:
        text += f"  \nAll evaluations: `{shlex.join(to_words(plan.recipe.evaluate))}`"
    return Section("Options", text, table_of(rows))


def table_of(rows: Sequence[Mapping[str, str]]) -> Table:
    """A table of rows, which have their cells by column; a column without any is left out."""
    columns = dict.fromkeys(name for row in rows for name, cell in row.items() if cell)
    return [[*columns], *([row.get(name, "") for name in columns] for row in rows)]
