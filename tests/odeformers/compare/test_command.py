"""The command ``odeformers compare``: its errors, and the plan that a dry run prints."""

import os
import signal
import time
from dataclasses import asdict

import pytest
from script_helpers import parallel_data, write_to

from fairseq_odeformers.files import sha256
from odeformers.__main__ import main
from odeformers.compare.experiment import Experiment
from odeformers.compare.plan import Shared, foresee
from odeformers.compare.results.intervals import minimal_detectable
from odeformers.compare.run import make_runs, write_yaml
from odeformers.compare.variant import Variant
from odeformers.processes import FORK
from tests.odeformers.compare.comparisons import estimated, write_comparison, write_run

SMALL = ["--layers", "1", "--width", "16", "--heads", "2", "--ffn", "32"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    parallel_data(folder, "de", "en", train=120, valid=8, test=11)
    return folder / "data-bin"


@pytest.mark.parametrize(
    "words, message",
    [
        ("--redo transformer", "--redo: delete the folders of its runs in --out"),
        ("--gpus 1", "--gpus: choose GPUs by CUDA_VISIBLE_DEVICES"),
        ("--time 1h", "--time needs --cluster slurm; here, write: timeout"),
        ("--cluster slurm --budget 1h --dry-run", "--budget: its updates would be timed on this"),
        ("--cluster slurm", "--cluster slurm: Slurm's command srun is not here"),
        ("--slurm-partition a --dry-run", "--slurm-partition a: give --cluster slurm as well"),
        ("--budgett 1m", "--budgett: there is no such option; did you mean --budget"),
        ("--user-dir {a} --user-dir {b}", "--user-dir {a} {b}: fairseq takes one folder"),
        ("--user-dir {b}", "--user-dir {b}: it does not import fairseq_odeformers"),
        ("--baseline lstm", "--baseline lstm: give one of transformer"),
        ("--budget 1", "argument --budget: 1: give the unit as well, such as 1m or 1h"),
        ("--out /proc/foo", "argument --out: /proc/foo: cannot be written"),
    ],
)
def test_removed_options_are_refused_with_their_replacement(words, message, data, tmp_path, capsys):
    """The command ends before anything is built or written."""
    places = {name: tmp_path / f"{name}_{tmp_path.name}" for name in "ab"}
    for name, folder in places.items():
        folder.mkdir()
        (folder / "__init__.py").write_text("import fairseq_odeformers\n" * (name == "a"))
    line = ["compare", str(data), "--archs", "transformer", "--out", str(tmp_path / "runs")]
    with pytest.raises(SystemExit) as stopped:
        main([*line, *words.format(**places).split()])
    assert stopped.value.code == 2 and not (tmp_path / "runs").exists()
    assert f"odeformers compare: error: {message.format(**places)}" in capsys.readouterr().err


def test_an_interrupted_dry_run_does_not_mention_checkpoints(data, tmp_path):
    errors = open(tmp_path / "errors", "w+b")

    def compare():
        write_to(open(os.devnull, "w"))
        os.dup2(errors.fileno(), 2)
        line = ["compare", str(data), "--archs", "transformer", *SMALL[2:], "--dry-run"]
        main([*line, "--tune", "layers=1,2,3,4,5,6,7,8", "--match", "none"])

    command = FORK.Process(target=compare)
    command.start()
    end = time.monotonic() + 120
    while b"trying" not in (tmp_path / "errors").read_bytes() and time.monotonic() < end:
        time.sleep(0.02)
    os.kill(command.pid, signal.SIGINT)
    command.join(60)
    output = (tmp_path / "errors").read_text()
    assert command.exitcode == 130 and "interrupted; nothing was trained" in output
    assert "Traceback" not in output


def test_a_dry_run_prints_all_commands_and_writes_nothing(data, tmp_path, monkeypatch, capfd):
    """Every seed has its commands; candidates of tuned options come first, and count once."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # forks of this process need one thread
    line = ["compare", data, "--archs", "transformer_prenorm", "--out", tmp_path / "runs", *SMALL]
    line += ["--tune", "lr=1e-3,2e-3", "--seeds", 5, 6, "--epochs", 3, "--dry-run"]
    main([str(word) for word in line])
    printed = capfd.readouterr().out
    assert not (tmp_path / "runs").exists()
    assert "\n4 of 4 runs remain, 1 at a time. Training will take about 0:00:0" in printed
    tuning, others = printed.split("# Then with the best candidate")
    assert tuning.count("fairseq-train") == 2 and "fairseq-generate" not in tuning
    assert others.count("fairseq-train") == others.count("fairseq-generate") == 2
    assert "--lr 1e-3" in others and "--total-num-update 2e" not in others


@pytest.mark.parametrize("layers, printed", [("2", True), ("4", False)])
def test_a_plan_names_models_that_lack_what_they_are_known_for(
    layers, printed, data, tmp_path, capfd
):
    """TransEvolve's blocks of one layer do not evolve scores."""
    archs = ["transformer", "transevolve_fullff_2", "transevolve_fullff_1_prenorm"]
    size = [f"--layers={layers}", *SMALL[2:], "--epochs=1", "--dry-run"]
    main(["compare", str(data), "--out", str(tmp_path / "runs"), "--archs", *archs, *size])
    line = (
        "Blocks of a single layer do not evolve scores (--encoder-depth 1 and --decoder-depth 1; "
        "use more layers): transevolve_fullff_2.\n"
    )
    assert (line in capfd.readouterr().out) == printed


def test_a_dry_run_predicts_the_differences_that_seeds_find(tmp_path):
    """The prediction needs finished runs, which show how scores spread over seeds."""
    experiment = Experiment(
        data="/data", train={}, architectures={"a": {}, "b": {}, "c": {}}, seeds=[1, 2, 3, 4, 5]
    )
    assert not [*foresee(tmp_path, experiment)]
    scores = {"a": (70.0, 71.0, 72.0), "b": (75.0, 76.0, 77.0)}
    runs = [
        write_run(tmp_path, name, seed, score)
        for name, of_seeds in scores.items()
        for seed, score in enumerate(of_seeds, start=1)
    ]
    (line,) = foresee(write_comparison(tmp_path, *runs), experiment)
    least = minimal_detectable(models=2, seeds=5)
    assert f", 5 seeds would detect a difference of {least:.2f} in accuracy" in line
    write_comparison(tmp_path, *runs[:2])
    assert not [*foresee(tmp_path, experiment)]


def test_the_size_of_a_deleted_baseline_is_forgotten(data, tmp_path, monkeypatch, capfd):
    """If its runs are deleted, as a message advises, the baseline does not keep their size."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    left = Shared(str(data), sha256(data), "translation", "", {"max-epoch": "3"}, "transformer")
    write_yaml(tmp_path / "comparison.yaml", asdict(left))
    options = {"arch": "transformer", "user-dir": "here"}
    other = estimated(Variant("other", "translation", str(data), options), parameters=3000)
    make_runs([other], tmp_path, seeds=[1])[0].start()
    line = ["compare", data, "--archs", "transformer", "macaron_transformer", "--out", tmp_path]
    main([str(word) for word in [*line, *SMALL, "--epochs", 3, "--dry-run"]])
    printed = capfd.readouterr().out
    (baseline,) = (row for row in printed.splitlines() if "--arch transformer " in row)
    assert "--encoder-ffn-embed-dim 32 " in baseline
