"""Caveats: what the figures of a comparison do not bear, for its report and for scoreboards.

Obstacles take the place of tests, since the scores cannot be compared. Reservations are notes.
"""

from collections.abc import Iterator, Mapping, Sequence

from fairseq_odeformers.lab.corpora.command import FEW

from .logs import MARKED, Training, clock
from .outcomes import Outcome
from .results import Results

UNEQUAL = 0.25  # the share from which on times, or updates, are too different to call them equal
Outcomes = Mapping[str, Mapping[int, Outcome]]  # by architecture and seed


def find_obstacles(results: Results, outcomes: Outcomes) -> Iterator[str]:
    """Why the scores on a split cannot be compared: unequal effort, or too little of something."""
    if times := find_unequal_times(results):
        yield f"Unequal effort: {times}; compare again on a quiet machine, with another `--out`."
    if undertrained := "; ".join(find_undertrained(results, outcomes)):
        yield f"Too little training to compare: {undertrained}; train longer."
    texts = len(any_of(outcomes).examples)
    if 0 < texts < FEW:
        yield f"Too few texts to compare: {texts}; test on {FEW} or more."


def find_unequal_times(results: Results) -> str:
    """How far the times of trainings with one budget differ; "" if they are about equal."""
    times = [run.seconds[-1] for run in find_budgeted(results)]
    span = f"{clock(min(times))} to {clock(max(times))}" if times else ""
    return f"trainings with one budget took {span}" if differ(times) else ""


def find_undertrained(results: Results, outcomes: Outcomes) -> Iterator[str]:
    """The architectures that have learned too little to be compared, each with the reason."""
    for entry in results.plan.entries:
        trainings = results.trainings.get(entry.name, {})
        reasons = []
        for seed, run in outcomes.get(entry.name, {}).items():
            improving = seed in trainings and trainings[seed].improving
            reasons.append(run.undertrained(improving))
        if any(run.updates[-1] < entry.epoch_updates for run in trainings.values()):
            reasons.append("less than an epoch")
        if any(run.improving_markedly for run in trainings.values()):
            reasons.append(f"loss fell by more than {MARKED:.0%} in the last quarter of updates")
        if reason := ", ".join(filter(None, dict.fromkeys(reasons))):
            yield f"{entry.name} ({reason})"


def find_reservations(results: Results) -> Iterator[str]:
    """What to keep in mind when the trainings are compared."""
    trainings = results.trainings
    updates = [run.updates[-1] for run in find_budgeted(results)]
    if differ(updates):
        yield f"Equal time, not equal updates: from {min(updates):,} to {max(updates):,}."
    improving = (
        name for name, runs in trainings.items() if any(r.improving for r in runs.values())
    )
    if names := ", ".join(improving):
        yield f"Still improving at the end: {names}. Longer training may change the order."
    if len(trainings) > 1 and not results.plan.recipe.tune:
        yield "Options were not tuned for each model (`--tune`)."


def find_budgeted(results: Results) -> list[Training]:
    """The trainings that have used up a budget of time."""
    return [
        run
        for entry in results.plan.entries
        if entry.budget and entry.name not in results.unfinished
        for run in results.trainings.get(entry.name, {}).values()
    ]


def differ(values: Sequence[float]) -> bool:
    """Whether the largest value is larger than the smallest by more than the share UNEQUAL."""
    return max(values, default=0) > (1 + UNEQUAL) * min(values, default=0)


def any_of(outcomes: Outcomes) -> Outcome:
    """One of the outcomes, which are all of the same kind."""
    return next(run for runs in outcomes.values() for run in runs.values())
