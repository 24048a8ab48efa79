"""The figure of growth has the exponents of the tables that it is drawn from."""

import json

import pytest
from script_helpers import ROOT

from fairseq_odeformers.lab.benchmark import command, growth
from fairseq_odeformers.lab.benchmark.timing import read_rows
from fairseq_odeformers.lab.plots import columns, grouped


def test_exponents_of_powers():
    """Of the upper half of the points: what is constant at small sizes does not count."""
    x = [1.0, 2.0, 4.0, 8.0]
    assert growth.exponent(x, [3 * one**1.5 for one in x]) == pytest.approx(1.5)
    assert growth.exponent(x, [9.0, 9.0, 16.0, 64.0]) == pytest.approx(2)
    assert growth.exponent(x[:2], [1.0, 2.0]) == pytest.approx(1)
    assert growth.exponent(x[:1], [1.0]) is None


@pytest.mark.parametrize("varied", ["length", "layers"])
def test_a_panel_a_measurement_and_a_line_a_model(tmp_path, varied, recwarn):
    """With the exponent in its label; of one size there is none."""
    one = {"length": 8, "layers": 2, "ratio": 1.0}
    rows = [
        {**one, "what": "memory", "unit": "MB", "model": model, "value": size, varied: size}
        for model in ("a", "b")
        for size in (16, 32, 64)
    ]
    single = {**one, "what": "state", "unit": "kB", "model": "a", "value": 3.0}
    panels = growth.draw([rows, [single]]).axes
    assert [panel.get_xlabel() for panel in panels] == [growth.AXES[varied], "length (tokens)"]
    assert [panel.get_ylabel() for panel in panels] == ["memory (MB)", "state (kB)"]
    labels = [[text.get_text() for text in panel.get_legend().get_texts()] for panel in panels]
    assert labels == [["a: 1.00", "b: 1.00"], ["a"]]
    assert not recwarn.list
    table, out = tmp_path / "table.json", tmp_path / "growth.png"
    table.write_text(json.dumps({"rows": rows}))
    command.main(["growth", str(out), str(table)])
    assert out.read_bytes().startswith(b"\x89PNG")


def exponents(name):
    """Of the models in a table of the page."""
    rows = read_rows(ROOT / "docs" / "growth" / f"{name}.json")
    return {
        model: growth.exponent(*columns(own, "length", "value")) for model, own in grouped(rows)
    }


def test_the_page_has_the_exponents_of_its_data():
    time, memory = map(exponents, ("encoder-length", "memory-length"))
    names = "transevolve_fullff_1", "transevolve_randomff_1"
    assert {f"{memory[name]:.1f}" for name in names} == {"1.4"}
    times = " and ".join(f"{time[name]:.2f}" for name in names)
    found = (
        f"TransEvolve's time grows as the Transformer's, {times} against "
        f"{time['transformer']:.2f}, its memory faster, 1.4 against {memory['transformer']:.1f}; "
        f"TransJect has {time['transject']:.2f} and {memory['transject']:.1f}."
    )
    assert found in " ".join((ROOT / "docs" / "speed.md").read_text("utf-8").split())
