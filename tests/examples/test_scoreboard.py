"""Scoreboards: differences with known intervals, and the committed page."""

import csv
import importlib
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from scipy.stats import dunnett

from fairseq_odeformers.registry import family_of
from odeformers.__main__ import main
from odeformers.compare.report.notes import EDGE_REASON, TEXTS_REASON
from odeformers.compare.results.rows import lock
from tests.odeformers.compare import pages
from tests.odeformers.compare.comparisons import (
    LANGUAGE_MODEL,
    write_comparison,
    write_run,
    write_scripted,
)

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/scoreboard"))
scoreboard = importlib.import_module("scoreboard")
CLASSES = ["x", "y"] * 60


def write_column(out, metric=None, **scores):
    """A comparison of families, each with a score per seed."""
    runs = [
        write_run(out, name, seed, score, **(metric or {}), **{"tuned": "lr 1"})
        for name, of_seeds in scores.items()
        for seed, score in enumerate(of_seeds, start=1)
    ]
    return write_comparison(out, *runs)


def board(*sources):
    """The page of a scoreboard, and its cells by family, without files."""
    columns = [column for source in sources for column in read(source)]
    return scoreboard.describe(columns), {cell.family: cell for cell in cells_of(columns)}


def write(*words):
    """Write a board by the command line of the script."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["scoreboard.py", *map(str, words)])
        scoreboard.main()


def read(source):
    """The columns of a folder or a file of rows."""
    return scoreboard.read_columns(str(source))


def cells_of(columns):
    return [cell for column in columns for cell in column.cells]


def test_differences_have_dunnetts_interval(tmp_path):
    """The interval covers the families of one column."""
    scores = {"a": [80.0, 81.0, 82.0], "ours": [84.0, 86.0, 88.0], "b": [80.0, 82.0, 82.5]}
    page, cells = board(write_column(tmp_path / "runs", **scores))
    test = dunnett(scores["ours"], scores["b"], control=scores["a"], random_state=0)
    interval, ours = test.confidence_interval(), cells["ours"]
    expected = (86, 5, interval.low[0], interval.high[0], test.pvalue[0])
    actual = (ours.mean, ours.difference, ours.low, ours.high, ours.p_value)
    assert actual == pytest.approx(expected, abs=0.02) and ours.test == "Dunnett"
    assert cells["a"].low is None and cells["a"].difference == 0
    assert f"| ours | **+5.0 ({ours.low:+.1f} to {ours.high:+.1f})** |" in page
    assert "| a | 81.0 (3 seeds) |" in page
    assert "| runs | 1 | ours: better | " in page and "inconclusive (the" in cells["b"].verdict


@pytest.mark.parametrize("metric, difference", [("perplexity", "+4.0"), ("accuracy", "-4.0")])
def test_positive_is_better(metric, difference, tmp_path):
    out = write_column(
        tmp_path / "runs", {**LANGUAGE_MODEL, "metric": metric}, a=[84.0], ours=[80.0]
    )
    page, _ = board(out)
    assert f"| ours | {difference} (one seed) |" in page


@pytest.mark.parametrize(
    "base, ours, cell",
    [
        ([80.0, 81.0], [81.5, 82.0, 84.0], "+2.0 (3 seeds)"),
        ([80.0, 81.0, 82.0], [81.5, 81.5, 81.5], "+0.5 (3 seeds)"),
    ],
)
def test_few_or_equal_seeds_have_no_interval(base, ours, cell, tmp_path, recwarn):
    """Equal seeds occur where texts are few, and do not estimate the variance."""
    page, _ = board(write_column(tmp_path / "runs", a=base, ours=ours))
    assert f"| ours | {cell} |" in page and not recwarn


@pytest.mark.parametrize("maximized, chosen", [(True, "y"), (False, "x")])
def test_a_family_is_shown_by_its_best_validated_model(maximized, chosen, tmp_path):
    """The scores on the test set do not matter."""
    runs = [write_run(tmp_path, "a", score=80.0)]
    for name, validation, score in (("x", 1.0, 99.0), ("y", 2.0, 70.0)):
        more = {"family": "ours", "validation": validation, "maximized": maximized}
        runs.append(write_run(tmp_path, name, score=score, **more))
    _, cells = board(write_comparison(tmp_path, *runs))
    assert cells["ours"].architecture == chosen


def test_the_baseline_is_never_another_model(tmp_path):
    """No model of its family replaces it, even if that validates better or it has no score."""
    better = {"family": "a", "validation": 0.1}
    kept, failed = (
        write_comparison(
            tmp_path / name,
            write_run(tmp_path / name, "a", score=score, state="" if score else "failed: NaN"),
            write_run(tmp_path / name, "b", score=90.0, **better),
            write_run(tmp_path / name, "ours", score=85.0),
        )
        for name, score in (("kept", 80.0), ("failed", None))
    )
    page, _ = board(kept, failed)
    assert "| a | 80.0 (one seed) | no score † |" in page
    assert "| ours | +5.0 (one seed) | not compared † |" in page
    assert "- failed: † " in page and "the baseline, a, has no score." in page
    out = tmp_path / "board"
    write(kept, failed, "--out", out)
    assert board(out / "trainings.csv")[0] == page == (out / "scoreboard.md").read_text("utf-8")


def test_columns_are_shown_side_by_side(tmp_path):
    """Columns have the names of their folders or other given names; a missing run is marked."""
    first = write_column(tmp_path / "one", a=[80.0], ours=[81.0])
    second = write_column(tmp_path / "two", a=[99.953])
    page, _ = board(first, f"ListOps={second}")
    assert "| family | one, accuracy | ListOps, accuracy |" in page
    assert "99.95 (one seed)" in page, "not 100.0"
    assert "| ours | +1.0 (one seed) | - |" in page


def test_a_column_that_cannot_be_compared_is_marked(tmp_path):
    """The column's cells and points are left out, and the page quotes its report."""
    late = tmp_path / "late"
    runs = (
        write_run(late, name, outputs=CLASSES, references=CLASSES, epoch_updates=31)
        for name in ("a", "ours")
    )
    write_comparison(late, *runs)
    news = write_column(tmp_path / "news", a=[80.0], ours=[81.0])
    out = tmp_path / "board"
    write(news, late, "--out", out)
    page = (out / "scoreboard.md").read_text("utf-8")
    with open(out / "scoreboard.csv", encoding="utf-8", newline="") as file:
        obstacles = {row["family"]: row["obstacles"] for row in csv.DictReader(file)}
    assert "| news, accuracy | late, accuracy |" in page
    assert "| ours | +1.0 (one seed) | not compared † |" in page
    (note,) = (line for line in page.splitlines() if "†" in line and line.startswith("- late"))
    assert obstacles["ours"] in note
    again, _ = board(out / "trainings.csv")
    assert again == page, "though runs and predictions are elsewhere"
    (axes,) = scoreboard.draw(read(out / "trainings.csv")).axes
    assert [point for point, _ in points(axes)] == [1.0], "of the other column"
    assert [text.get_text() for text in axes.texts] == ["n=1", "not compared"]


def test_notes_of_earlier_versions_make_a_verdict_inconclusive(tmp_path):
    """Notes of earlier versions have no reason for a verdict."""
    scores = {"a": (70.0, 70.5, 71.0), "b": (80.0, 80.5, 81.0)}
    notes = json.dumps([["leaves open", ["b"], "b may improve."]])
    runs = [
        write_run(tmp_path, name, seed, score, tuned="lr 1", notes=notes)
        for name, of_seeds in scores.items()
        for seed, score in enumerate(of_seeds)
    ]
    page, cells = board(write_comparison(tmp_path, *runs))
    message = "inconclusive (better over these seeds, but see the notes)"
    assert cells["b"].verdict == message and ": b may improve." in page


def test_an_edge_of_an_earlier_version_can_only_make_its_model_better(tmp_path):
    scores = {"a": (70.0, 70.5, 71.0), "b": (80.0, 80.5, 81.0)}
    notes = json.dumps([["leaves open", ["b"], "b chose the largest lr.", "at a grid's edge"]])
    runs = [
        write_run(tmp_path, name, seed, score, tuned="lr 1", notes=notes)
        for name, of_seeds in scores.items()
        for seed, score in enumerate(of_seeds)
    ]
    _, cells = board(write_comparison(tmp_path, *runs))
    assert cells["b"].verdict == "better"


def points(axes):
    """The places of markers in a panel."""
    lines = (line for line in axes.lines if line.get_marker() != "None")
    return [tuple(line.get_xydata()[0]) for line in lines]


def test_each_metric_has_an_axis_with_a_line_per_task(tmp_path):
    """Tasks of one metric do not cover each other, and a baseline has no row."""
    scores = {"news": {"a": [80.0], "b": [81.0], "c": [83.0]}, "lists": {"a": [40.0], "c": [39.5]}}
    columns = [write_column(tmp_path / name, **of) for name, of in scores.items()]
    columns.append(write_column(tmp_path / "text", LANGUAGE_MODEL, a=[100.0], b=[90.0]))
    columns = [column for folder in columns for column in read(folder)]
    shares, perplexities = scoreboard.draw(columns).axes
    assert [label.get_text() for label in shares.get_yticklabels()] == ["b", "c"]
    drawn = points(shares)
    assert [x for x, _ in drawn] == [1.0, 3.0, -0.5] and len({y for _, y in drawn}) == 3
    rows = shares.get_yticks()
    assert [abs(rows - y).argmin() for _, y in drawn] == [0, 1, 1]
    assert points(perplexities) == [(10.0, rows[0])]
    assert shares.get_xlim()[1] < 10 < perplexities.get_xlim()[1]


def test_families_have_the_papers_names():
    names = {
        "transformer_lm_prenorm": "pre-norm Transformer",
        "transformer_classifier_prenorm": "pre-norm Transformer",
        "transformer_classifier": "Transformer",
        "transformer_classifier_linear": "linear attention",
        "transformer_lm": "transformer_lm",  # fairseq's
        "transevolve_classifier_fullff_1_prenorm": "TransEvolve",
        "node_transformer_mt": "N-ODE Transformer",
        "macaron_classifier": "Macaron Net",
        "heun_of_a_plugin": "heun_of_a_plugin",  # a report does not load it
    }
    assert {arch: family_of(arch) for arch in names} == names


def test_pages_state_the_verdicts_of_the_board():
    """Pages name all differences that exclude zero over seeds, and say which are conclusive."""
    columns = read(ROOT / "examples/scoreboard/trainings.csv")
    shown = [cell for cell in cells_of(columns) if cell.low is not None]
    text = " ".join((ROOT / "docs/results.md").read_text("utf-8").split())
    firm = [cell for cell in shown if cell.low > 0 or cell.high < 0]
    conclusive = {cell.family: cell.verdict for cell in firm if "inconclusive" not in cell.verdict}
    assert conclusive == {"modern Transformer": "better", "OT-Transformer": "worse"}
    differences = sum(len(column.cells) - 1 for column in columns)
    assert f"Two of {differences} differences from a pre-norm Transformer are conclusive" in text
    for cell in (cell for cell in firm if cell.family not in conclusive):
        reason = TEXTS_REASON if cell.column == "AG News, tuned dropout" else EDGE_REASON
        assert cell.verdict.endswith(f"over these seeds, but {reason})")
    words = "none one two three four five six seven eight nine ten eleven".split()
    gains = sum(cell.low > 0 for cell in firm)
    losses = len(firm) - gains
    assert f"{words[len(firm)]} of the {len(shown)} intervals exclude zero" in text.lower()
    assert f"{words[gains]} gains, {words[losses]} losses" in text
    baselines = ("modern Transformer", "linear attention")
    compared = [cell for cell in shown if cell.family not in baselines]
    open_ones = [cell for cell in compared if "inconclusive" in cell.verdict]
    worse = next(cell for cell in firm if cell.verdict == "worse")
    better = next(cell for cell in firm if cell.verdict == "better")
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"{len(compared)} comparisons" in readme
    assert f"{len(open_ones)} are inconclusive" in readme and len(compared) - len(open_ones) == 1
    for cell in (worse, better):
        share = abs(cell.difference) / (cell.mean + cell.difference)
        assert f"is {share:.0%} {cell.verdict}" in readme


def test_scores_are_the_best_checkpoints_on_the_test_set(tmp_path):
    """Averaged checkpoints and other splits of a comparison do not count."""
    rows = write_run(tmp_path, "a", score=70.0)
    rows.insert(1, replace(rows[1], checkpoint="average of the last 2 checkpoints", score=75.0))
    rows.insert(1, replace(rows[2], split="other", score=60.0))
    _, cells = board(write_comparison(tmp_path, rows))
    assert cells["a"].mean == 70


def test_a_comparison_without_a_test_set_is_refused(tmp_path):
    write_comparison(tmp_path / "runs", write_run(tmp_path / "runs", "a"))
    with pytest.raises(ValueError, match=f"^{tmp_path}/runs: no run has finished with a test set"):
        scoreboard.write_scoreboard([str(tmp_path / "runs")], tmp_path / "board")


def test_a_repeated_column_is_refused(tmp_path):
    path = str(ROOT / "examples/scoreboard/trainings.csv")
    with pytest.raises(ValueError, match=r"the column AG News comes twice; give .*NAME=RUNS"):
        scoreboard.write_scoreboard([path, path], tmp_path / "board")
    assert not (tmp_path / "board").exists()


def test_a_model_that_diverges_does_not_hide_the_others(tmp_path):
    """An interval that exceeds the picture is an arrow with the difference; others are shown."""
    groups = {"a": (80, 80.5, 81), "b": (82, 82.5, 83), "c": (81, 82, 82.5)}
    groups |= {"d": (82, 82.2, 82.4), "wide": (84, 84, 50)}
    (column,) = read(write_column(tmp_path, **groups))
    (axes,) = scoreboard.draw([column]).axes
    low, high = axes.get_xlim()
    *others, wide = column.cells[1:]
    assert all(low < cell.low < cell.high < high for cell in others)
    assert wide.low < wide.difference < low
    (text,) = (text for text in axes.texts if text.get_text() == "-7.8")
    assert text.get_position()[0] > 1, "beside the panel"
    arrows = [line for line in axes.lines if line.get_marker() in "<>"]
    assert [tuple(line.get_xydata()[0]) for line in arrows] == [(low, 3), (high, 3)]


def test_only_the_interval_of_a_diverged_model_is_cut():
    columns = read(ROOT / "examples/scoreboard/trainings.csv")
    panels = scoreboard.draw(columns).axes
    cut = [[line for line in axes.lines if line.get_marker() in ("<", ">")] for axes in panels]
    assert [*map(len, cut)] == [2, 0, 0]
    highest = max(c.high for c in cells_of(columns) if c.metric == "perplexity" and c.high)
    assert highest < panels[1].get_xlim()[1] < 1.2 * highest, "no room for gains that nothing has"


def test_the_committed_scoreboard_follows_from_its_runs(tmp_path):
    """The command writes the committed files from the file of runs."""
    folder = ROOT / "examples" / "scoreboard"
    write(folder / "trainings.csv", "--out", tmp_path)
    for name in (scoreboard.PAGE, scoreboard.CELLS, scoreboard.RUNS):
        assert (tmp_path / name).read_text("utf-8") == (folder / name).read_text("utf-8"), name
    assert (tmp_path / scoreboard.PICTURE).stat().st_size < 300_000


def test_the_page_quotes_the_board():
    """The page has all the board's differences, and no others."""
    board = (ROOT / "examples/scoreboard/scoreboard.md").read_text("utf-8")
    page = (ROOT / "docs/results.md").read_text("utf-8")
    text = " ".join(re.sub(r"<!--=retuned; .*?<!--/-->", "", page).split())
    cell = r"[+-]\d+\.\d \([^)]*?(?:to|seeds?)[^)]*\)"
    assert {*re.findall(cell, text)} == {*re.findall(cell, board)}


def test_two_boards_in_one_folder_wait_for_each_other(tmp_path):
    """A second board waits, so that files are not mixed and no temporary file is removed."""
    source, out = write_column(tmp_path / "runs", a=[70.0]), tmp_path / "board"
    out.mkdir()
    with lock(out / "scoreboard.md"):
        waiting = Thread(target=scoreboard.write_scoreboard, args=[[str(source)], out])
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive() and not [*out.glob("*.csv")]
    waiting.join()
    assert (out / "scoreboard.md").exists()


def test_a_board_has_the_differences_of_its_report(tmp_path):
    """The files of a board are all that another board needs."""
    runs, first, second = (tmp_path / name for name in ("runs", "1", "2"))
    for architecture in ("base", "good", "poor"):
        for seed in (1, 2, 3):
            write_scripted(runs, architecture, seed)
    main(["report", str(runs)])
    rows = pages.table((runs / "report.md").read_text("utf-8"), " against ")
    write(f"three={runs}", "--out", first)
    shutil.rmtree(runs)
    shown = pages.table((first / "scoreboard.md").read_text("utf-8"), "three")
    for name in ("good", "poor"):
        reported = pages.numbers(rows[name]["accuracy against base"])
        assert pages.numbers(pages.cell(shown[name], "three")) == reported
    reported = pages.numbers(rows["base"]["accuracy"])[0]
    assert pages.numbers(pages.cell(shown["base"], "three"))[0] == reported
    write(first / "trainings.csv", "--out", second)
    for name in ("scoreboard.md", "scoreboard.csv", "trainings.csv"):
        assert (second / name).read_bytes() == (first / name).read_bytes(), name
