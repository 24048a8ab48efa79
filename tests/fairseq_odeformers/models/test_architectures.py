"""Every layer, block and norm in a model of each kind: what ``odeformers check`` does not prove."""

import copy
import itertools
import math
import re

import pytest
import torch
from fairseq.modules import FairseqDropout
from fairseq.search import Sampling
from fairseq.sequence_generator import SequenceGenerator
from fairseq.trainer import _catalog_shared_params
from helpers import CLASSIFIERS, EOS, HEAD, PAD, Task, call, make_any, scores, source_batch, wake
from make_checkpoints import PATHS

CLASSIFYING = [
    *("transject", "transject_random", "node_transformer", "vanilla_transformer"),
    *("transformer_classifier", "transformer_classifier_linear", "transformer_classifier_rezero"),
    *("transformer_classifier_orthogonal", "macaron_classifier", "transformer_classifier_modern"),
    *("ot_transformer_classifier --ode-steps 2 --ode-method midpoint", "yuriiformer_classifier"),
]
MASKING = [  # language models that accept texts of padding alone
    *("transevolve_lm_randomff_1_prenorm", "node_transformer_lm", "transject_lm"),
    *("diffeq_transformer_lm", "ot_transformer_lm --ode-steps 2 --ode-method rk4"),
    "transformer_lm_modern",
]
LANGUAGE_MODELS = [
    *("transformer_lm_rezero", "transformer_lm_orthogonal", "transject_lm_random"),
    *("ode_transformer_lm --dense-history", "ode_transformer_lm --rk-order 4 --rk-field released"),
    *("ode_transformer_lm --rk-coefficients learned", "pcformer_lm --rk-norm-slopes", *MASKING),
    *("yuriiformer_lm", "tmmformer_lm --velocity embedding --decoder-learned-pos"),
]
TRANSLATING = [
    *("transevolve_fullff_2_prenorm", "transevolve_randomff_1_prenorm"),
    "transevolve --self-attention-value-projection --cross-attention-value-norm "
    "--cross-attention-value-projection",
    *("macaron_transformer", "macaron_transformer --cross-self-attention --no-cross-attention"),
    *("node_transformer_mt", "diffeq_transformer", "ode_transformer", "transformer_modern"),
    *("pcformer --rk-norm --alpha-per-layer", "ot_transformer --ode-steps 2"),
    *("yuriiformer --velocity embedding", "tmmformer"),
]
DECODING = [*TRANSLATING, *LANGUAGE_MODELS]
EVERY = [*CLASSIFYING, "macaron_bert", *DECODING]
HEADS = [  # on encoders and decoders of those above
    *("transevolve_classifier_fullff_2", "ode_transformer_classifier", "pcformer_classifier"),
    *("diffeq_transformer_classifier", "macaron_transformer_lm", "tmmformer_classifier"),
]
every = pytest.mark.parametrize("line", EVERY)
decoding = pytest.mark.parametrize("line", DECODING)
classifying = pytest.mark.parametrize("line", CLASSIFYING)


def build(line, *extra, **options):
    """A small model from an architecture and options; with tied embeddings if it translates."""
    tied = ["--share-all-embeddings"] * (line in TRANSLATING)
    # Initially randomFF adds almost nothing.
    return wake(make_any(*line.split(), *tied, *extra, **options), std=2 if tied else 0.5)


def batch():
    """Sources, two of them padded on the left, and targets, one of them padded on the right."""
    source, _ = source_batch()
    target = torch.randint(4, 50, (3, 7))
    target[1, 4:] = PAD
    return source, target


def outputs(model, source, target):
    """The model's outputs for each text: a row of scores, or one per token."""
    out = model(**call(model, source, target))[0]
    if out.dim() == 2:
        return list(out)
    tokens = target if out.size(1) == target.size(1) else source
    return [row[text != PAD] for row, text in zip(out, tokens)]


def loss(out, extra):
    """The loss, with the regularisers of models that have them."""
    regularizers = extra.get("regularizers", {}).values()
    return out.float().square().mean() + sum(value.sum() for value in regularizers)


# --- visible tokens ------------------------------------------------------------------


@pytest.mark.parametrize("line", [*CLASSIFYING, "macaron_bert", *TRANSLATING])
def test_padding_changes_nothing(line):
    """Padding on either side and beyond the longest text leaves the outputs unchanged."""
    model = build(line, *["--pooling", "mean"] * (line in CLASSIFIERS)).eval()
    left, target = batch()
    right = torch.stack([torch.cat([row[row != PAD], row[row == PAD]]) for row in left])
    longer = torch.nn.functional.pad(right, (0, 2), value=PAD)
    expected, *padded = (outputs(model, source, target) for source in (right, left, longer))
    for other in padded:
        for ours, theirs in zip(other, expected):
            assert (ours - theirs).abs().max() < 1e-5


@classifying
def test_a_joined_pair_is_read_as_one_text(line):
    """A joined pair gives the scores of one text, without padding between its parts."""
    task = Task()
    task.towers = 2
    model = build(line, "--pair-encoding", "joined", task=task).eval()
    longest = model.max_positions()
    first, second = torch.randint(4, 50, (2, 2, longest))
    first[1, longest // 2 :] = second[0, 4:] = PAD
    for n, score in enumerate(scores(model, first, second)):
        text = torch.cat([first[n], second[n]])
        assert (score - scores(model, text[text != PAD].unsqueeze(0))[0]).abs().max() < 1e-5


@classifying
def test_every_token_affects_the_scores(line):
    """Any changed token changes the scores; with positions, the order of the tokens does, too."""
    model, tokens = build(line).eval(), torch.randint(4, 50, (1, 8))
    before = scores(model, tokens)
    for index in range(8):
        changed = tokens.clone()
        changed[0, index] = (tokens[0, index] + 1) % 46 + 4
        assert (scores(model, changed) - before).abs().max() > 1e-6
    if getattr(model.encoder, "embed_positions", True) is not None:
        assert (scores(model, tokens.flip(1)) - before).abs().max() > 1e-5


@pytest.mark.parametrize("line", EVERY)
def test_hidden_states_are_the_inputs_of_layers(line):
    """Every layer or depth has a state; the last is the output before a final LayerNorm."""
    model, inputs = build(line).eval(), []
    stack = getattr(model, "encoder", None) or model.decoder
    stack = getattr(stack, "sentence_encoder", stack)
    layers = [depth for layer in stack.layers for depth in getattr(layer, "depths", [layer])]
    for layer in layers:
        layer.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    out = stack(batch()[0], return_all_hiddens=True)
    states = out["encoder_states"] if isinstance(out, dict) else out[1]["inner_states"]
    assert len(states) == len(inputs) + 1 == len(layers) + 1
    for state, own in zip(states, inputs):
        assert torch.equal(state, own) or torch.equal(state.transpose(0, 1), own)
    if isinstance(out, dict):
        norm = getattr(stack, "layer_norm", None) or torch.nn.Identity()
        assert torch.equal(norm(states[-1]), out["encoder_out"][0])


# --- training ------------------------------------------------------------------------


@pytest.mark.parametrize("line", [*EVERY, *HEADS])
def test_every_parameter_gets_a_gradient_in_mixed_precision(line):
    model = build(line)
    with torch.autocast("cpu", torch.bfloat16):
        out, extra = model(**call(model, *batch()))
    loss(out, extra).backward()
    assert out.isfinite().all()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all() and parameter.grad.any(), name


@pytest.mark.parametrize("line", [*CLASSIFYING, "macaron_bert", *TRANSLATING, *MASKING])
def test_a_text_of_padding_alone_stays_finite(line):
    """Beside other texts such a text has finite outputs and gradients, also in evaluation."""
    model, (source, target) = build(line), batch()
    source[1] = PAD
    target = source if line in MASKING else target
    for dtype, training in itertools.product((torch.float32, torch.bfloat16), (False, True)):
        model.to(dtype).zero_grad()
        out, extra = model.train(training)(**call(model, source, target))
        assert out.isfinite().all()
        loss(out, extra).backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("line", [line for line in [*EVERY, *HEADS] if "transject" not in line])
def test_each_branch_is_dropped_once(line):
    """Inputs of a dropout have no zeros, and each output is zero with probability p."""
    p, calls = 0.5, []
    model = build(line, "--dropout", str(p)).train()
    for module in model.modules():
        if isinstance(module, FairseqDropout) and module.p == p:
            module.register_forward_hook(lambda _, args, out: calls.append((args[0], out)))
    tokens = torch.randint(4, 50, (8, 20))
    model(**call(model, tokens, tokens))
    assert len(calls) >= 4  # two branches of two layers
    for x, out in calls:
        assert x.eq(0).float().mean() < 0.01
        deviation = (p * (1 - p) / x.numel()) ** 0.5
        assert abs(out.eq(0).float().mean() - p) < 6 * deviation


@every
def test_each_dropout_can_be_retained_in_generation(line):
    """``--retain-dropout-modules`` selects dropouts by their modules' class."""
    dropouts = [m for m in build(line).modules() if isinstance(m, FairseqDropout)]
    names = {dropout.module_name for dropout in dropouts}
    assert None not in names
    for name in names:
        for dropout in dropouts:
            dropout.apply_during_inference = False
            dropout.make_generation_fast_("", True, [name])
        assert {m.module_name for m in dropouts if m.apply_during_inference} == {name}


@pytest.mark.parametrize(
    "line, option",
    [
        *(
            (line, "--checkpoint-activations")
            for line in EVERY
            if not re.search("transject|cross-self", line)
        ),
        ("node_transformer_mt --arclength-order 2 --ode-steps 1", "--checkpoint-activations"),
        ("node_transformer_mt --adaptivity batch", "--checkpoint-activations"),
        ("macaron_transformer", "--offload-activations"),
    ],
)
def test_activation_checkpointing_changes_no_gradient(line, option):
    """Checkpointing saves fewer tensors, and the gradients, also of a regulariser, are the same."""
    results, kept = [], []
    for extra in ([], [option]):
        model, saved = build(line, *extra, "--dropout", "0.1"), []
        inputs = call(model, *batch())
        torch.manual_seed(3)
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor, saved=saved: saved.append(0) or tensor, lambda tensor: tensor
        ):
            out, more = model(**inputs)
        kept.append(len(saved))
        loss(out, more).backward()
        results.append([parameter.grad for parameter in model.parameters()])
    for ours, theirs in zip(*results):
        assert torch.allclose(ours, theirs, atol=1e-5)
    assert kept[1] < kept[0]


# --- decoding ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line, kind",
    [
        *((line, "ensemble") for line in DECODING),
        *((line, "sampling") for line in ("transevolve_fullff_2_prenorm", "transject_lm")),
    ],
)
def test_generation_equals_full_decoding(line, kind):
    """fairseq's generator continues each prefix with the probabilities of full decoding.

    Models are single models and an ensemble of two; beams are reordered.
    """
    models, dictionary = [build(line)], Task().target_dictionary
    if kind == "ensemble":
        models.append(copy.deepcopy(models[0]))
        for parameter in models[1].parameters():
            parameter.data.mul_(1.2)
    search = Sampling(dictionary, sampling_topk=5) if kind == "sampling" else None
    generator = SequenceGenerator(
        models, dictionary, beam_size=3, max_len_b=7, search_strategy=search
    )
    source, _ = batch()
    prefix = torch.tensor([[EOS, 7, 8, 9], [EOS, 10, PAD, PAD], [EOS, 11, PAD, PAD]])
    tokens = source if line in TRANSLATING else prefix
    inputs = {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}
    hypotheses = generator.generate(models, {"net_input": inputs}, prefix_tokens=prefix[:, 1:])
    for number, (row, texts) in enumerate(zip(prefix, hypotheses)):
        forced = row[row != PAD][1:]
        for text in texts:
            tokens = text["tokens"]
            assert torch.equal(tokens[: len(forced)], forced)
            before = torch.cat([row[:1], tokens[:-1]]).unsqueeze(0)
            own = source[number : number + 1]
            lprobs = torch.stack(
                [model(**call(model, own, before))[0].log_softmax(-1)[0] for model in models]
            ).logsumexp(0) - math.log(len(models))
            likely = lprobs.gather(1, tokens.unsqueeze(1)).squeeze(1)
            assert (likely - text["positional_scores"])[len(forced) :].abs().max() < 1e-4


# --- classifiers ---------------------------------------------------------------------


@classifying
def test_the_encoder_of_another_task_is_loaded(line, caplog):
    """The encoder and heads that fit are loaded; other heads keep their initial values."""
    old, new, same = (build(line, classes=classes) for classes in (3, 5, 3))
    old.register_classification_head("other", num_classes=2)
    new.load_state_dict(old.state_dict())
    assert "classification_heads.other.out_proj.weight" in caplog.text
    assert new.classification_heads[HEAD].out_proj.out_features == 5
    tokens = torch.randint(4, 50, (2, 8))
    states, _ = old.eval()(tokens)
    assert states.shape == (2, 8, 16)
    assert torch.equal(states, new.eval()(tokens)[0])
    torch.nn.init.normal_(old.classification_heads[HEAD].out_proj.weight)
    same.load_state_dict(old.state_dict())
    assert torch.equal(scores(old, tokens), scores(same.eval(), tokens))


@pytest.mark.parametrize("arch", [name for name in PATHS if "." not in name])
def test_building_a_model_logs_only_warnings(arch, caplog):
    """The trainer would print a line for each missing bias, as for a shared parameter."""
    if "bert" in arch:
        pytest.skip("fairseq's own layers around")
    with caplog.at_level("INFO"):
        model = make_any(arch)
    ours = [record for record in caplog.records if record.name.startswith("fairseq_odeformers")]
    assert all(record.levelname == "WARNING" for record in ours)
    for paths in _catalog_shared_params(model):
        first = model
        for name in paths[0].split("."):
            first = getattr(first, name)
        assert first is not None, paths
