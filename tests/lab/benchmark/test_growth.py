"""The figure of growth has the exponents of the tables that it is drawn from."""

import json

import pytest
from script_helpers import ROOT

from fairseq_odeformers.lab.benchmark import command, growth
from fairseq_odeformers.lab.plots import columns, group_by


def test_exponents_of_powers():
    """Of the upper half of the points: what is constant at small sizes does not count."""
    x = [1.0, 2.0, 4.0, 8.0]
    assert growth.fit_exponent(x, [3 * one**1.5 for one in x]) == pytest.approx(1.5)
    assert growth.fit_exponent(x, [9.0, 9.0, 16.0, 64.0]) == pytest.approx(2)
    assert growth.fit_exponent(x[:2], [1.0, 2.0]) == pytest.approx(1)
    assert growth.fit_exponent(x[:1], [1.0]) is None


@pytest.mark.parametrize("varied", ["length", "layers"])
def test_a_panel_per_measurement_and_a_line_per_model(varied, recwarn):
    """The label of a line has its exponent, if there are several sizes."""
    one = {"length": 8, "layers": 2, "ratio": 1.0}
    rows = [
        {**one, "what": "memory", "unit": "MB", "model": model, "value": size, varied: size}
        for model in ("a", "b")
        for size in (16, 32, 64)
    ]
    single = {**one, "what": "state", "unit": "kB", "model": "a", "value": 3.0}
    panels = growth.draw([rows, [single]]).axes
    assert [panel.get_xlabel() for panel in panels] == [growth.AXES[varied], "length (tokens)"]
    assert [panel.get_ylabel() for panel in panels] == [
        *("memory of a training step (MB)", "state (kB)")
    ]
    labels = [[text.get_text() for text in panel.get_legend().get_texts()] for panel in panels]
    assert labels == [["a: 1.00", "b: 1.00"], ["a"]]
    assert not recwarn.list


def test_tables_in_one_file_are_the_tables_that_it_was_made_from(tmp_path):
    """Also where two have the same sizes; the figure of the file is theirs."""
    paths = [tmp_path / f"{name}.json" for name in ("long", "deep")]
    for path, layers in zip(paths, ([2, 2], [2, 4])):
        rows = [
            {"what": "memory", "unit": "MB", "model": "a", "length": 8, "layers": n}
            | {"value": 1.5 * n, "ratio": 1.0, "parameters": 7}
            for n in layers
        ]
        path.write_text(json.dumps({"rows": rows}))
    out, table = tmp_path / "growth.png", tmp_path / "all.csv"
    command.main(["growth", str(out), *map(str, paths), "--csv", str(table)])
    assert out.read_bytes().startswith(b"\x89PNG")
    tables = growth.read_tables([table])
    assert {name: columns(rows, "layers", "value") for name, rows in tables.items()} == {
        "long": [[2, 2], [3.0, 3.0]],
        "deep": [[2, 4], [3.0, 6.0]],
    }
    panels = growth.draw(tables.values()).axes
    assert [panel.get_xlabel() for panel in panels] == ["length (tokens)", "layers"]


def exponents(rows):
    """The exponent of each model of a table."""
    models = group_by(rows)
    return {model: growth.fit_exponent(*columns(own, "length", "value")) for model, own in models}


def test_the_page_has_the_exponents_of_its_data():
    tables = growth.read_tables([ROOT / "docs" / "growth.csv"])
    time, memory = exponents(tables["encoder-length"]), exponents(tables["memory-length"])
    names = "transevolve_fullff_1", "transevolve_randomff_1"
    assert {f"{memory[name]:.1f}" for name in names} == {"1.4"}
    times = " and ".join(f"{time[name]:.2f}" for name in names)
    page = " ".join((ROOT / "docs" / "speed.md").read_text("utf-8").split())
    for text in (
        f"(exponents {times} against {time['transformer']:.2f})",
        f"(1.4 against {memory['transformer']:.1f})",
        f"{time['transject']:.2f} for time and {memory['transject']:.1f} for memory",
    ):
        assert text in page
