"""Caveats: what the figures of a comparison do not bear, for its report and for scoreboards.

Obstacles take the place of tests, since the scores cannot be compared. Reservations are notes.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import fmean

from fairseq_odeformers.data.binarised import FEW
from fairseq_odeformers.models.common.kinds import Kind

from .intervals import EQUAL, Difference
from .logs import Training, clock
from .outcomes import Outcome, better, is_percentage
from .recipe import count_validation_texts
from .results import Results

SLIGHT, MARKED = 0.01, 0.03  # shares of the first loss by which a training improves at its end
WORSE = 0.05  # the share of a score that an average must lose to be clearly worse
UNEQUAL = 0.25  # the share from which on times, or updates, are too different to call them equal
EARLY = 0.5  # the share of a training before which its best checkpoint comes early
LEVEL = 0.05  # of significance
CEILING = 99  # percent, above which scores are near the most that can be reached
Outcomes = Mapping[str, Mapping[int, Outcome]]  # by architecture and seed


def find_obstacles(results: Results, outcomes: Outcomes) -> Iterator[tuple[str, Collection[str]]]:
    """Why scores on a split cannot be compared, each reason with the architectures it holds for."""
    if times := find_unequal_times(results):
        remedy = "compare again with a longer `--budget`, or on a steadier machine"
        yield f"{times}; {remedy}.", outcomes
    if few := dict(find_undertrained(results, outcomes)):
        told = "; ".join(few.values())
        yield f"Too little training to compare: {told}; train longer, or leave them out.", few
    texts = len(any_of(outcomes).examples)
    if 0 < texts < FEW:
        yield f"Too few texts to compare: {texts}; test on {FEW} or more.", outcomes


def find_unequal_times(results: Results) -> str:
    """How far the times of architectures with one budget differ; "" if they are about equal."""
    times = average_times(find_budgeted(results))
    span = f"{clock(min(times))} to {clock(max(times))}" if times else ""
    return f"Unequal effort: trainings with one budget took {span}" if differ(times) else ""


def find_undertrained(results: Results, outcomes: Outcomes) -> Iterator[tuple[str, str]]:
    """The architectures that have learned too little to be compared, each with the reason."""
    for entry in results.plan.entries:
        trainings = results.trainings.get(entry.name, {})
        reasons = []
        for seed, run in outcomes.get(entry.name, {}).items():
            improving = seed in trainings and trainings[seed].improving
            reasons.append(run.undertrained(improving))
        if any(run.updates[-1] < entry.epoch_updates for run in trainings.values()):
            reasons.append("less than an epoch")
        if any(run.improving and run.late_gain > MARKED for run in trainings.values()):
            reasons.append(f"loss fell by more than {MARKED:.0%} in the last quarter of updates")
        if reason := ", ".join(filter(None, dict.fromkeys(reasons))):
            yield entry.name, f"{entry.name} ({reason})"


def find_reservations(results: Results) -> Iterator[str]:
    """What to keep in mind when the trainings are compared."""
    yield from judge_budgets(results)
    improving = (
        name
        for name, runs in results.trainings.items()
        if any(run.improving and run.late_gain > SLIGHT for run in runs.values())
    )
    if names := ", ".join(improving):
        yield f"Still improving at the end: {names}. Longer training may change the order."
    if early := ", ".join(find_early(results)):
        yield f"Best checkpoints come early: {early}. More updates may not help."
    if len(results.trainings) > 1 and not results.plan.recipe.tune:
        yield "Options were not tuned for each model (`--tune`). Other values may change the order."


def judge_budgets(results: Results) -> Iterator[str]:
    """That budgets of time were missed, or gave architectures different numbers of updates."""
    budgeted = find_budgeted(results)
    times = average_times(budgeted)
    budget = 60 * max(entry.budget or 0 for entry in results.plan.entries)
    if times and differ([budget, *times]):
        change = fmean(times) / budget - 1
        yield (
            f"The budget was missed: trainings took {clock(min(times))} to {clock(max(times))} "
            f"instead of {clock(budget)}, since updates took {abs(change):.0%} "
            f"{'longer' if change > 0 else 'less'} than when they were timed; to meet it, compare "
            "again (`--redo` with all architectures, or another `--out`)."
        )
    updates = [run.updates[-1] for runs in budgeted for run in runs]
    if differ(updates):
        span = f"{min(updates):,} to {max(updates):,}"
        of_times = f"{clock(min(times))} to {clock(max(times))}"
        yield f"The budget is for equal time, not equal updates: {span} in {of_times}."


def find_early(results: Results) -> Iterator[str]:
    """The architectures that overfit: their scored checkpoints are of the first half of updates."""
    for name, runs in results.trainings.items():
        shares = [
            run.updates[run.find_best(results.plan.recipe.best)] / run.updates[-1]
            for run in runs.values()
            if run.losses
        ]
        if shares and fmean(shares) < EARLY:
            yield f"{name} (after {fmean(shares):.0%} of the updates)"


def find_ceiling(outcomes: Outcomes) -> Iterator[str]:
    """That models are too good for differences between their scores to say much."""
    runs = [run for of_name in outcomes.values() for run in of_name.values()]
    near = any(is_percentage(run.main) and run.scores[run.main] > CEILING for run in runs)
    if near and len(outcomes) > 1:
        yield "Scores are near 100, so differences say little; compare on harder data."


def find_sampling_error(outcomes: Outcomes) -> Iterator[str]:
    """How far a score may be off because the texts are a sample, where that is known."""
    first = any_of(outcomes)
    if error := first.error():
        yield (
            f"With {len(first.examples):,} texts, the 95% interval of a score is about "
            f"±{error:.1f}, beside the variation between seeds."
        )


def find_open_choices(results: Results) -> Iterator[str]:
    """Why other values may be better than the chosen ones: they are at an edge, or nearly tie."""
    edges: dict[str, list[str]] = {}  # architectures
    for entry, validated in results.candidates:
        if validated is None or entry not in results.plan.entries:
            continue
        others = [other.tried for other, _ in results.candidates if other.name == entry.name]
        for option, value in entry.tried.items():
            numbers = {number_of(tried[option]) for tried in others}
            side = {min(numbers): "smallest", max(numbers): "largest"}.get(number_of(value))
            if side and len(numbers) > 1:
                edges.setdefault(f"the {side} {option}, {value}", []).append(entry.name)
    for edge, names in edges.items():
        yield f"{', '.join(names)} chose {edge}; values beyond it may be better."
    if names := ", ".join(find_near_ties(results)):
        yield (
            f"The two best accuracies of {names} differ by less than the standard error of a "
            "difference on so few validation texts."
        )


def number_of(value: object) -> float:
    """The number in the value of an option, such as 1e-3 or 10%, or NaN, which equals nothing."""
    try:
        return float(str(value).removesuffix("%"))
    except ValueError:
        return float("nan")


def find_near_ties(results: Results) -> Iterator[str]:
    """The architectures with two candidates whose accuracies validation texts cannot tell apart."""
    texts = count_validation_texts(results.plan.recipe)
    if results.plan.recipe.metric != "accuracy" or not texts:
        return
    validated: dict[str, list[float]] = {}
    for entry, value in results.candidates:
        validated.setdefault(entry.name, []).extend([] if value is None else [value / 100])
    for name, shares in validated.items():
        *_, second, best = 0.0, 0.0, *sorted(shares)
        if len(shares) > 1 and best - second <= math.sqrt(2 * second * (1 - second) / texts):
            yield name


def find_worse_averages(best: Outcomes, averaged: Outcomes) -> Iterator[str]:
    """That averages of architectures are clearly worse than their best checkpoints."""
    column = any_of(averaged).main
    sign, worse = better(column), []
    for name in filter(best.__contains__, averaged):
        score, other = (
            fmean(run.scores[column] for run in outcomes[name].values())
            for outcomes in (averaged, best)
        )
        worse += [name] if score**sign < (1 - WORSE) * other**sign else []
    if worse:
        yield (
            "Warning: averages are clearly worse than the best checkpoints, and probably span too "
            f"much of the training: {', '.join(worse)}."
        )


def find_missing_texts(results: Results) -> Iterator[str]:
    """That texts have gone since the comparison was begun, and what this means for the report."""
    consequence = "examples are named by their numbers"
    if results.plan.recipe.kind is Kind.TRANSLATION:
        consequence = (
            "scores use the references in the outputs, detokenised, so BLEU and chrF may differ "
            "from those of an earlier report"
        )
    for split, path in results.missing.items():
        yield f"Warning: `{path}` (texts of {split}) is missing; {consequence}."


def explain_comparison(
    outcomes: Outcomes,
    differences: Mapping[str, Difference],
    tests: Mapping[str, Sequence[float]],
) -> Iterator[str]:
    """What differences and p-values, both by architecture, mean and leave open."""
    if differences:
        yield "Of differences, positive is better."
    if any(difference.interval for difference in differences.values()):
        yield (
            "Their brackets give Welch's 95% interval over the seeds, not corrected for several "
            f"comparisons; there is none where {EQUAL}."
        )
    for name, p_values in tests.items():
        unsure = sum(p > LEVEL for p in p_values)
        if 2 * unsure > len(p_values) and differences[name].excludes_zero:
            yield (
                f"{name}: other seeds would probably agree, other texts may not, since p is above "
                f"{LEVEL} with {unsure} of {len(p_values)} seeds."
            )
    if tested := sum(map(len, tests.values())):
        first = any_of(outcomes)
        yield f"p-values test the difference in {first.main} for each seed ({first.test})."
        if tested > 1:
            yield f"They are corrected by Holm's method for {tested} comparisons."
    if max(map(len, outcomes.values())) == 1:
        yield "One seed says nothing of the variation between seeds; train three or more."


def find_budgeted(results: Results) -> list[list[Training]]:
    """The trainings of each architecture that has used up a budget of time, one for each seed."""
    of_entries = (
        [*results.trainings.get(entry.name, {}).values()]
        for entry in results.plan.entries
        if entry.budget and entry.name not in results.unfinished
    )
    return [*filter(None, of_entries)]


def average_times(budgeted: Sequence[Sequence[Training]]) -> list[float]:
    """The time of each architecture, the mean over its seeds: they differ as the machine does."""
    return [fmean(run.seconds[-1] for run in runs) for runs in budgeted]


def differ(values: Sequence[float]) -> bool:
    """Whether the largest value is larger than the smallest by more than the share UNEQUAL."""
    return max(values, default=0) > (1 + UNEQUAL) * min(values, default=0)


def any_of(outcomes: Outcomes) -> Outcome:
    """One of the outcomes, which are all of the same kind."""
    return next(run for runs in outcomes.values() for run in runs.values())
