"""The N-ODE Transformer as fairseq models: sizes, options, what is logged."""

import pytest
import torch
from fairseq.logging import metrics
from helpers import HEAD, PAD, SMALL, Task, make_classifier, make_model, scores, source_batch

from fairseq_odeformers.criterions.sequence_classification import (
    SequenceClassificationConfig,
    SequenceClassificationCriterion,
)
from fairseq_odeformers.models.node_transformer.solver import Adaptive

NODE, MT = "node_transformer", "node_transformer_mt"
GRID = "--ode-method rk4 --ode-steps 2"


def count(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("dim, layers", [(4, 1), (8, 2), (10, 4)])
def test_parameters_are_those_of_the_vanilla_transformer(dim, layers):
    """Of sizes in Table 1: there are also c of both maps of each FFN, or of all six maps."""
    size = ["--encoder-embed-dim", str(dim), "--encoder-layers", str(layers)]
    vanilla = make_classifier("vanilla_transformer", sizes=size)
    node = make_classifier(NODE, sizes=size)
    timed = make_classifier(NODE, "--time-dependent-attention", sizes=size)
    assert count(node) - count(vanilla) == layers * 2 * dim
    assert count(timed) - count(vanilla) == layers * 6 * dim
    field = node.encoder.layers[0].field
    assert field.self_attn.num_heads == vanilla.encoder.layers[0].self_attn.num_heads == dim // 2


def test_one_euler_step_of_the_residual_field_is_a_vanilla_layer():
    """From t = 0, where c has no effect (section 7, Eqs. 1 and 9)."""
    vanilla = make_classifier("vanilla_transformer", sizes=[]).eval()
    euler = "--vector-field residual --ode-method euler --ode-steps 1".split()
    node = make_classifier(NODE, *euler, sizes=[]).eval()
    state = vanilla.state_dict()
    for name in list(state):
        for old, new in (("self_attn.", "field.self_attn."), ("_proj", ""), ("fc", "field.fc")):
            if name.startswith("encoder.layers."):
                state[name.replace(old, new, 1)] = state.pop(name)
                name = name.replace(old, new, 1)
    missing = node.load_state_dict(state, strict=False)
    assert {name.split(".")[-1] for name in missing.missing_keys} == {"time"}
    tokens, _ = source_batch()
    assert (scores(node, tokens) - scores(vanilla, tokens)).abs().max() < 1e-6


def test_options_reach_the_solver():
    options = "--ode-method bosh3 --ode-rtol 0.1 --ode-atol 0.2 --ode-max-steps 7 --adaptivity"
    block = make_classifier(NODE, *options.split(), "sequence", sizes=[]).encoder.layers[-1]
    assert block.solver == Adaptive("bosh3", rtol=0.1, atol=0.2, max_steps=7, per_sequence=True)


def test_hidden_states_are_those_of_the_blocks():
    encoder = make_classifier(NODE, "--encoder-layers", "3").encoder.eval()
    tokens, lengths = source_batch()
    out = encoder(tokens, lengths, return_all_hiddens=True)
    assert len(out["encoder_states"]) == 4
    x = out["encoder_states"][0]
    for block, state in zip(encoder.layers, out["encoder_states"][1:]):
        x, _ = block(x, tokens.eq(PAD))
        assert torch.equal(x, state)


def test_what_is_logged():
    """Means over sequences of the arclength and of each block's evaluations and steps."""
    tokens, lengths = source_batch()
    sample = {
        "net_input": {"src_tokens": tokens, "src_lengths": lengths},
        "target": torch.tensor([[0], [1], [2]]),
        "ntokens": 22,
    }
    model = make_classifier(NODE)
    config = SequenceClassificationConfig(arclength_weight=0.5)
    criterion = SequenceClassificationCriterion(config, Task())
    loss, _, output = criterion(model, sample)
    _, extra = model(tokens, lengths, classification_head_name=HEAD)
    arclength = extra["regularizers"]["arclength"]
    assert torch.allclose(loss - output["cross_entropy"], 0.5 * arclength.sum(), rtol=1e-4)
    with metrics.aggregate(new_root=True) as values:
        criterion.reduce_metrics([output, output])
    shown = values.get_smoothed_values()
    assert shown["arclength"] == pytest.approx(arclength.mean().item(), rel=1e-3)
    for block in (1, 2):
        nfe, accepted, rejected = (
            shown[f"encoder_{name}_{block}"] for name in ("nfe", "accepted", "rejected")
        )
        assert nfe == pytest.approx(2 + 6 * (accepted + rejected), abs=1e-3)
        assert accepted > 1
    _, _, output = criterion(model.eval(), sample)
    assert "_mean_encoder_nfe_1" in output and "_mean_arclength" not in output


def test_both_sides_of_a_translation_are_regularized():
    model = make_model(MT)
    source, lengths = source_batch()
    _, extra = model(source, lengths, torch.randint(4, 50, (3, 7)))
    encoder_out = model.encoder(source, lengths)
    assert (extra["regularizers"]["arclength"] > encoder_out["regularizers"]["arclength"]).all()
    assert extra["statistics"]["decoder_nfe_3"].tolist() == [4.0] * 3
    assert extra["statistics"]["encoder_nfe_3"].tolist() == [8.0] * 3
    model.decoder.eval()  # as if it were frozen
    _, extra = model(source, lengths, torch.randint(4, 50, (3, 7)))
    assert (extra["regularizers"]["arclength"] > 0).all()


@pytest.mark.parametrize("options", ["", "--arclength-order 2", "--adaptivity batch"])
def test_activation_checkpointing_of_both_sides(options):
    """Gradients are the same, of the arclength too, and nothing of the steps is kept."""
    tokens, lengths = source_batch()
    gradients, kept = [], []
    for extra in ([], ["--checkpoint-activations"]):
        extra += "--dropout 0.1 --encoder-layers 1 --decoder-layers 1".split()
        model = make_model(MT, *options.split(), *extra, sizes=SMALL).train()
        saved = []
        torch.manual_seed(2)
        with torch.autograd.graph.saved_tensors_hooks(saved.append, lambda _: _):
            model(tokens, lengths, tokens)
        kept.append(len(saved))
        torch.manual_seed(2)
        scores, extra = model(tokens, lengths, tokens)
        (scores.square().mean() + extra["regularizers"]["arclength"].sum()).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(map(torch.equal, *gradients))
    assert kept[1] < kept[0] / 5


def test_a_translator_s_states_of_a_sentence_do_not_depend_on_its_batch():
    """By default; with steps of the batch they do, by about the tolerance."""
    tokens, lengths = source_batch()
    changes = {}
    for options in ("", "--adaptivity batch"):
        encoder = make_model(MT, *options.split(), sizes=SMALL).eval().encoder
        together = encoder(tokens, lengths)["encoder_out"][0]
        changes[options] = max(
            (encoder(tokens[i : i + 1, -n:], lengths[i : i + 1])["encoder_out"][0][:, 0] - own)
            .abs()
            .max()
            .item()
            for i, n in enumerate(lengths.tolist())
            for own in [together[-n:, i]]
        )
    assert changes[""] < 1e-5 < changes["--adaptivity batch"]


def test_errors_name_block_batch_step_and_remedy():
    model = make_classifier(NODE, "--ode-max-steps", "1", "--adaptivity", "batch")
    where = r"encoder block 1, a batch of 3 x 9 tokens, step 2 at t = 0\.\d+ of 1"
    message = f"^{where}: a solve may take 1 steps; give more with --ode-max-steps, "
    with pytest.raises(RuntimeError, match=message):
        scores(model, source_batch()[0])


@pytest.mark.parametrize(
    "arch, options, message",
    [
        (NODE, "--ode-rtol 0", "--ode-rtol 0.0"),
        (NODE, "--ode-rtol inf", "--ode-rtol inf"),
        (NODE, "--ode-atol=-1e-5", "--ode-atol -1e-05"),
        (NODE, "--ode-atol nan", "--ode-atol nan"),
        (NODE, "--ode-final-time 0", "--ode-final-time 0.0"),
        (NODE, "--ode-max-steps 0", "--ode-max-steps 0"),
        (NODE, "--arclength-order 4", "--arclength-order 4"),
        (NODE, "--dropout 1", "--dropout 1.0"),
        (NODE, "--encoder-embed-dim 9", "--encoder-attention-heads 4: .*--encoder-embed-dim 9"),
        (NODE, "--ode-method rk4", "--ode-method rk4: give --ode-steps"),
        (NODE, "--ode-method rk4 --ode-steps 0", "--ode-steps 0: give at least 1"),
        (NODE, "--ode-steps 5", "--ode-steps 5: --ode-method dopri5 .* one of euler, "),
        (NODE, "--tpu", "--ode-method dopri5: .* one of euler, .* with --ode-steps"),
        (NODE, f"--tpu {GRID} --adjoint", "--adjoint: .* XLA"),
        (NODE, "--adjoint --checkpoint-activations", "--checkpoint-activations: --adjoint "),
        (NODE, "--adjoint --adaptivity sequence", "--adjoint: .*--adaptivity batch"),
        (MT, "--adjoint", "--adjoint: .*--adaptivity batch"),
        (NODE, "--vector-field residual --skip-connection", "--skip-connection: --vector-field"),
        (MT, "--ode-rtol 0", "--ode-rtol 0.0"),
        (MT, "--decoder-ode-steps 0", "--decoder-ode-steps 0: give at least 1"),
        (MT, "--decoder-embed-dim 32", "--encoder-embed-dim 16 and --decoder-embed-dim 32"),
        (MT, "--decoder-attention-heads 3", "--decoder-attention-heads 3: "),
        (MT, "--decoder-ffn-embed-dim 0", "--decoder-ffn-embed-dim 0"),
    ],
)
def test_bad_options(arch, options, message):
    small = SMALL if arch == MT else []
    with pytest.raises(ValueError, match=message):
        make_model(arch, *options.split(), sizes=small)


@pytest.mark.parametrize("option", ["--ode-method", "--decoder-ode-method"])
def test_the_decoder_has_fixed_grids_alone(option, capsys):
    with pytest.raises(SystemExit):
        make_model(MT, option, "dopri7")
    error = capsys.readouterr().err
    assert f"argument {option}: " in error
    assert ("did you mean dopri" in error.splitlines()[-1]) == (option == "--ode-method")
