"""Plans: which runs are planned, and which candidate is chosen."""

from dataclasses import replace
from pathlib import Path

import pytest

from odeformers.compare.experiment import Experiment
from odeformers.compare.outcome import TRAIN_LOG
from odeformers.compare.plan import Plan, flaws_of
from odeformers.compare.results.rows import DIVERGED, Comparison, read_rows
from odeformers.compare.run import Run
from tests.odeformers.compare.comparisons import estimated
from tests.odeformers.compare.test_agreement import continued, read_started, start
from tests.odeformers.compare.test_outcome import write_log
from tests.odeformers.compare.test_run import OPTIONS, VARIANT, start_run


def test_a_plan_is_discarded_if_another_command_has_started(experiment, tmp_path):
    """The plan was made for an earlier state of the folder, and leaves nothing there."""
    out = tmp_path / "runs"
    other = Plan(continued(experiment, out), [estimated(replace(VARIANT, architecture="c"))], out)
    start(experiment, out)
    assert not other.start({}) and [*read_started(out)] == [out / "a-seed5", out / "a-seed1"][::-1]
    assert other.start(read_started(out)) and (out / "c-seed5/run.yaml").exists()


def test_flaws_of_the_data_are_looked_for_once(experiment):
    """The first command finds them, and its runs keep them, even with further splits."""
    experiment, found = replace(experiment, test_sets={"test": None}), {"test": {"leaked": 0.5}}
    none, other, kept = (
        Run(Path("a-seed1"), estimated(VARIANT), 1, flaws=flaws)
        for flaws in ({}, {"valid": {}}, {"valid": {}, **found})
    )
    others = [none, other]
    assert flaws_of(experiment, [*others, kept]) == kept.flaws
    assert flaws_of(experiment, others) == {}, "the data have no texts"


# --- tuning ----------------------------------------------------------------------------


def test_the_best_validation_chooses_the_candidate(tmp_path):
    """The last validation does not count, nor do diverged candidates, but earlier ones do."""
    logs = {
        "1": [(10, 3.0, 1), (20, 1.0, 1), (30, 4.0, 1)],
        "2": [(10, 3.0, 1), (20, 2.5, 1), (30, 2.0, 1)],
        "3": [(10, float("nan"), 1)],
        "4": [],
    }
    every = [replace(VARIANT, tried={"lr": rate}) for rate in logs]

    def chosen(variants):
        experiment = Experiment("/data", {}, {}, tuning_seed=1)
        plan = Plan(experiment, [*map(estimated, variants)], tmp_path)
        _, _, best = plan.stages()
        return [run.variant for run in best]

    assert chosen(every[1:]) == [every[1]], "the first, before any is trained"
    for variant, log in zip(every, logs.values()):
        for seed, lines in ((1, log), (2, [(10, 0.1, 1)] if variant is every[1] else [])):
            run = start_run(tmp_path, variant, seed)
            write_log(run.folder / TRAIN_LOG, *lines)
            run.write_results("not evaluated")
    (best,) = chosen(every[1:])
    assert best.tried == {"lr": "1"}, "by the seed that tunes alone"
    tie = start_run(tmp_path, replace(VARIANT, tried={"lr": "0"}))
    write_log(tie.folder / TRAIN_LOG, (10, 1.0, 1))
    tie.write_results("not evaluated")
    here = replace(tie.variant, options={**OPTIONS, "user-dir": "/here"})
    (best,) = chosen([here])
    assert best.tried == {"lr": "1"}, "which started before, as the report has it"
    assert Comparison(read_rows(tmp_path)).runs["a"][0].tuned == "lr 1"
    assert best.options["user-dir"] == "/here", "where the package is now"
    other = replace(VARIANT, architecture="b")
    assert [each.architecture for each in chosen([*every[1:], other])] == ["a", "b"]


def test_a_grid_of_one_value_has_no_edge(tmp_path):
    variant = replace(VARIANT, tried={"lr": "1e-3"}, options={**OPTIONS, "lr": "1e-3"})
    plan = Plan(Experiment("/data", {}, {}, tune={"lr": ["1e-3"]}), [estimated(variant)], tmp_path)
    run = start_run(tmp_path, variant, 0)
    write_log(run.folder / TRAIN_LOG, (10, 1.0, 1))
    run.write_results("not evaluated")
    _, more, _ = plan.stages()
    assert not more


@pytest.mark.parametrize(
    "states, extended",
    [
        (["not evaluated"], []),
        (["failed: killed by signal 9", "not evaluated"], []),
        (["not evaluated", "failed: killed by signal 9"], []),
        (["not evaluated"] * 2, ["a-lr-4e-3-seed0"]),
        ([f"failed: {DIVERGED}", "not evaluated"], ["a-lr-4e-3-seed0"]),
        (["not evaluated", f"failed: {DIVERGED}"], ["a-lr-5e-4-seed0"]),
        ([f"failed: {DIVERGED}"] * 2, []),
    ],
)
def test_a_grid_is_extended_after_all_its_candidates(states, extended, tmp_path):
    """The state of the extension and of other seeds at the chosen rate does not matter."""
    every = [
        replace(VARIANT, tried={"lr": rate}, options={**OPTIONS, "lr": rate})
        for rate in ("1e-3", "2e-3")
    ]
    tune = {"lr": [variant.tried["lr"] for variant in every]}
    plan = Plan(Experiment("/data", {}, {}, tune=tune), [*map(estimated, every)], tmp_path)
    for variant, loss, state in zip(every, (2.0, 1.0), states):
        run = start_run(tmp_path, variant, 0)
        write_log(run.folder / TRAIN_LOG, (10, loss, 1))
        run.write_results(state)
    for _ in range(2):
        _, more, best = plan.stages()
        assert [run.folder.name for run in more] == extended
        for run in [*more, *best]:
            run.start()
            run.write_results("failed: killed by signal 9")
