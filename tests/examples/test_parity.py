"""The commands of the parity experiments, on few runs and on logs with known means."""

import csv
import gzip
import importlib
import json
import shutil
import sys
import time
from itertools import product
from pathlib import Path

import pytest
import torch
import warm
from fairseq import options
from script_helpers import USER_DIR, command, refusal, times

from fairseq_odeformers.inference.loading import load_classifier

pytest.importorskip("matplotlib")
EXAMPLE = Path(__file__).parents[2] / "examples" / "parity"
sys.path.insert(0, str(EXAMPLE))
experiments, run, report, trajectories = map(
    importlib.import_module, ("experiments", "run", "report", "trajectories")
)

ONE_SIZE = ["--dims", "4", "--layers", "1", "--arch", "vanilla_transformer"]


def main(monkeypatch, script, *options):
    monkeypatch.setattr(sys, "argv", [script.__file__, *map(str, options)])
    script.main()


def log_line(accuracy, wall, update):
    stats = {"train_accuracy": accuracy, "train_wall": wall, "train_num_updates": update}
    stats = json.dumps({name: str(value) for name, value in stats.items()})
    return f"2026-11-21 16:40:57 | INFO | train | {stats}\n"


def write_log(folder, *epochs):
    """A log as fairseq writes it, of epochs of accuracy, seconds since the start, and update."""
    folder.mkdir(parents=True)
    with gzip.open(folder / experiments.LOG, "wt") as log:
        log.write('2026-11-21 16:40:57 | INFO | fairseq_cli.train | {"train_accuracy": "?"}\n')
        log.writelines(log_line(*epoch) for epoch in epochs)


# --- run.py ----------------------------------------------------------------


@pytest.fixture
def forked(monkeypatch):
    """The runs of run.py are forks of this process."""
    with warm.commands() as (programs, _):
        monkeypatch.setattr(sys, "executable", str(programs / "python"))
        yield


@pytest.mark.usefixtures("forked")
def test_runs_and_their_table(tmp_path, monkeypatch, capsys):
    """What is finished is not repeated; more runs are added; the table has them all."""
    options = ["table1", *ONE_SIZE, "--updates", 3, "--out", tmp_path]
    main(monkeypatch, run, *options, "--runs", 1, "--workers", 1)
    (log,) = tmp_path.rglob("train.log.gz")
    assert log.parent.name == "lr0.0003-seed1"
    before = times(log.parent)
    main(monkeypatch, run, *options, "--runs", 2, "--workers", 2)
    assert times(log.parent) == before
    assert len(list(tmp_path.rglob("train.log.gz"))) == 2
    monkeypatch.setattr(run, "train", None)
    main(monkeypatch, run, *options, "--runs", 2)

    capsys.readouterr()
    main(monkeypatch, report, *options)
    header, _, row = capsys.readouterr().out.splitlines()
    assert "`vanilla_transformer`, paper" in header and "node_transformer" not in header
    assert row.startswith("| 4 | 1 | 77.9%, 78 s | ") and row.endswith("(2 of 2) |")
    rows = list(csv.DictReader(open(tmp_path / "table1.csv")))
    assert [(row["learning_rate"], row["seed"]) for row in rows] == [
        ("0.0003", "1"),
        ("0.001", "2"),
    ]
    assert all(40 <= float(row["accuracy"]) <= 60 for row in rows)


@pytest.mark.usefixtures("forked")
def test_longer_runs_stand_for_shorter_ones(tmp_path, monkeypatch, capsys):
    """The first updates of a long run are those of a short one, of which the report tells."""
    (tmp_path / "long" / "updates4 of old").mkdir(parents=True)
    rows = []
    for out, updates in ((tmp_path / "long", 4), (tmp_path / "short", 2)):
        options = ["table1", *ONE_SIZE, "--runs", 2, "--out", out]
        main(monkeypatch, run, *options, "--updates", updates)
        main(monkeypatch, run, *options, "--updates", 2)
        main(monkeypatch, report, *options, "--updates", 2)
        found = csv.DictReader(open(out / "table1.csv"))
        rows.append([(row["seed"], row["accuracy"], row["updates"]) for row in found])
    assert rows[0] == rows[1] and len(rows[0]) == 2
    assert [folder.name for folder in (tmp_path / "long").glob("updates?")] == ["updates4"]
    main(monkeypatch, run, *options[:-1], tmp_path / "long", "--updates", 5)
    assert (tmp_path / "long" / "updates5").exists()


@pytest.mark.usefixtures("forked")
def test_reports_stand_for_runs_without_logs(tmp_path, monkeypatch, capsys):
    """Two runs of a report, whose logs are gone, and a third are one table."""
    report_of_two = tmp_path / "of_two.csv"
    for runs, updates in ((2, 3), (3, 3)):
        options = ["table1", *ONE_SIZE, "--runs", runs, "--updates", updates, "--out", tmp_path]
        if report_of_two.exists():
            options += ["--reports", report_of_two]
        main(monkeypatch, run, *options)
        main(monkeypatch, report, *options)
        made = [log.parent.name for log in tmp_path.rglob("train.log.gz")]
        if runs == 2:
            assert sorted(made) == ["lr0.0003-seed1", "lr0.001-seed2"]
            (tmp_path / "table1.csv").rename(report_of_two)
            shutil.rmtree(tmp_path / "updates3")
    assert made == ["lr0.003-seed3"]
    assert capsys.readouterr().out.endswith("(3 of 3) |\n")
    rows = (tmp_path / "table1.csv").read_text().splitlines()
    assert rows[:3] == report_of_two.read_text().splitlines() and len(rows) == 4


@pytest.mark.parametrize(
    "name, message",
    [
        ("paper.csv", "--reports .*paper.csv: give CSV files that report.py has written"),
        ("none.csv", "No such file or directory: .*none.csv"),
    ],
)
@pytest.mark.parametrize("script", [run, report])
def test_files_that_are_no_reports(tmp_path, monkeypatch, script, name, message):
    options = ["table1", "--reports", EXAMPLE / name, "--out", tmp_path]
    with pytest.raises(SystemExit, match=f"{Path(script.__file__).name}: error: .*{message}"):
        main(monkeypatch, script, *options)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def one_run(tmp_path, monkeypatch):
    """Makes a run of a program that prints epochs and then does something; returns its folder."""

    def make(epochs, then):
        program = "import os, sys, time\n"
        program += "".join(f"print({line!r}, end='', flush=True)\n" for line in epochs) + then
        monkeypatch.setattr(run, "command", lambda *_: [sys.executable, "-c", program])
        main(monkeypatch, run, "table1", *ONE_SIZE, "--runs", 1, "--out", tmp_path)

    return make


def finished(tmp_path):
    return list(tmp_path.rglob("recipe.json"))


@pytest.mark.parametrize(
    "error",
    [
        "FloatingPointError('gradients are Nan/Inf')",
        "RuntimeError('a solve may take --ode-max-steps 1,000')",
        "RuntimeError('the state or its slope is not finite')",
    ],
)
def test_run_that_diverges_counts(one_run, tmp_path, error):
    one_run([log_line(50, 1, 1), log_line(60, 2, 2)], f"raise {error}")
    (recipe,) = finished(tmp_path)
    assert report.read(recipe.with_name("train.log.gz"), 3000).accuracy == 60


@pytest.mark.parametrize(
    "epochs, then, message",
    [
        ([], "sys.exit('no such option')", "status 1; the end of its output:\nno such option\n"),
        ([], "raise FloatingPointError", "status 1"),
        ([log_line(50, 1, 1)], "raise OSError('no space left')", "OSError: no space left"),
        ([log_line(50, 1, 1)], "os.kill(os.getpid(), 9)", "status -9"),
    ],
)
def test_run_that_fails_leaves_nothing(one_run, tmp_path, epochs, then, message):
    with pytest.raises(SystemExit, match=message):
        one_run(epochs, then)
    assert not finished(tmp_path)


def test_run_ends_when_all_strings_are_correct(one_run, tmp_path):
    start = time.monotonic()
    one_run([log_line(99.21, 1, 1), log_line(100, 2, 2)], "time.sleep(600)")
    assert time.monotonic() - start < 60
    (recipe,) = finished(tmp_path)
    assert report.read(recipe.with_name("train.log.gz"), 3000) == report.Result(100, 1, 2)


@pytest.mark.parametrize(
    "options, message",
    [
        (["table1", "--runs", 0], "--runs 0: give 1 or more"),
        (["table1", "--updates", 0], "--updates 0: give 1 or more"),
        (["table1", "--workers", 0], "--workers 0: give 1 or more"),
        (["table1", "--dims", 4, 5], "--dims 4 5: table1 has 4, 6, 8, 10"),
        (["figure3", "--layers", 2], "--layers 2: figure3 has 1"),
        (["figure1", "--arch", "vanilla_transformer"], "figure1 has node_transformer"),
        (["table2", "--weights", 0, 4], "--weights 0.0 4.0: table2 has 0.0"),
        (["figure8"], "invalid choice: 'figure8'"),
    ],
)
def test_bad_options(tmp_path, monkeypatch, capsys, options, message):
    options = [*map(str, options), "--out", str(tmp_path)]
    assert message in refusal(run.main, options, monkeypatch, capsys)
    assert not list(tmp_path.iterdir())


# --- the experiments -------------------------------------------------------


def test_sizes_of_the_experiments():
    """Section 4: four variants; section 5: 16 sizes of two models; section 6: 15 weights."""
    sizes = {name: len(set(found)) for name, found in experiments.EXPERIMENTS.items()}
    assert sizes == {
        **dict.fromkeys(("table1", "table2", "table3"), 32),
        **dict.fromkeys(("figure1", "figure3", "figure4", "figure5"), 4),
        **dict.fromkeys(("figure2", "figure6", "figure7"), 17),
        "settings": 12,
    }
    assert [e.max_length for e in experiments.TABLES["table3"]] == [10] * 32
    weights = [e.weight for e in experiments.CURVES["figure2"]]
    assert weights == pytest.approx([0, 0, *(4.0 ** (2 - i) for i in range(1, 16))], rel=1e-5)


def test_part_of_the_weights():
    """Weight 0 is both models without; the others are as they are printed."""
    parser = experiments.make_parser("")
    args = parser.parse_args("figure2 --weights 0 4 0.0625 1.52588e-05 --runs 8".split())
    chosen = experiments.chosen(parser, args)
    assert [e.weight for e in chosen] == [0, 0, 4, 0.0625, 1.52588e-05]
    assert chosen[experiments.Ensemble("node_transformer", 6, 8, 2)][7].number == 7


def test_experiments_share_runs():
    """The N-ODE Transformer of Table 1 is the one without regularization, and a variant."""
    names = ("table1", "figure1", "figure2", "settings")
    shared = [set(experiments.EXPERIMENTS[name]) for name in names]
    (ensemble,) = set.intersection(*shared)
    assert (ensemble.arch, ensemble.dim, ensemble.layers) == ("node_transformer", 8, 2)


def test_settings_replace_those_of_the_other_experiments():
    """fairseq takes the last of two; the learning rates come in turn."""
    found = []
    for ensemble in experiments.EXPERIMENTS["settings"]:
        for number in range(2):
            made = experiments.Run(ensemble, number, 1000).options()
            args = options.parse_args_and_arch(options.get_training_parser(), made)
            found.append((args.optimizer, args.lr[0]))
    assert set(found) == {
        *product(["adam"], [3e-4, 1e-3, 1e-4, 1e-2]),
        *product(["sgd"], [0.003, 0.01]),
    }


def test_no_two_runs_share_a_folder():
    ensembles = {e for found in experiments.EXPERIMENTS.values() for e in found}
    runs = [experiments.Run(*parts) for parts in product(ensembles, range(8), (1, 2))]
    assert len({made.folder(Path()) for made in runs}) == len(runs)
    assert len({tuple(made.options()) for made in runs}) == len(runs)
    assert len({(made.key, made.updates) for made in runs}) == len(runs)


# --- report.py -------------------------------------------------------------


def test_result_of_a_log(tmp_path):
    """The first of the best epochs; seconds since the first update."""
    write_log(tmp_path / "run", (50, 7, 1), (60, 9, 2), (75.4, 17, 3), (75.4, 20, 4), (70, 30, 5))
    log = tmp_path / "run" / "train.log.gz"
    assert report.read(log, 5) == report.Result(75.4, 10, 3)
    assert report.read(log, 2) == report.Result(60, 2, 2)


def test_worst_sixth_is_left_out(tmp_path, monkeypatch, capsys):
    """Of twelve runs two; means and standard deviations by hand."""
    ensemble = experiments.Ensemble("vanilla_transformer", 6, 4, 1)
    accuracies = [90, 98] * 5 + [50, 40]
    for number, accuracy in enumerate(accuracies):
        folder = experiments.Run(ensemble, number, 3000).folder(tmp_path)
        write_log(folder, (45, 3, 1), (accuracy, 3 + accuracy, 2 * accuracy))
    main(monkeypatch, report, "table1", *ONE_SIZE, "--out", tmp_path)
    row = capsys.readouterr().out.splitlines()[2]
    # Ten values 94 +- 4 have the standard deviation 4 sqrt(10/9) = 4.2.
    assert row == "| 4 | 1 | 77.9%, 78 s | 94.0 ± 4.2%, 94 ± 4 s, 188 (10 of 12) |"
    assert (tmp_path / "table1.md").read_text("utf-8").splitlines()[2] == row


@pytest.mark.parametrize("runs, kept", [(1, 1), (2, 2), (4, 3), (6, 5), (24, 20), (72, 60)])
def test_size_of_what_is_averaged(runs, kept):
    summary = report.summarize([report.Result(50, 1, 1)] * runs)
    assert summary.runs == f"{kept} of {runs}"


def test_what_is_not_run(tmp_path, monkeypatch, capsys):
    for name, count in (("table2", 32), ("figure1", 4), ("figure7", 17)):
        main(monkeypatch, report, name, "--out", tmp_path)
        assert capsys.readouterr().out.count("| not run ") == count
    assert {path.suffix for path in tmp_path.iterdir()} == {".md"}


def test_histogram(tmp_path, monkeypatch):
    """Bins are closed on the right; the leftmost has all up to 55%."""
    ensembles = experiments.HISTOGRAMS["figure1"]
    accuracies = [40, 55, 55.01, 60, 99, 100]
    results = {e: [] for e in ensembles}
    results[ensembles[1]] = [report.Result(accuracy, 1, 1) for accuracy in accuracies]
    (axes,) = report.histogram(results).axes
    heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
    assert heights == [[0] * 10, [2, 2, 0, 0, 0, 0, 0, 0, 0, 2], [0] * 10, [0] * 10]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[1] == "time-dependent-attention (6 runs)"


def test_curves():
    """Points at the weights, a line for each model without; of an ensemble of one, no spread."""
    ensembles = experiments.CURVES["figure2"]
    results = {e: [] for e in ensembles}
    for place, accuracy in ((0, 99), (1, 85), (2, 60), (16, 84)):
        results[ensembles[place]] = [report.Result(accuracy, 2 * accuracy, 1)]
    for axes, factor in zip(report.curves(results).axes, (1, 2)):
        found = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
        assert [60 * factor, 84 * factor] in found.values()
        assert found["vanilla_transformer (1 of 1 runs)"] == [99 * factor] * 2
        assert found["node_transformer (1 of 1 runs)"] == [85 * factor] * 2


def test_figures_are_small_files(tmp_path, monkeypatch):
    for name in ("figure1", "figure2"):
        for number in range(2):
            for ensemble in experiments.EXPERIMENTS[name]:
                folder = experiments.Run(ensemble, number, 3000).folder(tmp_path)
                if not folder.exists():
                    write_log(folder, (50, 1, 1), (80 + number, 10, 9))
        main(monkeypatch, report, name, "--out", tmp_path)
        picture = (tmp_path / f"{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG") and len(picture) < 300_000


def test_numbers_of_the_paper():
    rows = list(csv.DictReader(open(EXAMPLE / "paper.csv")))
    assert len(rows) == 3 * 32
    found = {tuple(row.values())[:4]: (row["accuracy"], row["seconds"]) for row in rows}
    assert found["table1", "vanilla_transformer", "8", "2"] == ("98.8", "82")
    assert found["table2", "node_transformer", "4", "1"] == ("65.6", "430")
    assert found["table3", "node_transformer", "10", "4"] == ("58.9", "890")


# --- trajectories.py -------------------------------------------------------


def train(folder, arch="node_transformer", *options):
    """The checkpoint of a model of strings up to four bits after two updates."""
    command(
        *["train", "--user-dir", USER_DIR, "--task", "parity", "--parity-max-length", 4],
        *["--criterion", "sequence_classification", "--optimizer", "adam", "--lr", 0.001],
        *["--batch-size", 30, "--max-update", 2, "--save-dir", folder, "--arch", arch, *options],
    )
    return folder / "checkpoint_last.pt"


def test_trajectories_and_steps(tmp_path, monkeypatch):
    """The steps of each string are those that it takes by itself, and not of a batch."""
    checkpoint = train(tmp_path)
    out = tmp_path / "out"
    main(monkeypatch, trajectories, checkpoint, "--strings", "01", "0111", "--out", out)
    assert (out / "trajectories.png").read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(open(out / "steps.csv")))
    assert [row["string"] for row in rows][-1] == "1111" and len(rows) == 30
    model, task = load_classifier(str(checkpoint), "")
    for row in rows[::7]:
        assert row["parity"] == ("even", "odd")[row["string"].count("1") % 2]
        tokens = trajectories.encode(row["string"], task)
        statistics = model.encoder.eval()(tokens)["statistics"]
        taken = [n for name, n in statistics.items() if "nfe" not in name]
        assert int(row["steps"]) == sum(taken)

    with torch.no_grad():
        states = trajectories.trajectory(model, trajectories.encode("01", task))
        end, _ = model(trajectories.encode("01", task))
    assert states.shape == (2 * trajectories.POINTS, 3, 8)
    assert abs(states[-1] - end[0].numpy()).max() < 1e-3


def test_steps_of_a_model_that_saved_memory(tmp_path, monkeypatch):
    checkpoint = train(tmp_path, "node_transformer", "--checkpoint-activations")
    main(monkeypatch, trajectories, checkpoint, "--strings", "01", "--out", tmp_path / "out")
    assert len(list(csv.DictReader(open(tmp_path / "out" / "steps.csv")))) == 30


def test_several_plugins(monkeypatch):
    imported = []

    def load(*_):
        raise ValueError(f"loaded after {' '.join(imported)}")

    monkeypatch.setattr(trajectories, "import_plugins", imported.extend)
    monkeypatch.setattr(trajectories, "load_classifier", load)
    with pytest.raises(SystemExit, match="loaded after one two"):
        main(monkeypatch, trajectories, "a.pt", "--user-dir", "one", "--user-dir", "two")


def test_strings_of_the_default_are_no_longer_than_the_model_s(tmp_path, monkeypatch):
    main(monkeypatch, trajectories, train(tmp_path), "--out", tmp_path / "out")
    assert (tmp_path / "out" / "trajectories.png").exists()


@pytest.mark.parametrize(
    "arch, options, strings, message",
    [
        ("node_transformer", [], ["012"], "--strings '012': give strings of zeros and ones"),
        ("node_transformer", [], ["01010"], "--strings 01010: the model was trained on 4 bits"),
        ("vanilla_transformer", [], ["01"], "is not of a node_transformer on the task parity"),
        (
            "node_transformer",
            ["--ode-method", "rk4", "--ode-steps", 2],
            ["01"],
            "--ode-method rk4, which always takes the same steps; train with one of dopri5",
        ),
    ],
)
def test_trajectories_that_cannot_be_drawn(arch, options, strings, message, tmp_path, monkeypatch):
    checkpoint = train(tmp_path, arch, *options)
    with pytest.raises(SystemExit, match=message):
        main(monkeypatch, trajectories, checkpoint, "--strings", *strings, "--out", tmp_path / "o")
    assert not (tmp_path / "o").exists()
