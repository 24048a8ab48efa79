"""Parameters of the models, how often a layer is evaluated, and options that are refused."""

import pytest
import torch
from helpers import Task, call, count_parameters, make_any, source_batch

from fairseq_odeformers.models.pcformer.layer import PredictorCorrectorLayer

SIDES = {"pcformer": "encoder", "pcformer_classifier": "encoder", "pcformer_lm": "decoder"}
every = pytest.mark.parametrize("arch, side", SIDES.items())


@every
@pytest.mark.parametrize(
    "line, alphas",
    [("", 1), ("--alpha-per-layer", 2), ("--rk-norm", 1), ("--rk-norm-slopes", 1)],
)
def test_alpha_is_shared_or_one_per_layer(arch, side, line, alphas):
    """Alpha starts at 1/2 and has one name, and the LayerNorms of stages are shared."""
    model = make_any(arch, *line.split())
    parameters = [p for name, p in model.named_parameters() if name.endswith("coefficients.alpha")]
    assert [alpha.item() for alpha in parameters] == [0.5] * alphas
    norms = [name for name, _ in model.named_parameters() if ".norms." in name]
    assert len(norms) == {"--rk-norm": 2 * 3, "--rk-norm-slopes": 2 * 2}.get(line, 0)


@every
@pytest.mark.parametrize("order", [2, 4])
def test_a_layer_is_evaluated_once_more_than_the_order(arch, side, order):
    model, tokens = make_any(arch, "--rk-order", str(order)), source_batch()[0]
    layers = [m for m in model.modules() if isinstance(m, PredictorCorrectorLayer)]
    calls = []
    for layer in layers:
        layer.fc1.register_forward_hook(lambda *call: calls.append(call))
    model(**call(model, tokens, tokens))
    assert len(layers) == 2 and len(calls) == 2 * (order + 1)


def test_rows_start_at_the_mean():
    """A row starts as the mean of the embedding and earlier layers; encoders have two rows."""
    model = make_any("pcformer")
    (encoder,), (decoder,) = model.encoder.layers, model.decoder.layers
    for rows in (encoder.correctors, encoder.combinations, decoder.combinations):
        for count, row in enumerate(rows, start=2):
            assert torch.equal(row.weight, torch.full((count,), 1 / count))


def test_extra_parameters_beside_the_transformer():
    """Encoder: one alpha, and two LayerNorms and two rows per layer. Decoder: one of each."""
    width, layers = 1024, 6
    tied = "--share-all-embeddings"
    norms = "--encoder-normalize-before --decoder-normalize-before"
    ours, transformer, dense, ode = (
        count(f"{arch} {tied} {more}")
        for arch, more in (
            ("pcformer_wmt_en_de_big", ""),
            ("transformer_wmt_en_de_big", norms),
            ("ode_transformer_wmt_en_de_dense_big_rk4", ""),
            ("ode_transformer_wmt_en_de_big_rk4", ""),
        )
    )
    row = sum(range(2, layers + 2))
    assert ours == transformer + 3 * (2 * width * layers + row) + 1
    assert dense == ode + 2 * (2 * width * layers + row)


def count(line):
    arch, *options = line.split()
    with torch.device("meta"):
        return count_parameters(make_any(arch, *options, task=Task(1000), sizes=[]))


@pytest.mark.parametrize(
    "arch, option, message",
    [
        ("pcformer", "--encoder-layerdrop 0.1", "--encoder-layerdrop 0.1: a history has a weight"),
        ("pcformer", "--decoder-layers-to-keep 0,2", "--decoder-layers-to-keep 0,2: a history"),
        ("pcformer_lm", "--no-decoder-normalize-before", "--no-decoder-normalize-before: a hist"),
        ("ode_transformer --dense-history", "--encoder-layerdrop 0.1", "a weight for each layer"),
        ("pcformer", "--rk-order 3", "--rk-order 3: give a multiple of 2"),
        ("pcformer_lm_released", "--rk-norm", "--rk-norm-slopes is an alternative to --rk-norm"),
    ],
)
def test_options_that_exclude_a_history_are_refused(arch, option, message):
    with pytest.raises(ValueError, match=message):
        make_any(*arch.split(), *option.split())
