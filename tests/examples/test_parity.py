"""The commands of the parity experiments, on few runs and on logs with known means."""

import csv
import gzip
import importlib
import json
import sys
from itertools import product
from pathlib import Path

import pytest
from fairseq import options
from helpers import make_classifier
from script_helpers import USER_DIR, command

from fairseq_odeformers.checkpoints.load import load_classifier
from fairseq_odeformers.tasks.parity import ParityConfig, ParityTask

EXAMPLE = Path(__file__).parents[2] / "examples" / "parity"
sys.path.insert(0, str(EXAMPLE))
experiments, run, report, trajectories = map(
    importlib.import_module, ("experiments", "run", "report", "trajectories")
)

ONE_SIZE = ["table1", "--dims", 4, "--layers", 1, "--arch", "vanilla_transformer"]


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
def runs(tmp_path, monkeypatch):
    """Makes runs of a program that prints epochs and then does something; returns all logs."""

    def make(epochs, *options, then=""):
        program = "import os, sys, time\n"
        program += "".join(f"print({log_line(*e)!r}, end='', flush=True)\n" for e in epochs) + then
        monkeypatch.setattr(run, "command", lambda *_: [sys.executable, "-I", "-c", program])
        main(monkeypatch, run, *ONE_SIZE, "--out", tmp_path, *options)
        return sorted(tmp_path.rglob(experiments.LOG))

    return make


def test_finished_runs_are_not_repeated_and_more_are_added(runs):
    runs([(50, 1, 1)], "--runs", 1)
    logs = runs([(60, 1, 1)], "--runs", 2, "--workers", 2)
    assert [log.parent.name for log in logs] == ["lr0.0003-seed1", "lr0.001-seed2"]
    assert [report.read(log, 1).accuracy for log in runs([], "--runs", 2)] == [50, 60]


def test_a_longer_run_stands_for_a_shorter_one(runs, tmp_path, monkeypatch, capsys):
    """So does the row of a report, if the logs are gone."""
    epochs = [(50, 1, 1), (60, 2, 2), (70, 4, 3)]
    (log,) = runs(epochs, "--runs", 1, "--updates", 9)
    assert runs([], "--runs", 1, "--updates", 2) == [log]
    main(monkeypatch, report, *ONE_SIZE, "--updates", 2, "--out", tmp_path)
    assert "| 60.0%, 1 s, 2 (1 of 1) |" in capsys.readouterr().out
    kept = (tmp_path / "table1.csv").rename(tmp_path / "kept.csv")
    log.unlink()
    (log,) = runs([(80, 1, 1)], "--runs", 2, "--updates", 2, "--reports", kept)
    assert log.parent.name == "lr0.001-seed2"
    options = ["--updates", 2, "--out", tmp_path, "--reports", kept]
    main(monkeypatch, report, *ONE_SIZE, *options)
    assert "| 70.0 ± 14.1%, 0 ± 1 s, 2 (2 of 2) |" in capsys.readouterr().out
    assert (tmp_path / "table1.csv").read_text().startswith(kept.read_text())


def test_a_run_ends_when_all_strings_are_correct(runs):
    (log,) = runs([(99.21, 1, 1), (100, 2, 2)], "--runs", 1, then="time.sleep(600)")
    assert report.read(log, 3000) == report.Result(100, 1, 2)


EPOCHS = [(50, 1, 1), (60, 2, 2)]


@pytest.mark.parametrize(
    "error",
    [
        "FloatingPointError('gradients are Nan/Inf')",
        "RuntimeError('a solve may take --ode-max-steps 1,000')",
        "RuntimeError('the state or its slope is not finite')",
    ],
)
def test_a_run_that_diverges_counts(runs, error):
    (log,) = runs(EPOCHS, "--runs", 1, then=f"raise {error}")
    assert report.read(log, 3000).accuracy == 60


@pytest.mark.parametrize(
    "epochs, then",
    [
        ([], "raise FloatingPointError"),
        (EPOCHS, "raise OSError('no space left')"),
        (EPOCHS, "os.kill(os.getpid(), 9)"),
    ],
)
def test_a_run_that_fails_leaves_nothing(runs, tmp_path, epochs, then):
    with pytest.raises(SystemExit, match="run.py: error: "):
        runs(epochs, "--runs", 1, then=then)
    assert not list(tmp_path.rglob(experiments.LOG))


@pytest.mark.parametrize(
    "line",
    [
        "table1 --runs 0",
        "table1 --dims 4 5",
        "table2 --weights 0 4",
        f"table1 --reports {EXAMPLE / 'paper.csv'}",
        "table1 --reports none.csv",
    ],
)
def test_bad_options_are_refused(tmp_path, monkeypatch, line):
    with pytest.raises(SystemExit) as stopped:
        main(monkeypatch, run, *line.split(), "--out", tmp_path)
    assert stopped.value.code == 2 or "--reports" in line
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
    parser = experiments.make_parser("")
    args = parser.parse_args("figure2 --weights 0 4 0.0625 1.52588e-05 --runs 8".split())
    assert [e.weight for e in experiments.chosen(parser, args)] == [0, 0, 4, 0.0625, 1.52588e-05]


def test_settings_replace_those_of_the_other_experiments():
    """fairseq takes the last of two; the learning rates come in turn."""
    settings = experiments.EXPERIMENTS["settings"]
    made = [experiments.Run(e, n, 1000).options() for e in settings for n in range(2)]
    new = options.get_training_parser
    found = [options.parse_args_and_arch(new(), line) for line in made]
    assert {(args.optimizer, args.lr[0]) for args in found} == {
        *product(["adam"], [3e-4, 1e-3, 1e-4, 1e-2]),
        *product(["sgd"], [0.003, 0.01]),
    }


def test_no_two_runs_share_a_folder_and_experiments_share_runs():
    ensembles = {e for found in experiments.EXPERIMENTS.values() for e in found}
    runs = [experiments.Run(*parts) for parts in product(ensembles, range(8), (1, 2))]
    for name in (
        lambda r: r.folder(Path()),
        lambda r: tuple(r.options()),
        lambda r: (r.key, r.updates),
    ):
        assert len(set(map(name, runs))) == len(runs)
    names = ("table1", "figure1", "figure2", "settings")
    (shared,) = set.intersection(*(set(experiments.EXPERIMENTS[name]) for name in names))
    assert (shared.arch, shared.dim, shared.layers) == ("node_transformer", 8, 2)


# --- report.py -------------------------------------------------------------


def test_result_is_the_first_of_the_best_epochs(tmp_path):
    """Its seconds count from the first update."""
    write_log(tmp_path / "run", (50, 7, 1), (60, 9, 2), (75.4, 17, 3), (75.4, 20, 4), (70, 30, 5))
    log = tmp_path / "run" / experiments.LOG
    assert report.read(log, 5) == report.Result(75.4, 10, 3)
    assert report.read(log, 2) == report.Result(60, 2, 2)


def test_missing_runs_are_called_so(tmp_path, monkeypatch, capsys):
    for name, count in (("table2", 32), ("figure1", 4), ("figure7", 17)):
        main(monkeypatch, report, name, "--out", tmp_path)
        assert capsys.readouterr().out.count("| not run ") == count
    assert {path.suffix for path in tmp_path.iterdir()} == {".md"}


FIGURE2 = "--weights 0 4 0.0625 0.000976562 1.52588e-05 2.38419e-07"


@pytest.mark.parametrize(
    "experiment, runs, options",
    [
        ("table1", "table1", "--runs 24 --dims 8 --layers 2"),
        ("table1", "table1_sizes", "--runs 3 --updates 1000 --dims 4 6 10"),
        ("figure1", "figure1", "--runs 12 --updates 1000"),
        ("figure2", "figure2", f"--runs 8 --updates 1000 {FIGURE2}"),
    ],
)
def test_published_tables_are_remade_from_their_runs(
    experiment, runs, options, tmp_path, monkeypatch
):
    """With means and deviations that leave out the worst sixth of the runs."""
    reports = ["--reports", EXAMPLE / f"{runs}.csv"]
    main(monkeypatch, report, experiment, *options.split(), "--out", tmp_path, *reports)
    rows = (tmp_path / f"{experiment}.md").read_text("utf-8").splitlines()[2:]
    readme = (EXAMPLE / "README.md").read_text("utf-8")
    assert rows and all(row in readme for row in (row.removesuffix(" |") for row in rows))


def test_histogram_closes_bins_on_the_right():
    """The leftmost has all up to 55%."""
    ensembles = experiments.HISTOGRAMS["figure1"]
    results = {e: [] for e in ensembles}
    results[ensembles[1]] = [report.Result(a, 1, 1) for a in (40, 55, 55.01, 60, 99, 100)]
    (axes,) = report.histogram(results).axes
    heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
    assert heights == [[0] * 10, [2, 2, 0, 0, 0, 0, 0, 0, 0, 2], [0] * 10, [0] * 10]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[1] == "time-dependent-attention (6 runs)"


def test_curves():
    """Points at the weights, and a line for each model without; one run has no spread."""
    ensembles = experiments.CURVES["figure2"]
    results = {e: [] for e in ensembles}
    for place, accuracy in ((0, 99), (1, 85), (2, 60), (16, 84)):
        results[ensembles[place]] = [report.Result(accuracy, 2 * accuracy, 1)]
    for axes, factor in zip(report.curves(results).axes, (1, 2)):
        found = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
        assert [60 * factor, 84 * factor] in found.values()
        assert found["vanilla_transformer (1 of 1 runs)"] == [99 * factor] * 2
        assert found["node_transformer (1 of 1 runs)"] == [85 * factor] * 2


# --- a training by fairseq, and trajectories.py ----------------------------


def train(folder, *options):
    """The checkpoint of a model of strings up to four bits after two updates."""
    ensemble = experiments.Ensemble("node_transformer", 4, 8, 1, options)
    made = [o for o in experiments.Run(ensemble, 0, 2).options() if o != "--no-save"]
    log = command("train", *made, "--user-dir", USER_DIR, "--save-dir", folder)
    assert len([line for line in log.splitlines() if report.log_stats(line, "train")]) == 2
    return folder / "checkpoint_last.pt"


@pytest.mark.parametrize("memory", [[], ["--checkpoint-activations"]])
def test_trajectories_and_steps(memory, tmp_path, monkeypatch):
    """The steps of each string are those that it takes by itself, and not of a batch."""
    checkpoint = train(tmp_path, *memory)
    out = tmp_path / "out"
    main(monkeypatch, trajectories, checkpoint, "--out", out)
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
    tokens = trajectories.encode("01", task)
    states, parity = trajectories.trajectory(model, task, tokens)
    end, _ = model(tokens)
    assert states.shape == (trajectories.POINTS, 3, 8) and parity in ("even", "odd")
    assert abs(states[-1] - end[0].detach().numpy()).max() < 1e-3


def test_trajectories_that_cannot_be_drawn():
    task = ParityTask(ParityConfig(parity_max_length=4))
    for string in ("012", "01010"):
        with pytest.raises(ValueError, match=f"--strings '?{string}"):
            trajectories.encode(string, task)
    for arch, *extra in (["vanilla_transformer"], ["node_transformer", "--ode-method", "rk4"]):
        model = make_classifier(arch, *extra, *(["--ode-steps", "2"] if extra else []))
        with pytest.raises(ValueError, match="rk4" if extra else "node_transformer .*parity"):
            trajectories.check(model, task, "model.pt")
