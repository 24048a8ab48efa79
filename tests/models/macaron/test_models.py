"""The models of the Macaron Net: sizes, options, and what they inherit from fairseq's."""

import pytest
import torch
from fairseq import checkpoint_utils
from helpers import (
    PAD,
    SMALL,
    Task,
    count_parameters,
    make_lm,
    make_model,
    model_config,
    source_batch,
)

TIED = "--share-all-embeddings"
PRE_NORM = ["--encoder-normalize-before", "--decoder-normalize-before"]
BERT_SIZES = [*SMALL, "--encoder-layers", "2", "--max-positions", "20"]


def make_bert(*extra, arch="macaron_bert_base", sizes=BERT_SIZES, task=None):
    return make_model(arch, "--task", "masked_lm", *extra, sizes=sizes, task=task)


# --- sizes -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "twin", "inner", "parameters"),
    [
        ("macaron_transformer_iwslt_de_en", "transformer_iwslt_de_en", 1024, 36_683_776),
        ("macaron_transformer_wmt_en_de", "transformer_wmt_en_de", 2048, 60_542_976),
        ("macaron_transformer_wmt_en_de_big", "transformer_wmt_en_de_big", 4096, 209_166_336),
    ],
)
def test_as_large_as_the_transformer(arch, twin, inner, parameters):
    """Two FFNs for one of twice the inner width: 3 d more a layer, a LayerNorm and d biases."""
    task = Task(10_000 if "iwslt" in arch else 32_000)
    with torch.device("meta"):
        macaron = make_model(arch, TIED, task=task, sizes=[])
        transformer = make_model(twin, TIED, *PRE_NORM, task=task, sizes=[])
    assert transformer.encoder.layers[0].fc1.out_features == inner
    layers = len(macaron.encoder.layers) + len(macaron.decoder.layers)
    extra = layers * 3 * macaron.decoder.embed_dim
    assert count_parameters(macaron) == count_parameters(transformer) + extra == parameters


def test_as_large_as_bert_base():
    """Twelve layers, each 3 d larger than one of fairseq's pre-norm RoBERTa."""

    def parameters(arch):
        """From those of one layer and of two: twelve take seconds to draw."""
        sizes = ["--max-positions", "512", "--encoder-layers"]
        one, two = (
            count_parameters(make_bert(arch=arch, sizes=[*sizes, layers], task=Task(30_000)))
            for layers in "12"
        )
        return one + 11 * (two - one)

    macaron, roberta = map(parameters, ("macaron_bert_base", "roberta_prenorm"))
    assert macaron == roberta + 12 * 3 * 768 == 109_140_528


# --- options ---------------------------------------------------------------


@pytest.mark.parametrize("arch", ["macaron_transformer", "macaron_transformer_wmt_en_de_big"])
def test_switches_keep_their_meaning(arch):
    """Options of fairseq's Transformer that are on by default here can be given, or turned off."""
    given = model_config(arch, *PRE_NORM)
    assert given.encoder_normalize_before and given.decoder_normalize_before
    off = model_config(arch, "--no-encoder-normalize-before", "--no-decoder-normalize-before")
    assert not off.encoder_normalize_before and not off.decoder_normalize_before
    assert model_config(arch, "--relu-dropout", "0.2").activation_dropout == 0.2


@pytest.mark.parametrize(
    ("make", "option", "message"),
    [
        (make_model, "--quant-noise-scalar 0.5", ": .* leave the option out"),
        (make_model, "--encoder-attention-heads 3", ": give a divisor"),
        (make_model, "--decoder-attention-heads 5", ": give a divisor"),
        (make_model, "--activation-dropout -0.1", ": give at least 0 and below 1"),
        (make_lm, "--scale-fc", " True: "),
        (make_lm, "--scale-resids", " True: "),
        (make_bert, "--spectral-norm-classification-head", " True: .*; leave"),
    ],
)
def test_bad_options(make, option, message):
    archs = {make_model: ["macaron_transformer"], make_lm: ["macaron_transformer_lm"]}
    with pytest.raises(ValueError, match=option + message):
        make(*archs.get(make, []), *option.split())


# --- translation -----------------------------------------------------------


def test_cross_self_attention():
    """The decoder's self-attention sees the source as well, step by step as at once."""
    model = make_model(
        "macaron_transformer", TIED, "--cross-self-attention", "--no-cross-attention"
    )
    model.eval()
    source, lengths = source_batch()
    target = torch.randint(4, 50, (3, 7))
    encoder_out = model.encoder(source, lengths)
    full, _ = model.decoder(target, encoder_out=encoder_out)
    state = {}
    for length in range(1, 8):
        step, _ = model.decoder(target[:, :length], encoder_out, incremental_state=state)
        assert (step[:, 0] - full[:, length - 1]).abs().max() < 1e-5


def test_layer_drop_and_pruning():
    """Layers that layer drop trained without are left out when the checkpoint is loaded."""
    sizes = [*SMALL, TIED, "--encoder-layerdrop", "0.5"]
    model = make_model("macaron_transformer", *sizes)
    layers = [list(model.encoder.layers) for _ in range(20)]
    assert len({len(kept) for kept in layers}) > 1
    sizes += ["--encoder-layers-to-keep", "0,2", "--decoder-layers-to-keep", "1"]
    pruned = model_config("macaron_transformer", *sizes)
    state = checkpoint_utils.prune_state_dict(model.state_dict(), pruned)
    small = make_model("macaron_transformer", *sizes)
    small.load_state_dict(state)
    kept = model.state_dict()["encoder.layers.2.macaron_fc1.weight"]
    assert torch.equal(small.state_dict()["encoder.layers.1.macaron_fc1.weight"], kept)


def test_offloaded_activations_change_no_gradient():
    source, lengths = source_batch()
    target = torch.randint(4, 50, (3, 7))
    gradients = []
    for extra in ([], ["--offload-activations"]):
        model = make_model("macaron_transformer", TIED, *extra, "--dropout", "0.1")
        torch.manual_seed(3)
        model(source, lengths, target)[0].square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for plain, offloaded in zip(*gradients):
        assert torch.allclose(plain, offloaded, atol=1e-5)


def test_quant_noise_reaches_both_ffns():
    model = make_model("macaron_transformer", TIED, "--quant-noise-pq", "0.5").train()
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        for linear in (layer.macaron_fc1, layer.macaron_fc2, layer.fc1, layer.fc2):
            before = linear.weight.clone()
            linear(torch.randn(2, linear.in_features))
            assert (linear.weight == 0).sum() > (before == 0).sum()


# --- language model and BERT -----------------------------------------------


def test_language_model_keeps_fairseq_s_embeddings():
    """Adaptive input and softmax, with tied weights, are fairseq's."""
    adaptive = "--adaptive-input --adaptive-input-cutoff 20,30 --adaptive-softmax-cutoff 20,30"
    model = make_lm("macaron_transformer_lm", *adaptive.split(), "--tie-adaptive-weights")
    assert model.decoder.adaptive_softmax.cutoff == [20, 30, 50]
    assert model.decoder.max_target_positions == 1024
    assert len(model.decoder.layers) == 6
    assert all(hasattr(layer, "macaron_fc1") for layer in model.decoder.layers)


def test_layers_with_layer_norm_after_them():
    model = make_bert("--no-encoder-normalize-before").eval()
    assert model.encoder.sentence_encoder.layer_norm is None
    features, _ = model(torch.randint(4, 50, (2, 8)), features_only=True)
    assert features.mean(-1).abs().max() < 1e-5  # what a LayerNorm leaves, as it is initialised


def test_masked_language_model_sees_both_sides_but_no_padding():
    model = make_bert().eval()
    tokens = torch.randint(4, 50, (2, 8))
    tokens[1, 5:] = PAD
    together, _ = model(tokens)
    alone, _ = model(tokens[1:, :5])
    assert (together[1:, :5] - alone).abs().max() < 1e-5
    changed = tokens.clone()
    changed[0, 6] = (tokens[0, 6] + 1) % 46 + 4
    assert ((together[0] - model(changed)[0][0]).abs().amax(-1) > 1e-4).all()
    masked = tokens.eq(tokens[0, 3])
    assert torch.allclose(model(tokens, masked_tokens=masked)[0], together[masked], atol=1e-5)


def test_classification_heads_are_saved_and_loaded():
    model = make_bert().eval()
    model.register_classification_head("sentiment", num_classes=3)
    tokens = torch.randint(4, 50, (2, 8))
    logits, _ = model(tokens, features_only=True, classification_head_name="sentiment")
    assert logits.shape == (2, 3)
    other = make_bert("--load-checkpoint-heads").eval()
    state = model.state_dict()
    other.upgrade_state_dict(state)
    other.load_state_dict(state)
    again, _ = other(tokens, classification_head_name="sentiment")
    assert torch.equal(again, logits)
