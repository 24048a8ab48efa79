"""Agreement: how a folder is continued, and what is refused there."""

import shutil
from dataclasses import replace

import pytest

from odeformers.compare.plan import Plan, check_settings, find_runs, join
from odeformers.compare.run import read_run
from tests.odeformers.compare.comparisons import estimated
from tests.odeformers.compare.test_run import OPTIONS, VARIANT, start_run

# --- settings of a variant ---------------------------------------------------------------


def read_started(out):
    return {folder: read_run(folder) for folder in find_runs(out)}


def check(out, variant):
    check_settings(read_started(out), [variant], out)


def test_the_same_settings_continue_a_folder(tmp_path):
    """The place of the package and the batch size of an evaluation do not matter."""
    start_run(tmp_path, replace(VARIANT, evaluate={"beam": 5}))
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
    """The folders are all of the architecture, for every seed."""
    out = tmp_path / "runs"
    kept = replace(VARIANT, evaluate={"beam": 5}, test_sets={"test": None}, code="y")
    for variant, seed in ((kept, 1), (kept, 2), (replace(kept, architecture="b"), 1)):
        start_run(out, variant, seed)
    folders = f"{out}/a-seed1 {out}/a-seed2"
    message = (
        f"^{out} was .* settings .{named}.; give .* {out}-2, or delete {folders} to train again$"
    )
    with pytest.raises(ValueError, match=message):
        check(out, replace(kept, **changes))
    for folder in folders.split():
        shutil.rmtree(folder)
    check(out, replace(kept, **changes))


@pytest.mark.parametrize("text", ["", "1", "[]", "a: &a [*a]", "!!python/name:os.system x"])
def test_a_damaged_file_of_a_run_is_named(text, tmp_path):
    run = start_run(tmp_path)
    (run.folder / "run.yaml").write_text(text)
    with pytest.raises(ValueError, match=f"{run.folder}/run.yaml was not written by this version"):
        read_started(tmp_path)


# --- what all commands share -------------------------------------------------------------


def continued(experiment, out):
    return join(experiment, out, read_started(out))


def start(experiment, out):
    """The command that starts an experiment's runs in a folder."""
    return Plan(continued(experiment, out), [estimated(VARIANT)], out).start({})


def test_the_first_command_sets_what_runs_share(experiment, tmp_path):
    """The first baseline and tuning seed stay after a run has started."""
    out = tmp_path / "runs"
    first = continued(experiment, out)
    assert (first.baseline, first.tuning_seed) == ("a", 0)
    assert start(replace(experiment, baseline="b", seeds=[7]), out)
    for folder in read_started(out):
        shutil.rmtree(folder)
    assert start(experiment, out), "nothing is left of the other but its comparison.yaml"
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
def test_another_comparison_is_refused_with_a_free_folder(changes, named, experiment, tmp_path):
    out = tmp_path / "runs"
    start(experiment, out)
    own = shutil.copytree(experiment.data, tmp_path / "own")
    changes = {k: v.format(own=own) if k == "data" else v for k, v in changes.items()}
    other, named = replace(experiment, **changes), named.format(data=experiment.data, own=own)
    for free in ("runs-2", "runs-3"):
        with pytest.raises(
            ValueError, match=f"^{out} .*settings .{named}.; give .* {out.parent}/{free}$"
        ):
            continued(other, out)
        (tmp_path / free).mkdir()


def test_fields_of_an_earlier_version_are_ignored(experiment, tmp_path):
    start(experiment, out := tmp_path / "runs")
    joined = continued(experiment, out)
    for path in (out / "comparison.yaml", out / "a-seed5/run.yaml"):
        path.write_text(path.read_text("utf-8") + "gone: 1\n")
    assert continued(experiment, out) == joined


@pytest.mark.parametrize("name", ["comparison.yaml", "part/comparison.yaml"])
def test_a_folder_with_other_files_is_refused(name, experiment, tmp_path):
    """A folder with a comparison may have any other files."""
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


def test_runs_without_their_comparison_are_refused(experiment, tmp_path):
    start(experiment, out := tmp_path / "runs")
    (out / "comparison.yaml").unlink()
    with pytest.raises(ValueError, match=f"{out}: it has files, but no comparison.yaml; give a "):
        continued(experiment, out)
