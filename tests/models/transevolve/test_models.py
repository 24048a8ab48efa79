"""TransEvolve as a fairseq model: its sizes, start and options."""

import math

import pytest
import torch
import torch.nn.functional as F
from helpers import Task, count_parameters, make_classifier, make_model, source_batch

from fairseq_odeformers.models.transevolve.block import TransEvolveDepth, TransEvolveEncoderBlock
from fairseq_odeformers.modules.recording import recorded

# --- sizes -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "parameters", "paper"),
    [
        ("transevolve_randomff_1", 25_900_032, 27),
        ("transevolve_randomff_2", 30_620_672, 33),
        ("transevolve_fullff_1", 51_053_568, 53),
        ("transevolve_fullff_2", 55_774_208, 59),
    ],
)
def test_parameters_of_the_base_models(arch, parameters, paper):
    """The paper's count = ours + d'(d + d') for the W~k of each attention (Table 2, millions)."""
    with torch.device("meta"):
        model = make_model(arch, task=Task(32_000), sizes=[])
    assert count_parameters(model) == parameters
    blocks = [m for m in model.modules() if isinstance(m, TransEvolveEncoderBlock)]
    attentions = sum(1 + block.cross_attention for block in blocks)
    assert abs((parameters + attentions * 512 * 1024) / 1e6 - paper) < 1


def test_base_architecture_takes_two_dictionaries():
    model = make_model("transevolve", task=Task(50, 60))
    assert model.encoder.embed_tokens.weight.size(0) == 50
    assert model.decoder.output_projection.weight.size(0) == 60
    assert model.decoder.output_projection.weight is not model.decoder.embed_tokens.weight


def test_decoder_follows_the_encoder_unless_told_otherwise():
    model = make_model("transevolve_fullff_2", "--encoder-depth", "2", "--decoder-blocks", "1")
    assert [len(block.depths) for block in model.encoder.layers] == [2, 2]
    assert [len(block.depths) for block in model.decoder.layers] == [2]
    assert model.decoder.layers[0].depths[0].feed_forward[0].out_features == 32


def test_prenorm_variants_have_an_unbroken_stream_on_both_sides():
    """Each block has LayerNorm before its scores, and each side one after its last block."""
    for arch in ("transevolve_fullff_2_prenorm", "transevolve_randomff_1_prenorm"):
        model = make_model(arch)
        for side in (model.encoder, model.decoder):
            assert side.layer_norm is not None
            assert all(block.normalize_before for block in side.layers)
    encoder = make_model("transevolve_fullff_2", "--encoder-normalize-before")
    assert encoder.encoder.layer_norm is not None and encoder.decoder.layer_norm is None
    assert not encoder.decoder.layers[0].normalize_before


@pytest.mark.parametrize(
    ("extra", "out_proj", "feed_forward", "bias"),
    [
        ([], 2 / 2, 2 / (1 + 3), False),
        (["--encoder-normalize-before"], 1 / 2, 1 / 3, True),
        (["--encoder-normalize-before", "--initialization", "glorot"], 2 / 2, 2 / 4, False),
        (["--initialization", "transformer"], 1 / 2, 1 / 3, True),
    ],
)
def test_start_of_the_weights(extra, out_proj, feed_forward, bias):
    """Variances are those of the released code, or of a Transformer of fairseq's.

    Times the width d: Glorot's is 2 / (rows + columns), with d_ff = 3 d here, and torch's own for
    a linear layer 1 / (3 inputs). Queries and keys have 1 / (d + d') either way.
    """
    sizes = "--encoder-embed-dim 128 --encoder-ffn-embed-dim 384 --encoder-attention-heads 2"
    model = make_model("transevolve_fullff_2", *extra, sizes=sizes.split())
    block = model.encoder.layers[0]
    attn, depth = block.self_attn, block.depths[0]
    for weight in (attn.q_proj.weight, attn.k_proj.weight, attn.time_query):
        assert (weight.var() * 256).item() == pytest.approx(1, rel=0.05)
        assert weight.abs().max() <= math.sqrt(3 / 256)
    assert (attn.time_weight.var() * 128 / 2).item() == pytest.approx(1, rel=0.15)
    assert (depth.self_attn_out_proj.weight.var() * 128).item() == pytest.approx(out_proj, rel=0.05)
    first = depth.feed_forward[0]
    assert (first.weight.var() * 128).item() == pytest.approx(feed_forward, rel=0.05)
    assert first.bias.any() == bias


def test_dropout_of_embeddings_has_its_own_option():
    """The released code has none, and TransEvolve's default is that; others follow --dropout."""
    for arch, default in [
        ("transevolve_fullff_2", 0.0),
        ("transformer_prenorm", 0.3),
        ("macaron_transformer", 0.3),
    ]:
        for extra, p in [((), default), (("--embedding-dropout", "0.2"), 0.2)]:
            model = make_model(arch, "--dropout", "0.3", *extra)
            assert {side.dropout_module.p for side in (model.encoder, model.decoder)} == {p}
            embedded = model.encoder.train().forward_embedding(torch.full((1, 200), 7))[0]
            assert embedded.eq(0).float().mean().item() == pytest.approx(p, abs=0.03)


@pytest.mark.parametrize("ffn_type", ["full", "random"])
@pytest.mark.parametrize("make", [make_model, make_classifier])
def test_activation_function_and_its_dropout(make, ffn_type):
    """The inner state of each feed-forward layer, in the place of ReLU, in training and without."""
    arch = "transevolve_classifier" if make is make_classifier else "transevolve"
    extra = "--activation-fn gelu --activation-dropout 0.25 --ffn-type"
    model, x = make(arch, *extra.split(), ffn_type), torch.randn(400, 16)
    layers = [m.feed_forward for m in model.modules() if isinstance(m, TransEvolveDepth)]
    assert len(layers) == (6 if make is make_classifier else 12)
    for layer in layers:
        with recorded([layer[1] if ffn_type == "full" else layer.activation]) as calls:
            layer.train()(x)
            layer.eval()(x)
        (expected, dropped), (other, kept) = ((F.gelu(*call.args), call.output) for call in calls)
        assert torch.equal(other, kept)
        left = dropped != 0
        assert left.float().mean().item() == pytest.approx(0.75, abs=0.03)
        assert torch.allclose(dropped[left], expected[left] / 0.75, atol=1e-5)


@pytest.mark.parametrize("extra", [[], ["--encoder-normalize-before"]])
def test_hidden_states_follow_each_depth(extra):
    """X_0 and the state after each depth: the inputs of all depths, and the output of the last."""
    encoder = make_model("transevolve_fullff_2", "--encoder-depth", "3", *extra).encoder.eval()
    tokens, lengths = source_batch()
    assert encoder(tokens, lengths)["encoder_states"] == []
    inputs = []
    for block in encoder.layers:
        for depth in block.depths:
            depth.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    out = encoder(tokens, lengths, return_all_hiddens=True)
    states = [state.transpose(0, 1) for state in out["encoder_states"]]
    assert len(inputs) == 6 and len(states) == 7
    assert all(map(torch.equal, states, inputs))
    last = states[-1] if encoder.layer_norm is None else encoder.layer_norm(states[-1])
    assert torch.equal(last, out["encoder_out"][0].transpose(0, 1))

    order = torch.tensor([2, 0])
    reordered = encoder.reorder_encoder_out(out, order)["encoder_states"]
    assert all(torch.equal(new.transpose(0, 1), old[order]) for new, old in zip(reordered, states))


# --- bad options -----------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--time-dim", "7"], "--time-dim 7: give a multiple of 2"),
        (["--time-dim", "0"], "--time-dim 0"),
        (
            ["--encoder-attention-heads", "5"],
            "--encoder-attention-heads 5: give a divisor of --encoder-embed-dim 16",
        ),
        (
            ["--decoder-attention-heads", "3"],
            "--decoder-attention-heads 3: give a divisor of --decoder-embed-dim 16",
        ),
        (
            ["--time-dim", "10", "--encoder-attention-heads", "4"],
            "--time-dim 10: give a multiple of --encoder-attention-heads 4",
        ),
        (["--attention-dropout", "1.5"], "--attention-dropout 1.5: give at least 0 and below 1"),
        (["--encoder-depth", "0"], "--encoder-depth 0"),
        (["--decoder-blocks", "0"], "--decoder-blocks 0"),
        (["--decoder-embed-dim", "32"], "--encoder-embed-dim 16 and --decoder-embed-dim 32"),
    ],
)
def test_bad_options_are_named(extra, message):
    with pytest.raises(ValueError, match=message):
        make_model("transevolve_fullff_2", *extra)


def test_tied_embeddings_need_one_dictionary():
    with pytest.raises(ValueError, match="50 and 60 symbols.*--joined-dictionary"):
        make_model("transevolve_fullff_2", task=Task(50, 60))


def test_states_that_no_gradient_reaches_are_refused():
    model = make_model("transevolve", "--checkpoint-activations")
    tokens, lengths = source_batch()
    for stack, inputs in (model.encoder, (tokens, lengths)), (model.decoder, (tokens,)):
        with pytest.raises(ValueError, match="--checkpoint-activations: .* --arclength-weight"):
            stack(*inputs, return_all_hiddens=True)
        with torch.no_grad():
            encoder_out = model.encoder(tokens, lengths)
            more = {"encoder_out": encoder_out} if stack is model.decoder else {}
            stack(*inputs, return_all_hiddens=True, **more)
