"""The arclength of models that compute their states layer by layer."""

import re
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import (
    CLASSIFIERS,
    EOS,
    HEAD,
    PAD,
    Task,
    make_classifier,
    make_lm,
    make_model,
    wake,
)

import fairseq_odeformers
from fairseq_odeformers.criterions.arclength import discrete_arclength
from fairseq_odeformers.criterions.label_smoothed_cross_entropy_with_regularizers import (
    RegularizedCrossEntropyConfig,
    RegularizedCrossEntropyCriterion,
)
from fairseq_odeformers.criterions.regularizers import MEAN
from fairseq_odeformers.criterions.sequence_classification import (
    SequenceClassificationConfig,
    SequenceClassificationCriterion,
)
from fairseq_odeformers.models.node_transformer.block import NodeBlock
from fairseq_odeformers.models.node_transformer.field import FieldSpec, TransformerField
from fairseq_odeformers.models.node_transformer.layout import features_first, tokens_first
from fairseq_odeformers.models.node_transformer.solver import FixedGrid

OURS = [
    arch
    for arch, model in ARCH_MODEL_REGISTRY.items()
    if model.__module__.startswith(fairseq_odeformers.__name__ + ".")
]
ODE = [arch for arch in OURS if arch.startswith("node_transformer")]
LANGUAGE_MODELS = [arch for arch in OURS if re.search("_lm", arch)]
BERT = [arch for arch in OURS if "bert" in arch]
TRANSLATION = sorted({*OURS} - {*CLASSIFIERS, *LANGUAGE_MODELS, *BERT, *ODE})
LAYERED = [
    *(arch for arch in CLASSIFIERS if arch not in ODE),
    *(arch for arch in (*LANGUAGE_MODELS, *BERT, *TRANSLATION)),
    *("transformer", "transformer_lm", "roberta_prenorm"),
]
ARCHITECTURES = [arch for arch in LAYERED if not re.search("wmt|big|iwslt", arch)]


def make(arch):
    """A model of six layers or more without dropout whose layers all change their input."""
    options = ["--dropout", "0", "--attention-dropout", "0"]
    options *= not arch.startswith(("transject", "node"))
    if arch.startswith("macaron"):
        options += ["--activation-dropout", "0"]
    if arch in CLASSIFIERS:
        model = make_classifier(arch, *options)
    elif "_lm" in arch:
        model = make_lm(arch, *options)
    elif "bert" in arch:
        options += ["--task", "masked_lm", "--max-positions", "64"]
        model = make_model(arch, *options, task=Masked())
        model.register_classification_head(HEAD, num_classes=3)
    else:
        model = make_model(arch, *options)
    return wake(model)


class Masked(Task):
    cfg = SimpleNamespace(tokens_per_sample=64)


def make_sample(arch, rows=slice(None), padding=0):
    """Two sentences, the second of them padded; some of them, with more padding."""
    torch.manual_seed(2)
    source, target = torch.randint(4, 50, (2, 7)), torch.randint(4, 50, (2, 6))
    source[1, 4:], target[1, 5:] = PAD, PAD
    source[0, -1] = source[1, 3] = EOS
    source, target = (F.pad(tokens[rows], (0, padding), value=PAD) for tokens in (source, target))
    inputs = {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}
    sample = {"net_input": inputs, "ntokens": 9, "target": torch.ones(len(source), 1).long()}
    if "_lm" in arch:
        sample["target"] = source
    elif arch not in CLASSIFIERS and "bert" not in arch:
        inputs["prev_output_tokens"] = sample["target"] = target
    return sample


def make_criterion(arch, **options):
    if arch in CLASSIFIERS or "bert" in arch:
        task = SimpleNamespace(label_dictionary=None)
        return SequenceClassificationCriterion(SequenceClassificationConfig(**options), task)
    config = RegularizedCrossEntropyConfig(sentence_avg=False, **options)
    return RegularizedCrossEntropyCriterion(config, Task())


def logged(model, arch, sample):
    """The arclength of the texts of a sample, summed."""
    criterion = make_criterion(arch, arclength_weight=0.5)
    return criterion(model, sample)[2][MEAN + "arclength"]


def formula(states, tokens):
    """L/2 sum_l ||X_(l+1) - X_l||^2 / n of each text, token by token."""
    depth, total = len(states) - 1, 0.0
    for text, row in enumerate(tokens):
        squares = 0.0
        for before, after in zip(states, states[1:]):
            for position, token in enumerate(row):
                if token != PAD:
                    change = after[position, text] - before[position, text]
                    squares += sum(change.double() ** 2)
        total += depth / 2 * squares / (row != PAD).sum()
    return total


def hidden_states(model, inputs):
    """All hidden states of encoder and decoder, and the tokens that they are of."""
    source, target = inputs["src_tokens"], inputs.get("prev_output_tokens")
    encoder = getattr(model, "encoder", None)
    encoder = getattr(encoder, "sentence_encoder", encoder)
    if encoder is None:
        _, extra = model.decoder(source, return_all_hiddens=True)
        return [(extra["inner_states"], source)]
    out = encoder(source, return_all_hiddens=True)
    found = [(out["encoder_states"], source)]
    if target is not None:
        _, extra = model.decoder(target, encoder_out=out, return_all_hiddens=True)
        found.append((extra["inner_states"], target))
    return found


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_formula(arch):
    """Of all hidden states, one for each layer or depth; padding counts for nothing."""
    model, sample = make(arch), make_sample(arch)
    value = logged(model, arch, sample)
    with torch.no_grad():
        found = hidden_states(model, sample["net_input"])
        expected = sum(formula(states, tokens) for states, tokens in found)
    depths = 2 if arch == "vanilla_transformer" or "_lra" in arch else 12 if "bert" in arch else 6
    assert [len(states) - 1 for states, _ in found] == [depths] * len(found)
    assert value > 0
    assert torch.allclose(value.double(), expected, rtol=1e-4)
    alone = [make_sample(arch, slice(row, row + 1), padding=3) for row in range(2)]
    assert torch.allclose(sum(logged(model, arch, text) for text in alone), value, rtol=1e-4)


@pytest.mark.parametrize(
    "arch", ["transformer_lm", "transevolve_fullff_2", "transject", "roberta_prenorm"]
)
def test_without_a_weight_nothing_is_kept(arch):
    """Nothing hooks into the model or asks for its states; in evaluation neither."""
    model, sample = make(arch), make_sample(arch)
    stack = getattr(model, "encoder", None) or model.decoder
    stack, during = getattr(stack, "sentence_encoder", stack), []

    def watch(module, args, kwargs, output):
        hooks = any(m._forward_pre_hooks for m in model.modules())
        during.append((hooks, kwargs.get("return_all_hiddens", False)))

    stack.register_forward_hook(watch, with_kwargs=True)
    for training, weight in ((True, None), (True, 0.0), (False, 0.5), (True, 0.5), (True, 0.0)):
        during.clear()
        _, _, log = make_criterion(arch, arclength_weight=weight)(model.train(training), sample)
        weighted = training and weight == 0.5
        assert during == [(weighted, weighted)]
        assert (MEAN + "arclength" in log) == weighted
        assert sum(len(m._forward_hooks) for m in model.modules()) == 1


def test_pairs_add_up():
    """As those of the N-ODE Transformer do."""

    class Pairs(Task):
        towers = 2

    model = make_classifier("transformer_classifier", "--dropout", "0", task=Pairs())
    first, second = (make_sample("transject", slice(row, row + 1)) for row in range(2))
    alone = make_classifier("transformer_classifier", "--dropout", "0")
    alone.encoder = model.encoder
    expected = sum(logged(alone, "transject", sample) for sample in (first, second))
    first["net_input"]["src_tokens1"] = second["net_input"]["src_tokens"]
    first["net_input"]["src_lengths1"] = second["net_input"]["src_lengths"]
    assert torch.allclose(logged(model, "transject", first), expected)


def test_gradient(float64):
    """What a weight adds to the gradient is that of the formula."""
    model, sample = make("transformer_classifier").double(), make_sample("transformer_classifier")
    gradients = []
    for weight in (0.0, 0.3):
        model.zero_grad()
        make_criterion("transject", arclength_weight=weight)(model, sample)[0].backward()
        gradients.append(model.encoder.layers[0].fc1.weight.grad)
    model.zero_grad()
    ((states, tokens),) = hidden_states(model, sample["net_input"])
    (0.3 * formula(states, tokens)).backward()
    added = model.encoder.layers[0].fc1.weight.grad
    assert torch.allclose(gradients[1] - gradients[0], added, rtol=1e-5, atol=1e-7)


def test_euler_steps_of_an_ode(float64):
    """An N-ODE block on a grid of L Euler steps has the arclength of the chain of its steps."""
    torch.manual_seed(0)
    steps, field = 5, TransformerField(FieldSpec(8, 4, 8, time_dependent_attention=True))
    x = torch.randn(6, 3, 8)
    padding = torch.arange(6) >= torch.tensor([[6], [4], [1]])
    x = x.masked_fill(padding.T.unsqueeze(-1), 0)
    block = NodeBlock(field, FixedGrid("euler", steps))
    end, solution = block(x, padding)
    f, states = field.bind(features_first(x), padding), [features_first(x)]
    for step in range(steps):
        states.append(states[-1] + f(step / steps, states[-1]) / steps)
    states = [tokens_first(state) for state in states]
    assert torch.allclose(states[-1], end)
    assert torch.allclose(discrete_arclength(states, ~padding).double(), solution.integral.double())


def test_no_layers():
    """As LayerDrop may leave none: the state does not change, and trajectories have no length."""
    assert discrete_arclength([torch.ones(3, 2, 4)], torch.ones(2, 3).bool()).tolist() == [0, 0]
