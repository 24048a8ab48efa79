"""The Macaron Net for translation and language modelling: sizes, options, published checkpoints."""

import argparse
import contextlib
import logging
import math

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.logging import meters
from fairseq.sequence_generator import SequenceGenerator
from helpers import (
    PAD,
    SMALL,
    Task,
    count_parameters,
    layer_norm,
    make_model,
    model_config,
    source_batch,
)

TIED = "--share-all-embeddings"
PRE_NORM = ["--encoder-normalize-before", "--decoder-normalize-before"]
LM_SIZES = "--decoder-embed-dim 16 --decoder-ffn-embed-dim 32 --decoder-attention-heads 2".split()


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


@pytest.mark.parametrize("arch", ["macaron_transformer", "macaron_transformer_wmt_en_de_big"])
def test_switches_keep_their_meaning(arch):
    """Options of fairseq's Transformer that are on by default here can be given, or turned off."""
    given = model_config(arch, *PRE_NORM)
    assert given.encoder_normalize_before and given.decoder_normalize_before
    off = model_config(arch, "--no-encoder-normalize-before", "--no-decoder-normalize-before")
    assert not off.encoder_normalize_before and not off.decoder_normalize_before
    assert model_config(arch, "--relu-dropout", "0.2").activation_dropout == 0.2


@pytest.mark.parametrize(
    "option, value, message",
    [
        ("--quant-noise-scalar", "0.5", "--quant-noise-scalar 0.5: .* leave the option out"),
        ("--encoder-attention-heads", "3", "--encoder-attention-heads 3 does not divide"),
        ("--decoder-attention-heads", "5", "--decoder-attention-heads 5 does not divide"),
        ("--activation-dropout", "-0.1", "--activation-dropout -0.1: give 0 or more, below 1"),
    ],
)
def test_bad_options(option, value, message):
    with pytest.raises(ValueError, match=message):
        make_model("macaron_transformer", option, value)


def test_unequal_parameters_are_warned_of_once(caplog):
    caplog.set_level(logging.WARNING)
    make_model("macaron_transformer", "--encoder-ffn-embed-dim", "31")
    assert [record.getMessage()[:40] for record in caplog.records] == [
        "--encoder-ffn-embed-dim 31 is not twice "
    ]
    caplog.clear()
    make_model("macaron_transformer")
    assert not caplog.records


# --- what it inherits ------------------------------------------------------


def test_torchscript():
    """The scripted model computes the same, and searches the same beams token by token."""
    layers = ["--encoder-layers", "1", "--decoder-layers", "1"]
    model = make_model("macaron_transformer", TIED, *layers).eval()
    source, lengths = source_batch()
    target = torch.randint(4, 50, (3, 7))
    full, scripted = (m(source, lengths, target)[0] for m in (model, torch.jit.script(model)))
    assert (full - scripted).abs().max() < 1e-5
    generator = SequenceGenerator([model], Task().target_dictionary, beam_size=3, max_len_b=9)
    sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}}
    ours, theirs = generator(sample), torch.jit.script(generator)(sample)
    for sentence, other in zip(ours, theirs):
        assert [h["tokens"].tolist() for h in sentence] == [h["tokens"].tolist() for h in other]


def test_scripted_training_drops_too():
    layer = make_model("macaron_transformer", TIED, "--dropout", "0.5").encoder.layers[0]
    scripted, x = torch.jit.script(layer.train()), torch.randn(9, 3, 16)
    assert not torch.equal(scripted(x, None), scripted(x, None))


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


def test_alignment():
    """Attention weights of the last layer come with the output and sum to one."""
    model = make_model("macaron_transformer", TIED).eval()
    source, lengths = source_batch()
    _, extra = model(source, lengths, torch.randint(4, 50, (3, 7)))
    weights = extra["attn"][0]
    assert weights.shape == (3, 7, 9)
    assert (weights.sum(-1) - 1).abs().max() < 1e-5
    assert not weights[1, :, :4].any()


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


@pytest.mark.parametrize("option", ["--checkpoint-activations", "--offload-activations"])
def test_activation_checkpointing_changes_no_gradient(option):
    source, lengths = source_batch()
    target = torch.randint(4, 50, (3, 7))
    gradients = []
    for extra in ([], [option]):
        model = make_model("macaron_transformer", TIED, *extra, "--dropout", "0.1")
        torch.manual_seed(3)
        model(source, lengths, target)[0].square().sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        assert torch.allclose(gradient, gradients[1][name], atol=1e-5)


def test_quant_noise_reaches_both_ffns():
    model = make_model("macaron_transformer", TIED, "--quant-noise-pq", "0.5").train()
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        for linear in (layer.macaron_fc1, layer.macaron_fc2, layer.fc1, layer.fc2):
            before = linear.weight.clone()
            linear(torch.randn(2, linear.in_features))
            assert (linear.weight == 0).sum() > (before == 0).sum()


# --- published checkpoints -------------------------------------------------

WIDTH, HEADS, INNER, LAYERS = 16, 4, 16, 2


@contextlib.contextmanager
def fairseq_0_6_names():
    """Meters are pickled as members of the module that they were in."""
    meters.TimeMeter.__module__ = "fairseq.meters"
    yield
    meters.TimeMeter.__module__ = meters.__name__


def published_checkpoint(path, data, arch, normalize_before=True):
    """What the authors' code saves (fairseq 0.6, layer by layer), with random parameters."""
    torch.manual_seed(5)
    words = len(Task().dictionary)
    model = {}

    def add(name, *shape):
        model[name] = torch.randn(shape) * 0.3

    def linear(name, inputs, outputs):
        add(f"{name}.weight", outputs, inputs)
        add(f"{name}.bias", outputs)

    def layer_norm_parameters(name):
        model[f"{name}.weight"] = 1 + torch.randn(WIDTH) * 0.1
        add(f"{name}.bias", WIDTH)

    def attention(name):
        add(f"{name}.in_proj_weight", 3 * WIDTH, WIDTH)
        add(f"{name}.in_proj_bias", 3 * WIDTH)
        linear(f"{name}.out_proj", WIDTH, WIDTH)

    add("encoder.embed_tokens.weight", words, WIDTH)
    model["decoder.embed_tokens.weight"] = model["encoder.embed_tokens.weight"]
    for side, norms in (
        ("encoder", ["layer_norms.0", "layer_norms.1", "layer_norms.2"]),
        ("decoder", [f"{n}_layer_norm" for n in ("self_attn", "encoder_attn", "final", "macaron")]),
    ):
        model[f"{side}.version"] = torch.Tensor([2])
        model[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
        for index in range(LAYERS):
            layer = f"{side}.layers.{index}"
            for name in ("macaron_fc", "fc"):
                linear(f"{layer}.{name}1", WIDTH, INNER)
                linear(f"{layer}.{name}2", INNER, WIDTH)
            for name in norms:
                layer_norm_parameters(f"{layer}.{name}")
            attention(f"{layer}.self_attn")
            if side == "decoder":
                attention(f"{layer}.encoder_attn")
        if normalize_before:
            layer_norm_parameters(f"{side}.layer_norm")
    args = argparse.Namespace(
        task="translation",
        arch=arch,
        data=[str(data)],
        source_lang="de",
        target_lang="en",
        left_pad_source="True",
        left_pad_target="False",
        max_source_positions=1024,
        max_target_positions=1024,
        raw_text=False,
        criterion="label_smoothed_cross_entropy",
        label_smoothing=0.1,
        optimizer="adam",
        adam_betas="(0.9, 0.98)",
        adam_eps=1e-8,
        lr=[0.0015],
        lr_scheduler="inverse_sqrt",
        warmup_updates=8000,
        warmup_init_lr=1e-07,
        min_lr=1e-09,
        macaron=True,
        dropout=0.3,
        attention_dropout=0.1,
        relu_dropout=0.1,
        share_all_embeddings=True,
        share_decoder_input_output_embed=True,
        no_token_positional_embeddings=False,
        adaptive_softmax_cutoff=None,
        adaptive_softmax_dropout=0,
        decoder_input_dim=WIDTH,
        decoder_output_dim=WIDTH,
        **{
            f"{side}_{name}": value
            for side in ("encoder", "decoder")
            for name, value in dict(
                embed_path=None,
                embed_dim=WIDTH,
                ffn_embed_dim=INNER,
                layers=LAYERS,
                attention_heads=HEADS,
                normalize_before=normalize_before,
                learned_pos=False,
            ).items()
        },
    )
    with fairseq_0_6_names():
        torch.save(
            {
                "args": args,
                "model": model,
                "optimizer_history": [
                    {
                        "criterion_name": "LabelSmoothedCrossEntropyCriterion",
                        "optimizer_name": "FairseqAdam",
                        "lr_scheduler_state": {"best": 4.0},
                        "num_updates": 10,
                    }
                ],
                "last_optimizer_state": None,
                "extra_state": {
                    "train_iterator": {"epoch": 1, "iterations_in_epoch": 10},
                    "val_loss": 4.0,
                    "train_meters": {"wall": meters.TimeMeter()},
                },
            },
            path,
        )
    return model


def plain_forward(state, source, target, normalize_before):
    """The authors' model, one pair of sentences without padding, from its parameters alone."""

    def linear(name, x):
        return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def normalize(name, x):
        norm = argparse.Namespace(
            weight=state[f"{name}.weight"], bias=state[f"{name}.bias"], eps=1e-5
        )
        return layer_norm(norm, x)

    def step(name, x, size, f):
        if normalize_before:
            return x + size * f(normalize(name, x))
        return normalize(name, x + size * f(x))

    def attention(name, x, y, causal):
        projections = state[f"{name}.in_proj_weight"].chunk(3)
        biases = state[f"{name}.in_proj_bias"].chunk(3)
        projected = (z @ w.T + b for z, w, b in zip((x, y, y), projections, biases))
        heads = []
        for q, k, v in zip(*(z.chunk(HEADS, -1) for z in projected)):
            scores = q @ k.T / math.sqrt(WIDTH // HEADS)
            if causal:
                scores = scores + torch.full_like(scores, -math.inf).triu(1)
            heads.append(scores.softmax(-1) @ v)
        return linear(f"{name}.out_proj", torch.cat(heads, -1))

    def attend(name, memory=None, causal=False):
        return lambda x: attention(name, x, x if memory is None else memory, causal)

    def ffn(name):
        return lambda x: linear(f"{name}2", linear(f"{name}1", x).relu())

    def embed(tokens):
        positions = torch.arange(PAD + 1, PAD + 1 + len(tokens))
        waves = torch.exp(torch.arange(WIDTH // 2) * -(math.log(10000) / (WIDTH // 2 - 1)))
        angles = positions[:, None] * waves
        x = math.sqrt(WIDTH) * state["encoder.embed_tokens.weight"][tokens]
        return x + torch.cat([angles.sin(), angles.cos()], 1)

    x = embed(source)
    for index in range(LAYERS):
        layer = f"encoder.layers.{index}"
        x = step(f"{layer}.layer_norms.2", x, 0.5, ffn(f"{layer}.macaron_fc"))
        x = step(f"{layer}.layer_norms.0", x, 1, attend(f"{layer}.self_attn"))
        x = step(f"{layer}.layer_norms.1", x, 0.5, ffn(f"{layer}.fc"))
    memory = normalize("encoder.layer_norm", x) if normalize_before else x
    x = embed(target)
    for index in range(LAYERS):
        layer = f"decoder.layers.{index}"
        x = step(f"{layer}.macaron_layer_norm", x, 0.5, ffn(f"{layer}.macaron_fc"))
        attention_of_source = attend(f"{layer}.encoder_attn", memory)
        x = step(f"{layer}.self_attn_layer_norm", x, 1, attend(f"{layer}.self_attn", causal=True))
        x = step(f"{layer}.encoder_attn_layer_norm", x, 1, attention_of_source)
        x = step(f"{layer}.final_layer_norm", x, 0.5, ffn(f"{layer}.fc"))
    x = normalize("decoder.layer_norm", x) if normalize_before else x
    return x @ state["encoder.embed_tokens.weight"].T


def halve(state, key):
    state[key] = state[key][: len(state[key]) // 2]


@pytest.fixture
def dictionaries(tmp_path):
    for language in ("de", "en"):
        Task().dictionary.save(str(tmp_path / f"dict.{language}.txt"))
    return tmp_path


@pytest.mark.parametrize(
    "arch",
    [
        "transformer_iwslt_de_en_macaron_v2",
        "transformer_wmt_en_de_macaron_v2",
        "transformer_wmt_en_de_big_t2t_macaron",
    ],
)
@pytest.mark.parametrize("normalize_before", [True, False])
def test_checkpoints_with_the_released_names_load(dictionaries, arch, normalize_before):
    """What fairseq-generate loads computes what the authors' code computes."""
    path = dictionaries / "checkpoint.pt"
    state = published_checkpoint(path, dictionaries, arch, normalize_before)
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    model.eval()
    source, target = torch.randint(4, 50, (1, 9)), torch.randint(4, 50, (1, 7))
    ours, _ = model(source, torch.tensor([9]), target)
    assert (
        ours[0] - plain_forward(state, source[0], target[0], normalize_before)
    ).abs().max() < 1e-4


@pytest.mark.parametrize(
    "key, message",
    [
        ("decoder.layers.1.macaron_fc1.bias", "decoder.layers.1.macaron_fc1.bias"),
        ("encoder.layers.0.layer_norms.2.weight", "encoder.layers.0.macaron_layer_norm.weight"),
        ("decoder.layers.0.encoder_attn.in_proj_weight", "decoder.layers.0.encoder_attn.k_proj"),
    ],
)
@pytest.mark.parametrize("damage", [lambda state, key: state.pop(key), halve])
def test_damaged_published_checkpoint_names_the_key(dictionaries, damage, key, message):
    path = dictionaries / "checkpoint.pt"
    published_checkpoint(path, dictionaries, "transformer_iwslt_de_en_macaron_v2")
    saved = torch.load(path)
    damage(saved["model"], key)
    torch.save(saved, path)
    with pytest.raises(ValueError, match=f"does not fit its model.*{message}"):
        checkpoint_utils.load_model_ensemble_and_task([str(path)])


@pytest.mark.parametrize("damage", [lambda state, key: state.pop(key), halve])
def test_every_parameter_of_a_published_layer_is_asked_for(dictionaries, damage):
    path = dictionaries / "checkpoint.pt"
    published_checkpoint(path, dictionaries, "transformer_iwslt_de_en_macaron_v2")
    saved = torch.load(path)
    for key in [key for key in saved["model"] if ".layers.0." in key]:
        state = dict(saved["model"])
        damage(state, key)
        torch.save({**saved, "model": state}, path)
        with pytest.raises(ValueError, match="does not fit its model"):
            checkpoint_utils.load_model_ensemble_and_task([str(path)])


# --- language model --------------------------------------------------------


def make_lm(*extra):
    return make_model(
        "macaron_transformer_lm", "--task", "language_modeling", *extra, sizes=LM_SIZES
    )


def test_language_model_keeps_fairseq_s_embeddings():
    """Adaptive input and softmax, with tied weights, are fairseq's."""
    adaptive = "--adaptive-input --adaptive-input-cutoff 20,30 --adaptive-softmax-cutoff 20,30"
    model = make_lm(*adaptive.split(), "--tie-adaptive-weights")
    assert model.decoder.adaptive_softmax.cutoff == [20, 30, 50]
    assert model.decoder.max_target_positions == 1024
    assert len(model.decoder.layers) == 6
    assert all(hasattr(layer, "macaron_fc1") for layer in model.decoder.layers)


@pytest.mark.parametrize("option", ["--scale-fc", "--scale-resids"])
def test_options_for_one_ffn_are_refused(option):
    with pytest.raises(ValueError, match=option):
        make_lm(option)
