"""``results.csv`` is read as it was written, and damaged files are named."""

import csv
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from odeformers.compare.results.curves import (
    Curve,
    Predictions,
    read_curve,
    read_predictions,
    write_curve,
    write_predictions,
)
from odeformers.compare.results.rows import (
    Row,
    choose_settings,
    collect_rows,
    read_comparison,
    read_rows,
    write_rows,
)
from tests.odeformers.compare.comparisons import ENDED, write_comparison, write_run

ROW = Row(run="a-seed1", architecture="a", score=1 / 3, budget=0.5, texts=7, maximized=True, seed=2)


def test_rows_are_read_as_they_were_written(tmp_path):
    rows = [ROW, replace(ROW, score=None, printed='a "b",\nc', unknown=1e-9)]
    write_rows(tmp_path / "results.csv", rows)
    assert read_rows(tmp_path) == read_rows(tmp_path / "results.csv") == rows


def test_curves_and_predictions_are_read_as_they_were_written(tmp_path):
    """Texts may contain any characters."""
    curve = Curve([1, 2], [0.1, 0.2], [3.0, math.inf], [1 / 3, 2.0], [2.0, 1.0], best=1)
    write_curve(tmp_path / "curve.csv", curve)
    assert read_curve(tmp_path / "curve.csv") == curve
    texts = ['"quoted", a\ttab', "two\nlines", "", "x" * 200_000]
    for shares in ([0.5, 1.0, 0.0, 0.25], []):
        predictions = Predictions(texts, texts[::-1], texts, shares)
        write_predictions(tmp_path / "predictions.csv", predictions)
        assert read_predictions(tmp_path / "predictions.csv") == predictions


@pytest.mark.parametrize(
    "column, cell, line",
    [
        ("seed", "many", "line 2 "),
        ("score", "x", "line 2 "),
        ("maximized", "perhaps", "line 2 "),
        ("schema", "2", "line 2 .*schema 2"),
        ("curve", "/etc/passwd", "line 2 .*/etc/passwd is not below"),
        ("predictions", "../../secret", "line 2 .*secret is not below"),
        ("colour", "", "line 1: no results of this version; its columns are schema, "),
    ],
)
def test_a_damaged_file_is_named_with_its_line(column, cell, line, tmp_path):
    path = tmp_path / "results.csv"
    row = {**asdict(ROW), column: cell}
    del row["folder"]
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow(row)
    with pytest.raises(ValueError, match=f"results.csv, {line}"):
        read_rows(path)


def test_a_comparison_collects_the_rows_of_all_runs(tmp_path):
    """Rows have the order of the starts of architectures and of their runs."""
    runs = {"c-seed1": "3", "a-seed1": "1", "b-seed1": "2", "a-seed2": "9"}
    for run, begun in runs.items():
        (tmp_path / run).mkdir()
        (tmp_path / run / "run.yaml").touch()
        row = replace(ROW, run=run, architecture=run[0], begun=begun)
        write_rows(tmp_path / run / "results.csv", [row, replace(row, metric="BLEU")])
    write_rows(write_other(tmp_path) / "results.csv", [ROW])
    collect_rows(tmp_path)
    order = [row.run for row in read_rows(tmp_path)]
    assert order[::2] == order[1::2] == ["a-seed1", "a-seed2", "b-seed1", "c-seed1"]


def write_other(out):
    """A folder with something else, such as another comparison."""
    (out / "other").mkdir()
    return out / "other"


@pytest.mark.parametrize("maximized, chosen", [(True, "lr 2"), (False, "lr 3")])
def test_the_best_setting_is_chosen_by_the_tuning_seed(maximized, chosen):
    """Validations of other seeds do not count, even if the tuning seed's runs were trained anew.

    NaN and missing validations are not chosen.
    """
    tried = {"lr 1": 5.0, "lr 2": 7.0, "lr 3": 4.0, "lr 4": math.nan, "lr 5": None}
    row = replace(ROW, maximized=maximized, seed=5, begun="2")
    rows = [replace(row, tuned=tuned, validation=value) for tuned, value in tried.items()]
    other = replace(row, tuned="lr 1", seed=6, validation=9.0 if maximized else 0.0, begun="1")
    rows = [*rows, other, replace(other, tuned="lr 2"), *rows[:1]]
    assert choose_settings(rows) == {"a": chosen}


def test_ties_go_to_the_setting_of_other_seeds_and_then_to_the_lowest_loss(tmp_path):
    """Rows whose curves are missing, as published rows, keep the choice of the comparison."""
    losses = {"lr 1": 2.0, "lr 2": 1.0, "lr 3": 3.0}
    runs = [
        write_run(tmp_path, "a", 0, curve=replace(ENDED, loss=[loss] * 3), tuned=tuned)
        for tuned, loss in losses.items()
    ]
    rows = [replace(row, validation=1.0, begun=row.tuned) for (row,) in runs]
    rows = read_rows(write_comparison(tmp_path, rows))
    assert choose_settings(rows) == {"a": "lr 2"}
    kept = [*rows, replace(rows[1], seed=11)]
    assert choose_settings(replace(row, curve="") for row in kept) == {"a": "lr 2"}


def test_a_folder_of_a_run_or_of_parts_is_refused(tmp_path):
    part = tmp_path / "part"
    write_comparison(part, write_run(part, "a"))
    for folder in (tmp_path, part / "a-seed1"):
        with pytest.raises(ValueError, match=f"{folder}: no comparison; give {part}$"):
            read_comparison(folder)
    (part / "results.csv").unlink()
    with pytest.raises(ValueError, match=f"{part}: no results.csv .*; give a folder"):
        read_comparison(part)


def test_another_baseline_is_one_of_the_architectures(tmp_path):
    write_comparison(tmp_path, *(write_run(tmp_path, name) for name in "ab"))
    assert list(read_comparison(tmp_path).runs) == ["a", "b"]
    assert list(read_comparison(tmp_path, "b").runs) == ["b", "a"]
    with pytest.raises(ValueError, match="--baseline c: give one of a, b"):
        read_comparison(tmp_path, "c")


def test_files_are_found_after_the_folder_moves(tmp_path):
    """Paths are relative to the folder."""
    before, after = tmp_path / "before", tmp_path / "after"
    write_comparison(before, write_run(before, "a", outputs=["x", "y"], references=["x", "x"]))
    before.rename(after)
    (table,) = read_comparison(after).tables
    assert table.first.outputs.output == ["x", "y"]
    assert table.first.learning.loss == [3.0, 2.0, 2.5]
    assert not Path(table.first.predictions).is_absolute()
