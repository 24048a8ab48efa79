"""Reports of folders that were moved, without their data, and scoreboards of several."""

import csv
import shutil
from statistics import fmean

import pytest
from lab.compare.outside.commands import numbers, refuse, run, scores, table, tables
from scipy.stats import ttest_ind


def test_a_folder_that_was_moved_is_reported(board, tmp_path):
    """From a folder beside it, by a relative path; figures, tables and pictures are the same."""
    page = (board / "report.md").read_text("utf-8")
    shutil.copytree(board, tmp_path / "copy").rename(tmp_path / "moved")
    for name in ("report.md", "report.html", "curves.png"):
        (tmp_path / "moved" / name).unlink()
    printed = run("report", "moved", cwd=tmp_path)
    again = (tmp_path / "moved/report.md").read_text("utf-8")
    assert tables(printed) == tables(again) == tables(page)
    for picture in board.glob("*.png"):
        assert (tmp_path / "moved" / picture.name).read_bytes() == picture.read_bytes()
    assert (tmp_path / "moved/report.html").is_file()


def test_a_report_needs_no_data(finished, tmp_path):
    out, told = finished / "runs", scores(finished / "runs")
    (finished / "data").rename(tmp_path / "away")
    try:
        run("report", out)
        assert scores(out) == told
    finally:
        (tmp_path / "away").rename(finished / "data")


def test_what_is_no_comparison_is_refused(tmp_path):
    assert str(tmp_path) in refuse("report", tmp_path)


@pytest.fixture(scope="module")
def scoreboard(board, finished, tmp_path_factory):
    out = tmp_path_factory.mktemp("scoreboard") / "board"
    run("report", f"three={board}", f"one={finished / 'runs'}", "--out", out)
    return out


def test_a_scoreboard_has_the_differences_of_its_reports(scoreboard, board):
    """Of the family's run with the best validation, which here is the second model's."""
    page = (scoreboard / "scoreboard.md").read_text("utf-8")
    rows = table((board / "report.md").read_text("utf-8"), " against ")
    (header, *cells), *_ = (
        [row.strip("| ").split(" | ") for row in page.splitlines() if row.startswith("|")],
    )
    assert [name.split(",")[0] for name in header[1:]] == ["three", "one"]
    shown = {row[0]: row[1:] for row in cells[1:]}
    base = numbers(rows["scripted_base"]["accuracy"])[0]
    assert numbers(shown["scripted_base"][0])[0] == base
    for arch in ("scripted_good", "scripted_poor"):
        told = numbers(rows[arch]["accuracy against scripted_base"])
        assert numbers(shown[arch][0]) == told
    assert shown["scripted_good"][1] == "not run"


def accuracy(path):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return 100 * fmean(row["target"] == row["prediction"] for row in rows)


def test_the_files_of_a_scoreboard_are_all_that_another_needs(scoreboard, board, tmp_path):
    """The runs with their scores, and the cells with Welch's intervals."""
    base, poor = (
        [accuracy(path) for path in sorted(board.glob(f"*{arch}*/*best.test.tsv"))]
        for arch in ("base", "poor")
    )
    assert len(base) == len(poor) == 3
    with open(scoreboard / "scoreboard.csv", newline="") as file:
        cells = {(row["column"], row["architecture"]): row for row in csv.DictReader(file)}
    cell = cells["three", "scripted_poor"]
    low, high = ttest_ind(poor, base, equal_var=False).confidence_interval()
    found = [float(cell[name]) for name in ("difference", "low", "high")]
    assert found == pytest.approx([fmean(poor) - fmean(base), low, high], abs=1e-3)
    run("report", scoreboard / "trainings.csv", "--out", tmp_path / "again")
    names = ["scoreboard.md", "scoreboard.csv", "trainings.csv", "scoreboard.png"]
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == sorted(names)
    for name in names[:3]:
        assert (tmp_path / "again" / name).read_bytes() == (scoreboard / name).read_bytes()
