"""Plans: how a folder is continued, what is refused there, and which candidate is chosen."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_odeformers.files import sha256
from odeformers.compare.experiment import Experiment
from odeformers.compare.plan import Plan, check_settings, find_runs, flaws_of, join
from odeformers.compare.results.comparison import Comparison
from odeformers.compare.results.rows import DIVERGED, read_rows
from odeformers.compare.results.scores import TRAIN_LOG
from odeformers.compare.run import Run, read_run
from tests.odeformers.compare.comparisons import tried
from tests.odeformers.compare.results.test_scores import write_log
from tests.odeformers.compare.test_run import OPTIONS, VARIANT, begun

# --- settings of a variant ---------------------------------------------------------------


def read_begun(out):
    return {folder: read_run(folder) for folder in find_runs(out)}


def check(out, variant):
    check_settings(read_begun(out), [variant], out)


def test_the_same_settings_continue_a_folder(tmp_path):
    """Wherever the package is, and however large the batches of an evaluation are."""
    begun(tmp_path, replace(VARIANT, evaluate={"beam": 5}))
    same = {**OPTIONS, "user-dir": "elsewhere", "fp16": False, "clip-norm": None}
    smaller = {"beam": 5, "batch-size": 8}
    check(tmp_path, replace(VARIANT, options=same, evaluate=smaller))


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"options": {**OPTIONS, "lr": "2e-3"}}, "a: lr 1e-3 → 2e-3"),
        ({"options": {**OPTIONS, "fp16": True}}, "a: fp16 unset → set"),
        ({"average": 2}, "a: average 0 → 2"),
        ({"evaluate": {"beam": 4}}, "a: evaluate beam 5 → 4"),
        ({"bleu_tokenize": "char"}, "a: bleu-tokenize unset → char"),
        ({"test_sets": {"test": None, "valid": None}}, "a: splits test → test valid"),
        ({"score": {"test": "wc"}}, "a: score test unset → wc"),
        ({"code": "x"}, "a: the files of its plugin have changed"),
    ],
)
def test_other_settings_are_refused_with_the_folders_to_delete(changes, named, tmp_path):
    """Which are all of the architecture, whatever their seeds."""
    out = tmp_path / "runs"
    kept = replace(VARIANT, evaluate={"beam": 5}, test_sets={"test": None}, code="y")
    for variant, seed in ((kept, 1), (kept, 2), (replace(kept, architecture="b"), 1)):
        begun(out, variant, seed)
    folders = f"{out}/a-seed1 {out}/a-seed2"
    message = f"^{out} was begun with other settings .{named}.; delete {folders} to .* {out}-2$"
    with pytest.raises(ValueError, match=message):
        check(out, replace(kept, **changes))
    for folder in folders.split():
        shutil.rmtree(folder)
    check(out, replace(kept, **changes))


@pytest.mark.parametrize("text", ["", "1", "[]", "a: &a [*a]", "!!python/name:os.system x"])
def test_a_damaged_file_of_a_run_is_named(text, tmp_path):
    run = begun(tmp_path)
    (run.folder / "run.yaml").write_text(text)
    with pytest.raises(ValueError, match=f"{run.folder}/run.yaml is no run.yaml of this version"):
        read_begun(tmp_path)


# --- what all commands share -------------------------------------------------------------


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/train.bin").write_text("1")
    data, digest = str(tmp_path / "data"), sha256(tmp_path / "data")
    content = {"max-epoch": 3}, {"a": {}, "b": {}}
    return Experiment(data, *content, seeds=[5, 1], data_digest=digest)


def continued(experiment, out):
    return join(experiment, out, read_begun(out))


def begin(experiment, out):
    """A command that begins a run."""
    return Plan(continued(experiment, out), [tried(VARIANT)], out).begin({})


def test_the_first_command_says_what_runs_share(experiment, tmp_path):
    """The baseline and the seed that tunes stay its own, once a run has begun."""
    out = tmp_path / "runs"
    first = continued(experiment, out)
    assert (first.baseline, first.tuning_seed) == ("a", 0)
    assert begin(replace(experiment, baseline="b", seeds=[7]), out)
    for folder in read_begun(out):
        shutil.rmtree(folder)
    assert begin(experiment, out), "nothing is left of the other but its comparison.yaml"
    later = continued(replace(experiment, architectures={"c": {}}, seeds=[2]), out)
    assert (later.baseline, later.tuning_seed) == ("a", 5)


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"data": "{own}"}, "data {data} → {own}"),
        ({"tune": {"lr": [1, 2]}}, "tune unset → lr"),
        ({"budget": 2.0}, "max-epoch 3 → unset, budget unset → 0:02:00"),
        ({"train": {"max-epoch": 4}}, "max-epoch 3 → 4"),
        ({"baseline": "b"}, "baseline a → b"),
        ({"train": {"max-epoch": 4}, "baseline": "b"}, "baseline a → b, max-epoch 3 → 4"),
        ({"data_digest": "another"}, "the files of {data} have changed"),
    ],
)
def test_another_comparison_is_told_a_free_folder(changes, named, experiment, tmp_path):
    out = tmp_path / "runs"
    begin(experiment, out)
    own = shutil.copytree(experiment.data, tmp_path / "own")
    changes = {k: v.format(own=own) if k == "data" else v for k, v in changes.items()}
    other, named = replace(experiment, **changes), named.format(data=experiment.data, own=own)
    for free in ("runs-2", "runs-3"):
        with pytest.raises(
            ValueError, match=f"^{out} .*settings .{named}.; give .* {out.parent}/{free}$"
        ):
            continued(other, out)
        (tmp_path / free).mkdir()


def test_a_plan_is_made_anew_where_another_command_has_begun_runs(experiment, tmp_path):
    """It was made for the folder as it was; nothing of it is left there."""
    out = tmp_path / "runs"
    other = Plan(continued(experiment, out), [tried(replace(VARIANT, architecture="c"))], out)
    begin(experiment, out)
    assert not other.begin({}) and [*read_begun(out)] == [out / "a-seed5", out / "a-seed1"][::-1]
    assert other.begin(read_begun(out)) and (out / "c-seed5/run.yaml").exists()


def test_flaws_of_the_data_are_looked_for_once(experiment):
    """By the first command; its runs keep them, whatever other splits they have."""
    experiment, found = replace(experiment, test_sets={"test": None}), {"test": {"leaked": 0.5}}
    none, other, kept = (
        Run(Path("a-seed1"), tried(VARIANT), 1, flaws=flaws)
        for flaws in ({}, {"valid": {}}, {"valid": {}, **found})
    )
    others = [none, other]
    assert flaws_of(experiment, [*others, kept]) == kept.flaws
    assert flaws_of(experiment, others) == {}, "the data have no texts"


def test_fields_of_an_earlier_version_are_left_out(experiment, tmp_path):
    begin(experiment, out := tmp_path / "runs")
    joined = continued(experiment, out)
    for path in (out / "comparison.yaml", out / "a-seed5/run.yaml"):
        path.write_text(path.read_text("utf-8") + "gone: 1\n")
    assert continued(experiment, out) == joined


@pytest.mark.parametrize("name", ["comparison.yaml", "part/comparison.yaml"])
def test_a_folder_with_other_files_is_refused(name, experiment, tmp_path):
    """But for one with a comparison, whatever else is there."""
    (out := tmp_path / "runs").mkdir()
    (out / ".hidden").touch()
    joined = continued(experiment, out)
    (out / "README.md").touch()
    with pytest.raises(
        ValueError, match=f"^--out {out}: it has files, .* --out {tmp_path}/runs-2$"
    ):
        continued(experiment, out)
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).touch()
    assert continued(experiment, out) == joined


def test_runs_without_what_they_share_are_not_continued(experiment, tmp_path):
    begin(experiment, out := tmp_path / "runs")
    (out / "comparison.yaml").unlink()
    with pytest.raises(ValueError, match=f"{out}: it has files, but no comparison.yaml; give a "):
        continued(experiment, out)


# --- tuning ----------------------------------------------------------------------------


def test_the_best_validation_is_chosen_also_of_earlier_candidates(tmp_path):
    """Not the last one, which is better here for another; what has diverged is not chosen."""
    logs = {
        "1": [(10, 3.0, 1), (20, 1.0, 1), (30, 4.0, 1)],
        "2": [(10, 3.0, 1), (20, 2.5, 1), (30, 2.0, 1)],
        "3": [(10, float("nan"), 1)],
        "4": [],
    }
    every = [replace(VARIANT, tried={"lr": rate}) for rate in logs]

    def chosen(variants):
        experiment = Experiment("/data", {}, {}, tuning_seed=1)
        plan = Plan(experiment, [*map(tried, variants)], tmp_path)
        _, _, best = plan.stages()
        return [run.variant for run in best]

    assert chosen(every[1:]) == [every[1]], "the first, before any is trained"
    for variant, log in zip(every, logs.values()):
        for seed, lines in ((1, log), (2, [(10, 0.1, 1)] if variant is every[1] else [])):
            run = begun(tmp_path, variant, seed)
            write_log(run.folder / TRAIN_LOG, *lines)
            run.write_results("not evaluated")
    (best,) = chosen(every[1:])
    assert best.tried == {"lr": "1"}, "by the seed that tunes alone"
    tie = begun(tmp_path, replace(VARIANT, tried={"lr": "0"}))
    write_log(tie.folder / TRAIN_LOG, (10, 1.0, 1))
    tie.write_results("not evaluated")
    here = replace(tie.variant, options={**OPTIONS, "user-dir": "/here"})
    (best,) = chosen([here])
    assert best.tried == {"lr": "1"}, "which began before, as the report has it"
    assert Comparison(read_rows(tmp_path)).runs["a"][0].tuned == "lr 1"
    assert best.options["user-dir"] == "/here", "where the package is now"
    other = replace(VARIANT, architecture="b")
    assert [each.architecture for each in chosen([*every[1:], other])] == ["a", "b"]


def test_a_grid_of_one_value_has_no_edge(tmp_path):
    variant = replace(VARIANT, tried={"lr": "1e-3"}, options={**OPTIONS, "lr": "1e-3"})
    plan = Plan(Experiment("/data", {}, {}, tune={"lr": ["1e-3"]}), [tried(variant)], tmp_path)
    run = begun(tmp_path, variant, 0)
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
def test_a_grid_is_extended_when_all_of_it_was_tried(states, extended, tmp_path):
    """Whatever has become of the extension, and of the other seeds at the rate that was chosen."""
    every = [
        replace(VARIANT, tried={"lr": rate}, options={**OPTIONS, "lr": rate})
        for rate in ("1e-3", "2e-3")
    ]
    tune = {"lr": [variant.tried["lr"] for variant in every]}
    plan = Plan(Experiment("/data", {}, {}, tune=tune), [*map(tried, every)], tmp_path)
    for variant, loss, state in zip(every, (2.0, 1.0), states):
        run = begun(tmp_path, variant, 0)
        write_log(run.folder / TRAIN_LOG, (10, loss, 1))
        run.write_results(state)
    for _ in range(2):
        _, more, best = plan.stages()
        assert [run.folder.name for run in more] == extended
        for run in [*more, *best]:
            run.begin()
            run.write_results("failed: killed by signal 9")
