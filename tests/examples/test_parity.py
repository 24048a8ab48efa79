"""The commands of the parity experiments, on few runs and on logs with known means."""

import csv
import importlib
import json
import os
import re
import sys
from collections import defaultdict
from itertools import product
from pathlib import Path
from statistics import fmean

import pytest
from fairseq import options
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from helpers import make_classifier
from script_helpers import USER_DIR, command

from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.tasks.parity import ParityConfig, ParityTask

EXAMPLE = Path(__file__).parents[2] / "examples" / "parity"
PAGE = Path(__file__).parents[2] / "docs" / "papers" / "node_transformer.md"
sys.path.insert(0, str(EXAMPLE))
experiments, run, report, trajectories = map(
    importlib.import_module, ("experiments", "run", "report", "trajectories")
)

ONE_SIZE = ["table1", "--dims", 4, "--layers", 1, "--arch", "vanilla_transformer"]
ENSEMBLE = "vanilla_transformer-length6-d4-N1"
RATES = list(enumerate(2 * ("0.0003", "0.001", "0.003"), start=1))
HEADER = "ensemble learning_rate seed accuracy seconds updates".split()


def main(monkeypatch, script, *options):
    monkeypatch.setattr(sys, "argv", [script.__file__, *map(str, options)])
    script.main()


def log_line(accuracy, wall, update):
    stats = {"train_accuracy": accuracy, "train_wall": wall, "train_num_updates": update}
    stats = json.dumps({name: str(value) for name, value in stats.items()})
    return f"2026-11-21 16:40:57 | INFO | train | {stats}\n"


# --- run.py ----------------------------------------------------------------


@pytest.fixture
def runs(tmp_path, tmp_path_factory, monkeypatch):
    """Makes runs of a fairseq-train that prints epochs and then does something; returns all rows.

    An epoch is accuracy, seconds since the start, and update.
    """
    python, programs = os.path.realpath(sys.executable), tmp_path_factory.mktemp("bin")
    monkeypatch.setattr(sys, "executable", str(programs / "python"))

    def make(epochs, *options, then=""):
        program = (
            f"#!{python} -I\nimport os, sys, time\nprint('| INFO | fairseq_cli.train | {{}}')\n"
        )
        program += "".join(f"print({log_line(*e)!r}, end='', flush=True)\n" for e in epochs) + then
        (programs / "fairseq-train").write_text(program)
        (programs / "fairseq-train").chmod(0o755)
        main(monkeypatch, run, *ONE_SIZE, "--out", tmp_path, *options)
        table = tmp_path / "updates3000.csv"
        return [line.split(",")[1:] for line in table.read_text().splitlines()[1:]]

    return make


def test_finished_runs_are_kept_and_more_are_added(runs, tmp_path):
    """The runs and rows of another file are not repeated, either."""
    first, second = ["0.0003", "1", "50.0", "0.0", "1"], ["0.001", "2", "60.0", "0.0", "1"]
    assert runs([(50, 1, 1)], "--runs", 1) == [first]
    assert runs([(60, 1, 1)], "--runs", 2, "--workers", 2) == [first, second]
    assert runs([], "--runs", 2) == [first, second]
    kept = (tmp_path / "updates3000.csv").rename(tmp_path / "kept.csv")
    third = ["0.003", "3", "70.0", "0.0", "1"]
    assert runs([(70, 1, 1)], "--runs", 3, "--reports", kept) == [third]


def test_a_run_is_reported_by_its_first_best_epoch(runs):
    """Seconds count from the first update."""
    epochs = [(50, 7, 1), (60, 9, 2), (75.4, 17, 3), (75.4, 20, 4), (70, 30, 5)]
    assert runs(epochs, "--runs", 1) == [["0.0003", "1", "75.4", "10.0", "3"]]


def test_a_run_ends_when_all_strings_are_correct(runs):
    rows = runs([(99.21, 1, 1), (100, 2, 2)], "--runs", 1, then="time.sleep(600)")
    assert rows == [["0.0003", "1", "100.0", "1.0", "2"]]


EPOCHS = [(50, 1, 1), (60, 2, 2)]


@pytest.mark.parametrize(
    "error",
    [
        "FloatingPointError('gradients are Nan/Inf')",
        "RuntimeError('exceeded the limit of 1,000 steps; raise --ode-max-steps')",
        "RuntimeError('the state or its slope is not finite')",
    ],
)
def test_a_run_that_diverges_is_reported(runs, error):
    assert runs(EPOCHS, "--runs", 1, then=f"raise {error}") == [["0.0003", "1", "60.0", "1.0", "2"]]


@pytest.mark.parametrize(
    "epochs, then, message",
    [
        ([], "raise FloatingPointError", "FloatingPointError"),
        (EPOCHS, "raise OSError('no space left')", "no space left"),
        (EPOCHS, "os.kill(os.getpid(), 9)", "status -9"),
    ],
)
def test_a_run_that_fails_leaves_no_row(runs, tmp_path, epochs, then, message):
    with pytest.raises(SystemExit, match=f"(?s)run.py: error: .*{message}"):
        runs(epochs, "--runs", 1, then=then)
    assert not (tmp_path / "updates3000.csv").exists()


@pytest.mark.parametrize(
    "line, message",
    [
        ("table1 --runs 0", "--runs: 0"),
        ("table1 --dims 4 5", "--dims 4 5: table1 has 4 6 8 10"),
        ("table2 --weights 0 4", "--weights 0.0 4.0: table2 has 0.0"),
        (f"table1 --reports {EXAMPLE / 'paper.csv'}", "paper.csv: it has no column ensemble"),
        ("table1 --reports none.csv", "none.csv"),
    ],
)
def test_bad_options_are_refused(tmp_path, monkeypatch, capsys, line, message):
    with pytest.raises(SystemExit) as stopped:
        main(monkeypatch, run, *line.split(), "--out", tmp_path)
    assert message in f"{capsys.readouterr().err}{stopped.value}"
    assert not list(tmp_path.iterdir())


# --- the experiments -------------------------------------------------------


def test_experiments_have_the_papers_runs():
    """Section 4 has 4 variants, section 5 has 16 sizes of two models, section 6 has 15 weights.

    Figure 2 has three weights more, which are not the paper's.
    """
    sizes = {name: len(set(ensembles)) for name, ensembles in experiments.EXPERIMENTS.items()}
    assert sizes == {
        **dict.fromkeys(("table1", "table2", "table3"), 32),
        **dict.fromkeys(("figure1", "figure3", "figure4", "figure5"), 4),
        **{"figure2": 20, "figure6": 17, "figure7": 17},
        "settings": 16,
    }
    assert [e.max_length for e in experiments.TABLES["table3"]] == [10] * 32
    for figure, more in {"figure2": [0.5, 0.125, 0.03], "figure6": []}.items():
        weights = [e.weight for e in experiments.CURVES[figure]]
        expected = sorted([*more, *(4.0 ** (2 - i) for i in range(1, 16))], reverse=True)
        assert weights == pytest.approx([0, 0, *expected], rel=1e-5)
    parser = experiments.make_parser("")
    args = parser.parse_args("figure2 --weights 0 4 0.0625 1.52588e-05 --runs 8".split())
    assert [e.weight for e in experiments.choose(parser, args)] == [0, 0, 4, 0.0625, 1.52588e-05]


def test_settings_override_the_other_experiments():
    """fairseq takes the last of two values, and learning rates alternate."""
    settings = experiments.EXPERIMENTS["settings"]
    lines = [e.command(*e.run(n), updates=1000) for e in settings for n in range(2)]
    new = options.get_training_parser
    parsed = [options.parse_args_and_arch(new(), line) for line in lines]
    assert {(args.optimizer, args.lr[0]) for args in parsed} == {
        *product(["adam"], [3e-4, 1e-3, 1e-4, 1e-2]),
        *product(["sgd"], [0.003, 0.01]),
    }


def test_runs_have_unique_names_and_are_shared():
    """Different command lines have different rows in a table of results."""
    ensembles = {e for some in experiments.EXPERIMENTS.values() for e in some}
    lines = {(e.name, *e.run(n)): e.command(*e.run(n), 1) for e in ensembles for n in range(8)}
    assert len(lines) == len({tuple(line) for line in lines.values()}) == 8 * len(ensembles)
    names = ("table1", "figure1", "figure2", "settings")
    (shared,) = set.intersection(*(set(experiments.EXPERIMENTS[name]) for name in names))
    assert (shared.arch, shared.dim, shared.layers) == ("node_transformer", 8, 2)


# --- report.py -------------------------------------------------------------


def test_missing_runs_are_marked(tmp_path, monkeypatch, capsys):
    for name, count in (("table2", 32), ("figure1", 4), ("figure7", 17)):
        main(monkeypatch, report, name, "--out", tmp_path)
        assert capsys.readouterr().out.count("| not run ") == count
    assert {path.suffix for path in tmp_path.iterdir()} == {".md"}


def test_the_worst_sixth_is_left_out(tmp_path, monkeypatch, capsys):
    """Five of six runs count (section 5), and a single run has no deviation."""
    rows = [f"{ENSEMBLE},{rate},{n},{40 + 10 * n},{n},{n}" for n, rate in RATES]
    (tmp_path / "updates3000.csv").write_text("\n".join([",".join(HEADER), *rows]))
    main(monkeypatch, report, *ONE_SIZE, "--out", tmp_path)
    assert "| 80.0 ± 15.8%, 4 ± 2 s, 4 (5 of 6) |" in capsys.readouterr().out
    main(monkeypatch, report, *ONE_SIZE, "--out", tmp_path, "--runs", 1)
    assert "| 50.0%, 1 s, 1 (1 of 1) |" in capsys.readouterr().out


def test_the_published_table_follows_from_its_runs(tmp_path, monkeypatch):
    """Means and deviations leave out the worst sixth of the runs."""
    options = "--runs 24 --dims 8 --layers 2".split()
    reports = ["--reports", EXAMPLE / "table1.csv"]
    main(monkeypatch, report, "table1", *options, "--out", tmp_path, *reports)
    rows = (tmp_path / "table1.md").read_text("utf-8").splitlines()[2:]
    (row,), page = rows, PAGE.read_text("utf-8")
    _, _, *cells = row.strip("| ").split(" | ")
    for name, paper, ours in zip(("vanilla", "node"), cells[::2], cells[1::2], strict=True):
        accuracy, seconds = re.fullmatch(r"(.+), (.+) s", paper).groups()
        assert f"| `{name}_transformer`, paper | 60 / 72 | {accuracy} | {seconds} | |" in page
        accuracy, seconds, rest = re.fullmatch(r"(.+), (.+) s, (.+)\)", ours).groups()
        updates, runs = rest.split(" (")
        runs = runs.replace(" of ", " / ")
        row = f"| `{name}_transformer`, ours | {runs} | {accuracy} | {seconds} | {updates} |"
        assert row in page


def test_the_page_has_the_means_of_its_runs():
    """The page averages all runs of Figure 1's variants, else the best 7 of 8 or 20 of 24."""
    notes = " ".join(PAGE.read_text("utf-8").split())

    def means(table, kept):
        groups = defaultdict(list)
        for row in csv.DictReader(open(EXAMPLE / f"{table}.csv")):
            groups[row["ensemble"].replace("-length6-d8-N2", "")].append(float(row["accuracy"]))
        best = {name: sorted(runs)[-kept:] for name, runs in groups.items()}
        return {name: f"{report.mean_and_deviation(runs, 1)}%" for name, runs in best.items()}

    variants, node = means("figure1", 12), "node_transformer"
    skip, time = "-skip-connection", "-time-dependent-attention"
    names = {"": "neither", skip: "skip connection", time: "time-dependent attention"}
    for variant, words in {**names, skip + time: "both"}.items():
        assert f"| {words} | {variants[node + variant]} |" in notes
    best = means("figure2", 7) | means("arclength", 7)
    assert f"accuracy is {best[node]} without" in notes
    for weight, before, after in (
        ("0.000976562", "", " with 4^-5 (0.000976562)"),
        ("4", "With a weight of 4, it is ", " (p ="),
        ("0.03", "The best, 0.03, reaches ", " (seven of eight runs; p ="),
    ):
        assert f"{before}{best[f'{node}-arclength-weight{weight}']}{after}" in notes
    settings = means("settings", 20)
    vanilla = "vanilla_transformer"
    of_torch = settings[f"{node}_torch"], settings[f"{vanilla}_torch"]
    assert "20 of 24 such runs reach {} (vanilla Transformer {})".format(*of_torch) in notes
    of_batches = (settings[f"{name}-batch-size16"] for name in (node, vanilla))
    reached = "reach {}, but those of the vanilla Transformer only {} (p = 0.06 ".format(
        *of_batches
    )
    assert reached in notes


def test_the_page_has_the_means_of_each_size():
    """Each cell of the table has our mean over the depths, and the paper's in brackets."""
    reached, paper = defaultdict(list), defaultdict(list)
    for row in csv.DictReader(open(EXAMPLE / "table1_sizes.csv")):
        arch, _, width, _ = row["ensemble"].split("-")
        reached[arch, width].append(float(row["accuracy"]))
    for row in csv.DictReader(open(EXAMPLE / "paper.csv")):
        if row["table"] == "table1":
            paper[row["arch"], f"d{row['dim']}"].append(float(row["accuracy"]))
    page = PAGE.read_text("utf-8")
    for dim in (4, 6, 8, 10):
        cells = [
            f"{report.mean_and_deviation(reached[place], 1)} ({fmean(paper[place]):.1f})"
            for place in (("vanilla_transformer", f"d{dim}"), ("node_transformer", f"d{dim}"))
        ]
        assert f"| {dim} | {' | '.join(cells)} |" in page


def results(ensemble, *accuracies):
    return [experiments.Result(ensemble.name, 1.0, 1, a, 2 * a, 1) for a in accuracies]


def test_bins_of_the_histogram_include_their_right_end():
    """The leftmost bin has all accuracies up to 55%."""
    ensembles = experiments.HISTOGRAMS["figure1"]
    reached = {e: [] for e in ensembles}
    reached[ensembles[1]] = results(ensembles[1], 40, 55, 55.01, 60, 99, 100)
    (axes,) = report.draw_histogram(reached).axes
    heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
    assert heights == [[0] * 10, [2, 2, 0, 0, 0, 0, 0, 0, 0, 2], [0] * 10, [0] * 10]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[1] == "time-dependent attention (6 runs)"


def test_curves_have_a_point_per_weight():
    """Models without the regulariser are horizontal lines, and a single run has no spread."""
    ensembles = experiments.CURVES["figure2"]
    accuracies = {0: [99], 1: [85], 2: [60], 19: [84]}
    reached = {e: results(e, *accuracies.get(n, [])) for n, e in enumerate(ensembles)}
    for axes, factor in zip(report.draw_curves(reached).axes, (1, 2)):
        lines = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
        assert [60 * factor, 84 * factor] in lines.values()
        assert lines["vanilla Transformer (1 of 1 runs)"] == [99 * factor] * 2
        assert lines["N-ODE Transformer (1 of 1 runs)"] == [85 * factor] * 2


# --- a training by fairseq, and trajectories.py ----------------------------


def train(folder, *options):
    """Train a model of strings up to four bits for two updates; returns the checkpoint."""
    ensemble = experiments.Ensemble("node_transformer", 4, 8, 1, options)
    words = [o for o in ensemble.command(*ensemble.run(0), updates=2) if o != "--no-save"]
    log = command("train", *words, "--user-dir", USER_DIR, "--save-dir", folder)
    assert len([line for line in log.splitlines() if run.log_stats(line, "train")]) == 2
    return folder / "checkpoint_last.pt"


@pytest.mark.parametrize("memory", [[], ["--checkpoint-activations"]])
def test_trajectories_have_the_steps_of_each_string(memory, tmp_path, monkeypatch):
    """Each string has the steps that it takes by itself, not the steps of a batch."""
    checkpoint = train(tmp_path, *memory)
    out = tmp_path / "out"
    main(monkeypatch, trajectories, checkpoint, "--out", out)
    assert (out / "trajectories.png").read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(open(out / "steps.csv")))
    assert [row["string"] for row in rows][-1] == "1111" and len(rows) == 30
    model, task, _ = Checkpoint.read(str(checkpoint)).build()
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


def test_trajectories_that_cannot_be_drawn_are_refused():
    task = ParityTask(ParityConfig(parity_max_length=4))
    for string in ("012", "01010"):
        with pytest.raises(ValueError, match=f"--strings '?{string}"):
            trajectories.encode(string, task)
    for arch, *extra in (["vanilla_transformer"], ["node_transformer", "--ode-method", "rk4"]):
        model = make_classifier(arch, *extra, *(["--ode-steps", "2"] if extra else []))
        with pytest.raises(ValueError, match="rk4" if extra else "node_transformer .*parity"):
            trajectories.check(model, task, "model.pt")


def test_torch_initialisation_bounds_maps_by_their_inputs(tmp_path):
    """Maps of n inputs start within n^(-1/2), where fairseq's attention starts wider."""
    widest = {}
    for arch in ("node_transformer", "node_transformer_torch"):
        words = experiments.Ensemble(arch, 3, 8, 1).command(1e-9, 1, 1)
        plugin = () if "--user-dir" in words else ("--user-dir", USER_DIR)
        words = [word for word in words if word != "--no-save"]
        command("train", *words, *plugin, "--save-dir", tmp_path / arch)
        state = load_checkpoint_to_cpu(str(tmp_path / arch / "checkpoint_last.pt"))["model"]
        maps = [values for name, values in state.items() if ".field." in name]
        widest[arch] = max(float(values.abs().max()) for values in maps)
    bound = 8**-0.5 + 1e-6
    assert widest["node_transformer_torch"] < bound < widest["node_transformer"]
