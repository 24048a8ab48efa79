"""The style that all figures share."""

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY, BaseFairseqModel
from matplotlib import rc_context

from fairseq_odeformers.registry import Family
from odeformers import plots


def test_an_architecture_always_has_one_colour_and_marker():
    names = ["transformer_prenorm", "transevolve_fullff_1", "macaron_classifier", "transject_lm"]
    names += ["node_transformer_mt", "ode_transformer", "transevolve_classifier_randomff_2"]
    names += ["diffeq_transformer_lm", "pcformer", "yuriiformer", "tmmformer_lm", "ot_transformer"]
    together = plots.styles(names)
    for name in names:
        for same in (name, f"runs/{name}-seed2", f"{name}[--attention matrix]"):
            for part in ("color", "marker"):
                assert plots.styles([same])[same][part] == together[name][part]
    for part in ("color", "marker"):
        assert len({look[part] for look in together.values()}) == len(names)


def test_a_plugins_family_has_its_declared_colour(monkeypatch):
    """The plugin's longer name counts, not the name of fairseq's in it."""
    family = Family("Damped Transformer", "Own et al.", 2026, color="teal")
    model = type("Damped", (BaseFairseqModel,), {"family": family})
    monkeypatch.setitem(ARCH_MODEL_REGISTRY, "damped_transformer", model)
    assert plots.color_of("runs/damped_transformer-seed1") == "teal"
    assert plots.color_of("runs/transformer-seed1") == "black"


def test_families_replace_architectures_in_labels():
    """Architectures of one family keep their part of the name."""
    names = ["transformer", "transformer_lm_prenorm", "runs/transject_lm-seed2", "own model"]
    shown = ["Transformer", "pre-norm Transformer", "runs/TransJect-seed2", "own model"]
    assert plots.label_families(names) == dict(zip(names, shown))
    both = ["transevolve_fullff_1", "transevolve_randomff_1[--encoder-depth 2]"]
    assert [*plots.label_families(both).values()] == [
        "TransEvolve (full FFN)",
        "TransEvolve (random FFN)[--encoder-depth 2]",
    ]


def test_names_that_share_a_colour_have_other_markers():
    names = [
        "transject",
        "transject_random",
        "transject[--encoder-experts 1]",
        "film - bad",
        "film - good",
    ]
    looks = plots.styles(names)
    for part in ("linestyle", "fillstyle"):
        assert len({(look["color"], look[part]) for look in looks.values()}) == len(names)
    assert len({look["color"] for look in looks.values()}) == 3


def test_all_lines_have_the_same_weight():
    _, (axes,) = plots.panels(1, 1, 4, 3)
    names = ["transformer-seed1", "transformer-seed2", "transject"]
    plots.lines(axes, [{"model": name, "x": x, "y": x} for name in names for x in (1, 2)], "x", "y")
    sizes = {(line.get_linewidth(), line.get_markersize()) for line in axes.lines}
    assert len(axes.lines) == 3 and len(sizes) == 1


@pytest.mark.parametrize("depths", [[1, 2], [0, 1, 2], [1], range(1, 25)])
def test_layers_are_numbered_by_integers(depths):
    figure, (axes,) = plots.panels(1, 1, 4, 3)
    rows = [{"model": "a", "layer": depth, "y": 0.5 * depth} for depth in depths]
    plots.lines(axes, rows, "layer", "y")
    figure.draw_without_rendering()
    assert all(tick == int(tick) for tick in axes.get_xticks())


@pytest.mark.parametrize("highest, scale", [(1.12, "linear"), (50, "log")])
def test_an_axis_is_logarithmic_only_over_a_wide_range(highest, scale):
    """A logarithmic axis of less than a power of ten would show 1.1 beside 1.12."""
    _, (axes,) = plots.panels(1, 1, 4, 3)
    axes.plot([1.08, 1.1, highest])
    plots.scale_by_span(axes)
    assert axes.get_yscale() == scale


@pytest.mark.parametrize("width", [1.8, 4])
def test_titles_fit_their_panels(width):
    name = "runs/transevolve_classifier_fullff_1_prenorm-lr-5e-4-seed1/checkpoint_best"
    with rc_context(plots.STYLE):
        figure, grid = plots.panels(4, 2, width, 2)
        for axes in grid:
            plots.title(axes, name)
        figure.draw_without_rendering()
        for axes in grid:
            assert axes.get_title().replace("\n", "") == name
            assert "5e-4" in axes.get_title()
            box = axes.title.get_window_extent()
            assert 0 <= box.x0 and box.x1 <= figure.bbox.x1
            assert box.y1 <= figure.bbox.y1


def test_bars_reach_from_the_lowest_to_the_highest_value():
    """Equal values, whose mean differs from them in the last bit, have a bar of no length."""
    _, (axes,) = plots.panels(1, 1, 4, 3)
    plots.means_and_ranges(axes, [1, 2], [[98.41] * 3, [1.0, 2.0, 6.0]])
    (bars,) = axes.containers[0][2]
    assert [tuple(bar[:, 1].round(6)) for bar in bars.get_segments()] == [(98.41, 98.41), (1, 6)]


def test_a_long_legend_does_not_shrink_the_panels():
    heights = []
    for count in (1, 12):
        with rc_context(plots.STYLE):
            figure, (axes,) = plots.panels(1, 1, 4, 3)
            names = [f"transevolve_fullff_1-seed{number}" for number in range(count)]
            plots.legend(figure, [axes.plot([0, 1], label=name)[0] for name in names])
            figure.draw_without_rendering()
            heights.append(axes.get_window_extent().height)
    assert heights[1] >= 0.95 * heights[0]
