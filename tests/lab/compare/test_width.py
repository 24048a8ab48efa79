"""Widths at which architectures have a wanted number of parameters."""

import re
from types import SimpleNamespace

import pytest

from fairseq_odeformers.lab.compare.defaults import default_recipe
from fairseq_odeformers.lab.compare.entry import make_entry
from fairseq_odeformers.lab.compare.matching import (
    TOLERANCE,
    match_width,
    search_width,
    width_options,
)
from fairseq_odeformers.lab.compare.trial import build, count_parameters


@pytest.mark.parametrize("start, step, target", [(96, 24, 9000), (8, 8, 10**6), (256, 2, 20000)])
@pytest.mark.parametrize("square", [0, 0.01, 3])
@pytest.mark.parametrize("rest", [100, 10**6])
def test_no_other_width_is_nearer(start, step, target, square, rest):
    """Parameters grow with the width, or also with its square, beside a rest that does not."""
    target += rest

    def count(width):
        return round(square * width**2 + 50 * width + rest)

    width = search_width(count, {start: count(start)}, target, step)
    others = (abs(count(other) - target) for other in [start, *range(step, 10**5, step)])
    assert width == start or width % step == 0
    assert abs(count(width) - target) == min(others)


def test_a_size_that_is_out_of_reach_takes_few_models():
    counts = {1024: 1100}
    assert search_width(lambda width: width + 76, counts, 10, 2) == 2
    assert len(counts) < 5


def test_a_size_without_an_effect_is_no_width():
    assert search_width(lambda width: 100, {16: 100}, 200, 2) is None


def test_a_width_fits_the_heads():
    """Of both sides; the width of the whole model counts only where there is no inner one."""
    heads = SimpleNamespace(encoder_attention_heads=12)
    assert width_options("transject", heads) == (["encoder_embed_dim"], 24)
    names = ["encoder_ffn_embed_dim", "decoder_ffn_embed_dim"]
    assert width_options("transformer_prenorm", heads) == (names, 2)


@pytest.mark.parametrize(
    "arch, width, least",
    [
        ("node_transformer", "encoder-ffn-embed-dim", 2),  # by default that of the embedding
        ("macaron_classifier", "encoder-ffn-embed-dim", 2),
        ("transject", "encoder-embed-dim", 8),
    ],
)
def test_the_width_of_a_known_size_is_found(arch, width, least, training_data):
    """At the least width, the difference from a smaller size is told; a large one is refused."""
    recipe = default_recipe(training_data / "words", {arch: {}}, epochs=1)
    recipe.sizes = {"embed-dim": 32, "attention-heads": 2}
    small, large = make_entry(recipe, arch, {}), make_entry(recipe, arch, {width: 72})
    parameters = count_parameters(build(recipe, large).model)
    found = match_width(recipe, small, parameters)
    assert found.options[width] == 72
    assert count_parameters(build(recipe, found).model) == parameters
    assert re.fullmatch(rf"{width} \d+ -> 72", found.note)
    parameters = count_parameters(build(recipe, small).model)
    assert match_width(recipe, small, round(parameters * (1 + TOLERANCE))) is small
    smallest = count_parameters(build(recipe, make_entry(recipe, arch, {width: least})).model)
    told = f"{width} {{}} -> {least}, 10% more parameters than the first"
    assert re.fullmatch(told.format(r"\d+"), match_width(recipe, small, round(smallest / 1.1)).note)
    with pytest.raises(
        ValueError, match=rf"--match parameters: 30% more .*-> {least}\); give .* or"
    ):
        match_width(recipe, small, round(smallest / 1.3))
