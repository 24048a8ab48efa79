"""The figure of growth shows tables relative to their first model."""

import importlib
import json
import sys

import numpy as np
import pytest
from script_helpers import ROOT

from odeformers.plots import columns

sys.path.insert(0, str(ROOT / "examples/speed"))
growth = importlib.import_module("growth")


def row(model, length, value, **other):
    return {
        **{"table": "one", "what": "encoder", "unit": "ms", "layers": 2, "ratio": 1.0},
        **{"model": model, "length": length, "value": value, "parameters": 7, **other},
    }


def related(*tables):
    return columns(growth.relate(tables), "model", "length", "relative")


def test_times_become_relative_speeds():
    """Speeds are the ratios of the rounds, not of the medians. Other quantities are divided."""
    assert related([row("a", 8, 3.0), row("b", 8, 1.4, ratio=2.0)])[2] == [1.0, 2.0]
    memory = {"what": "memory", "unit": "MB"}
    assert related([row("a", 8, 2.0, **memory), row("b", 8, 6.1, ratio=0.5, **memory)])[2] == [1, 2]


def test_a_table_uses_its_own_baseline_or_the_previous_one():
    """A later table with its own baseline may come from a machine of another speed."""
    first = [row("a", 8, 4.0), row("a", 16, 8.0)]
    assert related(first, [row("b", 16, 2.0)])[2] == [1.0, 1.0, 4.0]
    again = [row("a", 8, 2.0), row("b", 8, 1.0, ratio=2.0)]
    assert related(first, again, [row("c", 8, 0.5)])[2] == [1.0, 1.0, 1.0, 2.0, 4.0]


@pytest.mark.parametrize("other", [{"length": 16}, {"layers": 4}, {"what": "infer"}])
def test_a_row_without_baseline_is_refused(other):
    with pytest.raises(ValueError, match=f"one: b has no a .* at length {other.get('length', 8)}"):
        growth.relate([[row("a", 8, 1.0), {**row("b", 8, 1.0), **other}]])


def test_each_measurement_and_depth_has_a_panel(recwarn):
    """The legend names the models in the order of the ends of their lines."""
    deep = [row("a", n, n, layers=4) for n in (16, 32)]
    rows = [
        row(model, n, n / speed, ratio=speed)
        for model, speed in (("a", 1), ("b", 3))
        for n in (16, 32)
    ]
    figure = growth.draw([rows, deep])
    assert [len(panel.lines) for panel in figure.axes] == [2, 1]
    assert [np.asarray(line.get_ydata()).tolist() for line in figure.axes[0].lines] == [
        *([1, 1], [3, 3])
    ]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["b", "a"]
    assert not recwarn.list


def draw(*words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["growth.py", *map(str, words)])
        growth.main()


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"rows": [{"what": "infer"}]}'])
@pytest.mark.parametrize("ending", ["json", "csv"])
def test_a_damaged_table_is_refused(content, ending, tmp_path):
    path = tmp_path / f"table.{ending}"
    path.write_text(content)
    with pytest.raises(ValueError, match=path.name):
        draw(tmp_path / "out.png", path)
    assert not (tmp_path / "out.png").exists()


def test_joined_tables_equal_their_sources(tmp_path):
    """Two tables may have the same sizes, and the figure of the joined file is the same."""
    paths = [tmp_path / f"{name}.json" for name in ("first", "second")]
    for number, path in enumerate(paths, start=1):
        rows = [row("a", n, n * number) | {"table": path.stem} for n in (8, 16)]
        path.write_text(json.dumps({"rows": rows}))
    out, table, again = (tmp_path / name for name in ("growth.png", "all.csv", "again.png"))
    draw(out, *paths, "--csv", table)
    assert out.read_bytes().startswith(b"\x89PNG")
    tables = growth.read_tables([table])
    assert {name: columns(rows, "length", "value") for name, rows in tables.items()} == {
        "first": [[8, 16], [8, 16]],
        "second": [[8, 16], [16, 32]],
    }
    draw(again, table)
    assert again.read_bytes() == out.read_bytes()
