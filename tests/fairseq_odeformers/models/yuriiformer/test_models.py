"""Parameters of the models, the initial velocity, and logged values."""

import threading

import pytest
import torch
from helpers import Task, call, count_parameters, make_any, source_batch

PLACES = {"": ("encoder", "decoder"), "_lm": ("decoder",), "_classifier": ("encoder",)}
every = pytest.mark.parametrize("kind", PLACES)
C = 16


def blocks(model, kind):
    return [getattr(model, side).layers[0] for side in PLACES[kind]]


def count(line, symbols=50):
    arch, *options = line.split()
    with torch.device("meta"):
        return count_parameters(make_any(arch, *options, task=Task(symbols), sizes=[]))


@every
@pytest.mark.parametrize("family, scalars", [("yuriiformer", 3), ("tmmformer", 4)])
def test_each_step_has_its_scalars(kind, family, scalars):
    """A layer has two steps, or three with a source; the first step from rest has only nu."""
    model = make_any(family + kind)
    steps = sum(2 * (3 if kind == "" and side == "decoder" else 2) for side in PLACES[kind])
    raw = [name for name, _ in model.named_parameters() if ".raw_" in name]
    assert len(raw) == steps * scalars - 3 * len(PLACES[kind])
    moving = make_any(family + kind, "--velocity", "embedding")
    raw = [name for name, _ in moving.named_parameters() if ".raw_" in name]
    assert len(raw) == steps * scalars


def test_extra_parameters_beside_the_transformer():
    """A step has a LayerNorm, without its two biases, and scalars:

    18,528 more than GPT-2. This is the second paper's count for twelve layers of width 768 without
    embeddings of the velocity; its Transformer has no biases either, and its model from rest has
    four scalars per step.
    """
    layers, width = 12, 768
    sizes = f"--decoder-layers {layers} --decoder-embed-dim {width} --decoder-ffn-embed-dim 3072"
    ours = count(f"tmmformer_lm {sizes}")
    transformer = count(f"transformer_lm_prenorm {sizes}")
    biases = (2 * layers + 1) * width
    assert ours == transformer - biases + 18_528 - 3
    assert 2 * layers * (width + 4) == 18_528


def test_the_velocity_has_its_own_embedding():
    """The table has 39,419,904 entries; fairseq has two more rows of learned positions."""
    line = "yuriiformer_lm_gpt2 --tokens-per-sample 1024"
    symbols = 50_304
    moving = count(f"{line} --velocity embedding", symbols)
    at_rest = count(f"{line} --velocity zero", symbols)
    assert moving - at_rest == 39_419_904 + 2 * 768 + 3


@every
def test_an_embedded_velocity_changes_the_output(kind):
    """Negating the embedding of the velocity changes the output."""
    model = make_any(f"yuriiformer{kind}", "--velocity", "embedding").eval()
    source, _ = source_batch()
    inputs = call(model, source, source)
    expected = model(**inputs)[0]
    for side in PLACES[kind]:
        getattr(model, side).velocity.embed_tokens.weight.data.mul_(-1)
    assert (model(**inputs)[0] - expected).abs().max() > 1e-4


def test_velocities_are_separate_in_threads():
    """Two threads that use one model do not mix their velocities."""
    model = make_any("yuriiformer_classifier", "--velocity", "embedding").eval()
    texts = torch.randint(4, 50, (2, 1, 9))
    alone = [model(**call(model, text, text))[0] for text in texts]
    inside, results = threading.Barrier(2, timeout=20), {}

    def wait(*_):
        inside.wait()

    model.encoder.layers[0].depths[0].register_forward_pre_hook(wait)

    def run(index):
        results[index] = model(**call(model, texts[index], texts[index]))[0]

    threads = [threading.Thread(target=run, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, expected in enumerate(alone):
        assert torch.allclose(results[index], expected, atol=1e-6)


@every
def test_scalars_are_logged_by_layer(kind):
    """Each sequence has a value per scalar, and a translator also logs the encoder's."""
    model, (source, _) = make_any(f"tmmformer{kind}"), source_batch()
    if kind == "_classifier":
        statistics = model.encoder(source)["statistics"]
    else:
        statistics = model(**call(model, source, source))[1]["statistics"]
    for side in PLACES[kind]:
        block = getattr(model, side).layers[0]
        for number, layer in enumerate(block.depths, start=1):
            for name, value in layer.residual_weights().items():
                assert torch.equal(statistics[f"{side}_{name}_{number}"], value.expand(3))
        assert f"{side}_self_attn_mu_1" not in statistics
        assert f"{side}_ffn_nu_2" in statistics


@pytest.mark.parametrize("kind", ["", "_lm"])
@pytest.mark.parametrize("velocity", ["zero", "embedding"])
def test_caches_equal_a_transformers(kind, velocity):
    """A cache has the keys, values and key mask of each attention, and nothing of the velocity."""
    model = make_any(f"yuriiformer{kind}", "--velocity", velocity).eval()
    baseline = make_any("transformer_prenorm" if kind == "" else "transformer_lm_prenorm").eval()
    source, lengths = source_batch()
    shapes = []
    for decoding in (model, baseline):
        state = {}
        encoded = [decoding.encoder(source, lengths)] if kind == "" else []
        for end in range(1, 4):
            decoding.decoder(source[:, 4 : 4 + end], *encoded, incremental_state=state)
        kept = (tensor for cache in state.values() for tensor in cache.values())
        shapes.append(sorted(tensor.shape for tensor in kept if tensor is not None))
    assert shapes[0] == shapes[1]
