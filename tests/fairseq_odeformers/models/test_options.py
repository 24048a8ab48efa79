"""Options of models: what they change, and values that are refused."""

from dataclasses import replace

import pytest
import torch
from helpers import (
    Task,
    call,
    make_any,
    make_classifier,
    make_model,
    model_config,
    small,
    source_batch,
)
from omegaconf import OmegaConf

from fairseq_odeformers.criterions.arclength import with_arclength
from fairseq_odeformers.models.node_transformer.solver import Adaptive, FixedGrid

# In each line the last option is at fault; the message names it with its value.
REFUSED = {
    "macaron_transformer": ["--quant-noise-scalar 0.5", "--decoder-attention-heads 5"],
    "macaron_transformer_lm": ["--scale-fc", "--scale-resids"],
    "macaron_bert_base": ["--spectral-norm-classification-head"],
    "macaron_classifier": ["--classifier-hidden-layers -1"],
    "transformer_classifier": ["--quant-noise-scalar 0.1"],
    "transformer_classifier_rezero": ["--encoder-normalize-before"],
    "transformer_classifier_orthogonal": ["--quant-noise-pq 0.5"],
    "transformer_classifier_linear": ["--attention-dropout 0.1"],
    "transformer_modern": [
        "--encoder-attention-heads 16",
        "--decoder-attention-heads 16",
        "--encoder-ffn-embed-dim 0",
        "--decoder-embed-dim 32",
    ],
    "transformer_classifier_modern": ["--encoder-attention-heads 16"],
    "transformer_lm_modern": ["--decoder-attention-heads 16", "--decoder-ffn-embed-dim -8"],
    "transformer_lm_prenorm": ["--decoder-attention-heads 3"],
    "transformer_lm_rezero": ["--decoder-attention-heads 3"],
    "transformer_lm_orthogonal": ["--quant-noise-pq 0.5"],
    "vanilla_transformer": ["--encoder-attention-heads 4 --encoder-embed-dim 9"],
    "ot_transformer": [
        "--ode-steps 0",
        "--ode-method dopri5",
        "--ode-field residual",
        "--final-norm before",
        "--no-decoder-final-norm",
        "--encoder-layers-to-keep 0,1",
    ],
    "ot_transformer_lm": ["--decoder-layers-to-keep 0,1"],
    "ot_transformer_classifier": ["--quant-noise-scalar 0.1", "--encoder-layers-to-keep 0,1"],
    "transevolve_classifier": ["--encoder-depth 0"],
    "transevolve": [
        "--encoder-attention-heads 1 --decoder-attention-heads 1 --time-dim 7",
        "--time-dim 10 --encoder-attention-heads 4",
        "--decoder-embed-dim 32",
        "--quant-noise-pq 0.5",
    ],
    "transevolve_lm": [
        "--time-dim 7",
        "--decoder-depth 0",
        "--decoder-attention-heads 3",
        "--cross-attention-value-norm",
    ],
    "transject": [
        "--encoder-embed-dim 15",
        "--encoder-embed-dim 6",
        "--quant-noise-pq 0.5",
        "--checkpoint-activations",
    ],
    "transject_lm": ["--decoder-embed-dim 15", "--decoder-embed-dim 6"],
    "ode_transformer": [
        "--rk-order 5",
        "--rk-order 0",
        "--rk-field layer",
        "--rk-order 4 --rk-coefficients gated",
        "--rk-order 1 --rk-coefficients learned",
        "--rk-coefficients free",
    ],
    "ode_transformer_wmt_en_de_rk4": ["--rk-coefficients gated"],
    "ode_transformer_lm": ["--rk-order 3 --rk-coefficients gated"],
    "ode_transformer_classifier": ["--rk-order 5", "--quant-noise-scalar 0.1"],
    "yuriiformer": [
        "--velocity rest",
        "--nu 2",
        "--encoder-layerdrop 0.1",
        "--decoder-layers-to-keep 0,2",
        "--no-encoder-normalize-before",
        "--cross-self-attention",
    ],
    "tmmformer_lm": ["--scale-heads", "--base-layers 1", "--no-decoder-normalize-before"],
    "tmmformer_classifier": ["--encoder-layerdrop 0.1", "--quant-noise-scalar 0.1"],
    "node_transformer": [
        "--ode-rtol 0.0",
        "--ode-atol -0.5",
        "--ode-final-time 0.0",
        "--ode-max-steps 0",
        "--ode-on-max-steps warn",
        "--adjoint --ode-on-max-steps stop",
        "--arclength-order 4",
        "--ode-method rk4",
        "--ode-method rk4 --ode-steps 0",
        "--ode-steps 5",
        "--tpu --ode-method dopri5",
        "--tpu --ode-method rk4 --ode-steps 2 --adjoint",
        "--adjoint --checkpoint-activations",
        "--adaptivity sequence --adjoint",
        "--vector-field residual --skip-connection",
    ],
    "node_transformer_mt": [
        "--adjoint",
        "--decoder-ode-steps 0",
        "--decoder-embed-dim 32",
        "--ode-method dopri7",
        "--decoder-ode-method dopri5",
        "--quant-noise-pq 0.5",
    ],
    "node_transformer_lm": [
        "--decoder-ode-method dopri5",
        "--decoder-ode-steps 0",
        "--ode-method rk4",
        "--skip-connection",
    ],
}


@pytest.mark.parametrize(
    "arch, line", [(arch, line) for arch, lines in REFUSED.items() for line in lines]
)
def test_bad_options_are_refused(arch, line, capsys):
    """The parser or the model refuses the option and names it with its value."""
    with pytest.raises((ValueError, SystemExit)) as refused:
        make_any(arch, *line.split(), sizes=small(arch))
    (message,) = capsys.readouterr().err.splitlines()[-1:] or [str(refused.value)]
    assert all(word in message for word in line[line.rindex("--") :].split())


@pytest.mark.parametrize("option, value", [("print_alignment", "hard"), ("replace_unk", "")])
@pytest.mark.parametrize("arch", ["transevolve", "node_transformer_mt", "rk2_transformer"])
def test_alignments_that_a_model_lacks_are_refused(page_plugin, arch, option, value):
    config = OmegaConf.create({"generation": {option: value}})
    with pytest.raises(ValueError, match=f"--{option.replace('_', '-')} {value}: this model has"):
        make_model(arch).prepare_for_inference_(config)


@pytest.mark.parametrize("arch", ["transevolve_fullff_2", "node_transformer_mt"])
def test_tied_embeddings_need_one_dictionary(arch):
    with pytest.raises(ValueError, match="50 and 60 symbols"):
        make_model(arch, "--share-all-embeddings", task=Task(50, 60))


@pytest.mark.parametrize("arch", ["macaron_transformer", "macaron_transformer_wmt_en_de_big"])
def test_switches_keep_their_meaning(arch):
    """Options of fairseq's Transformer that are on by default here can be given or turned off."""
    for form, value in (("", True), ("no-", False)):
        sides = ("encoder", "decoder")
        config = model_config(arch, *(f"--{form}{side}-normalize-before" for side in sides))
        assert all(config[f"{side}_normalize_before"] == value for side in sides)
    assert model_config(arch, "--relu-dropout", "0.2").activation_dropout == 0.2


@pytest.mark.parametrize(
    "arch, default",
    [
        ("transevolve_fullff_2", 0.0),  # as in the authors' code
        ("transformer_prenorm", 0.3),
        ("macaron_transformer", 0.3),
        ("macaron_classifier", 0.3),
        ("ode_transformer", 0.3),
        ("transevolve_lm", 0.0),
        ("transformer_lm_prenorm", 0.3),
        ("transformer_modern", 0.3),
        ("macaron_transformer_lm", 0.3),
    ],
)
def test_dropout_of_embeddings_has_its_own_option(arch, default):
    tokens = torch.full((1, 200), 7)
    for extra, p in [((), default), (("--embedding-dropout", "0.2"), 0.2)]:
        model = make_any(arch, "--dropout", "0.3", *extra)
        sides = [side for side in map(model._modules.get, ("encoder", "decoder")) if side]
        assert {side.dropout_module.p for side in sides} == {p}
        if hasattr(model, "encoder"):
            embedded = model.encoder.train().forward_embedding(tokens)[0]
            assert embedded.eq(0).float().mean().item() == pytest.approx(p, abs=0.03)


def test_layers_to_keep_are_the_only_layers():
    model = make_classifier("transformer_classifier", "--encoder-layers-to-keep", "0,2")
    assert len(model.encoder.layers) == 2


def test_the_task_sets_the_longest_input():
    assert make_classifier("macaron_classifier").max_positions() == 64
    assert make_classifier("macaron_classifier", "--max-positions", "9").max_positions() == 9


def test_vanilla_transformer_has_positions_on_request():
    option = "--token-positional-embeddings"
    assert make_classifier("vanilla_transformer").encoder.embed_positions is None
    assert make_classifier("vanilla_transformer", option).encoder.embed_positions is not None


def test_options_reach_the_solver():
    options = "--ode-method bosh3 --ode-rtol 0.1 --ode-atol 0.2 --ode-max-steps 7".split()
    block = make_classifier("node_transformer", *options).encoder.layers[-1]
    solver = Adaptive("bosh3", rtol=0.1, atol=0.2, max_steps=7, per_sequence=True)
    assert block.solver == solver
    options += ["--ode-on-max-steps", "stop"]
    block = make_classifier("node_transformer", *options).encoder.layers[-1]
    assert block.solver == replace(solver, stops=True)


def test_the_decoder_inherits_the_encoders_options():
    model = make_model("transevolve_fullff_2", "--encoder-depth", "2", "--decoder-blocks", "1")
    assert [len(block.depths) for block in model.encoder.layers] == [2, 2]
    assert [len(block.depths) for block in model.decoder.layers] == [2]
    assert model.decoder.layers[0].depths[0].feed_forward[0].out_features == 32
    model = make_model("transevolve_fullff_2", "--encoder-normalize-before")
    assert model.encoder.layer_norm is not None and model.decoder.layer_norm is None


def test_states_without_gradients_are_refused():
    """Each stack returns the states after its blocks, and only the arclength needs the others."""
    model = make_model("transevolve", "--checkpoint-activations")
    tokens, lengths = source_batch()
    encoded = model.encoder(tokens, lengths, return_all_hiddens=True)
    _, decoded = model.decoder(tokens, encoder_out=encoded, return_all_hiddens=True)
    for stack, (_, *states) in (
        (model.encoder, encoded["encoder_states"]),
        (model.decoder, decoded["inner_states"]),
    ):
        assert len(states) == len(stack.layers) < sum(len(b.depths) for b in stack.layers)
        assert all(state.requires_grad for state in states)
    with pytest.raises(ValueError, match="--checkpoint-activations: .* --arclength-weight"):
        with_arclength(model, call(model, tokens, tokens))


def test_quant_noise_reaches_both_ffns():
    model = make_model("macaron_transformer", "--quant-noise-pq", "0.5").train()
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        for linear in (layer.macaron_fc1, layer.macaron_fc2, layer.fc1, layer.fc2):
            before = linear.weight.clone()
            linear(torch.randn(2, linear.in_features))
            assert (linear.weight == 0).sum() > (before == 0).sum()


def test_the_prenorm_language_model_equals_fairseqs():
    """A model of equal parameters gives the same output."""
    ours = make_model("transformer_lm_prenorm").eval()
    widths = "--decoder-input-dim 16 --decoder-output-dim 16".split()
    theirs = make_model("transformer_lm", "--decoder-normalize-before", *widths).eval()
    state = ours.state_dict()
    theirs.load_state_dict({name: state[name] for name in theirs.state_dict()})
    tokens, _ = source_batch()
    assert torch.equal(ours(tokens)[0], theirs(tokens)[0])


@pytest.mark.parametrize("arch", ["transevolve_lm", "node_transformer_lm", "transject_lm"])
def test_a_language_model_has_a_position_per_token_of_a_sample(arch):
    """A model has --tokens-per-sample positions, unless --max-target-positions is given."""
    assert make_model(arch).max_positions() == 1024
    task = ("--tokens-per-sample", "20")
    assert make_model(arch, *task).max_positions() == 20
    assert make_model(arch, *task, "--max-target-positions", "30").max_positions() == 30


def test_embeddings_of_a_language_model_are_shared_on_request():
    model = make_model("transevolve_lm", "--share-decoder-input-output-embed")
    assert model.decoder.output_projection.weight is model.decoder.embed_tokens.weight


def test_options_reach_the_solver_of_a_language_model():
    model = make_model("node_transformer_lm", *"--decoder-ode-method euler".split())
    assert {block.solver for block in model.decoder.layers} == {FixedGrid("euler", 1)}


def test_language_models_keep_fairseqs_embeddings():
    """fairseq's adaptive input and adaptive softmax work with tied weights."""
    adaptive = "--adaptive-input --adaptive-input-cutoff 20,30 --adaptive-softmax-cutoff 20,30"
    adaptive += " --tie-adaptive-weights --criterion adaptive_loss --ddp-backend legacy_ddp"
    model = make_model("macaron_transformer_lm", *adaptive.split())
    assert model.decoder.adaptive_softmax.cutoff == [20, 30, 50]
    assert model.decoder.max_target_positions == 1024
