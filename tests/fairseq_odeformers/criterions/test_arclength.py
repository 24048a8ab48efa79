"""The arclength of models that compute their states layer by layer."""

import pytest
import torch
from helpers import EOS, PAD, Task, call, make_any, make_classifier, wake

from fairseq_odeformers.criterions.arclength import discrete_arclength, with_arclength
from fairseq_odeformers.criterions.label_smoothed_cross_entropy_with_regularizers import (
    RegularizedCrossEntropyConfig,
    RegularizedCrossEntropyCriterion,
)
from fairseq_odeformers.criterions.regularizers import MEAN
from fairseq_odeformers.models.node_transformer.block import NodeBlock
from fairseq_odeformers.models.node_transformer.field import TransformerField
from fairseq_odeformers.models.node_transformer.layout import features_first, tokens_first
from fairseq_odeformers.models.node_transformer.solver import FixedGrid
from fairseq_odeformers.models.node_transformer.spec import BlockSpec

LAYERED = [  # each kind, with layers, depths, blocks and a history, of this package and fairseq
    *("macaron_transformer", "transevolve_randomff_1", "transevolve_fullff_2_prenorm"),
    *("transject", "transject_lm", "pcformer", "diffeq_transformer_lm", "macaron_bert"),
    "yuriiformer",
    *("transformer_classifier_linear", "transformer_lm_orthogonal"),
    *("transformer", "transformer_lm", "roberta_prenorm"),
]


def make(arch):
    """A model without dropout whose layers all change their input."""
    options = ["--max-positions", "64"] if "bert" in arch else []
    model = wake(make_any(arch, *options))
    for module in model.modules():
        if isinstance(getattr(module, "p", None), float):
            module.p = 0.0
    return model


def make_sentences():
    """Sources and targets, the second of them padded."""
    torch.manual_seed(2)
    source, target = torch.randint(4, 50, (2, 7)), torch.randint(4, 50, (2, 6))
    source[1, 4:], target[1, 5:] = PAD, PAD
    source[0, -1] = source[1, 3] = EOS
    return source, target


def arclength(model, source, target):
    return with_arclength(model, call(model, source, target))[1]["regularizers"]["arclength"]


def formula(states, tokens):
    """L/2 sum_l ||X_(l+1) - X_l||^2 / n of each text (B), token by token."""
    results = []
    for text, row in enumerate(tokens):
        squares = sum(
            (after[position, text] - before[position, text]).double().square().sum()
            for before, after in zip(states, states[1:])
            for position in row.ne(PAD).nonzero()
        )
        results.append((len(states) - 1) / 2 * squares / row.ne(PAD).sum())
    return torch.stack(results)


def hidden_states(model, source, target):
    """All hidden states of encoder and decoder, and the tokens that they are of."""
    encoder = getattr(model, "encoder", None)
    encoder = getattr(encoder, "sentence_encoder", encoder)
    if encoder is None:
        _, extra = model.decoder(target, return_all_hiddens=True)
        return [(extra["inner_states"], target)]
    out = encoder(source, return_all_hiddens=True)
    stacks = [(out["encoder_states"], source)]
    if hasattr(model, "decoder"):
        _, extra = model.decoder(target, encoder_out=out, return_all_hiddens=True)
        stacks.append((extra["inner_states"], target))
    return stacks


@pytest.mark.parametrize("arch", LAYERED)
def test_arclength_equals_the_formula(arch):
    """The arclength sums over all hidden states, one per layer or depth, and ignores padding."""
    model, (source, target) = make(arch), make_sentences()
    value = arclength(model, source, target)
    assert (value > 0).all() and value.requires_grad
    with torch.no_grad():
        actual = hidden_states(model, source, target)
        expected = sum(formula(states, tokens) for states, tokens in actual)
    in_two_blocks = "transevolve" in arch and not arch.endswith("_1")
    depths = 4 if in_two_blocks else 2
    assert [len(states) - 1 for states, _ in actual] == [depths] * len(actual)
    assert torch.allclose(value.double(), expected, rtol=1e-4)
    for row in range(2):
        rows = (
            torch.nn.functional.pad(x[row : row + 1], (0, 3), value=PAD) for x in (source, target)
        )
        assert torch.allclose(arclength(model, *rows), value[row], rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_states_are_summed_in_single(dtype):
    """Squares would overflow float16, and bfloat16 has too few digits for the sum."""
    states = [torch.full((3, 2, 6), value, dtype=dtype) for value in (0, 301, 0)]
    value_in_single = discrete_arclength(states, torch.ones(2, 3).bool())
    assert value_in_single.dtype == torch.float32
    assert (value_in_single == 2 / 2 * 2 * 6 * states[1][0, 0, 0].float() ** 2).all()


@pytest.mark.parametrize("arch", ["transformer_lm", "transevolve_fullff_2"])
def test_arclength_is_computed_in_training_with_a_weight(arch):
    """The weight is the option's or the model's own, and the model keeps no states afterwards."""
    model, (source, target) = make(arch), make_sentences()
    hooks = count_hooks(model)
    inputs = call(model, source, target)
    sample = {"net_input": inputs, "ntokens": 11, "target": target}
    for training, weight, own in [
        (True, None, 0),
        (True, 0.0, 0.5),
        (False, 0.5, 0.5),
        (True, 0.5, 0),
        (True, None, 0.5),
        (True, 0.0, 0),
    ]:
        model.regularizer_weights = {"arclength": own}
        config = RegularizedCrossEntropyConfig(sentence_avg=False, arclength_weight=weight)
        criterion = RegularizedCrossEntropyCriterion(config, Task())
        _, _, log = criterion(model.train(training), sample)
        weighted = training and (own if weight is None else weight) > 0
        assert (MEAN + "arclength" in log) == weighted
        assert count_hooks(model) == hooks


def count_hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@pytest.mark.parametrize("arch", ["transformer_classifier", "node_transformer"])
def test_arclength_of_a_pair_is_the_sum_over_its_texts(arch):
    """The arclengths of a pair's two texts are added, also in a model that computes its own."""

    class Pairs(Task):
        towers = 2

    model = make_classifier(arch, "--dropout", "0", task=Pairs())
    alone = make_classifier(arch, "--dropout", "0")
    alone.encoder = model.encoder
    first, second = make_sentences()
    inputs = {
        **call(model, first, None),
        "src_tokens1": second,
        "src_lengths1": second.ne(PAD).sum(1),
    }
    value = with_arclength(model, inputs)[1]["regularizers"]["arclength"]
    assert torch.allclose(value, arclength(alone, first, None) + arclength(alone, second, None))


def test_a_models_own_arclength_is_used():
    model, (source, _) = make_classifier("node_transformer", "--dropout", "0"), make_sentences()
    own = model(**call(model, source, None))[1]["regularizers"]["arclength"]
    assert torch.equal(arclength(model, source, None), own)


def test_arclength_of_euler_steps_of_an_ode(float64):
    """An N-ODE block with L Euler steps has the arclength of the chain of its steps."""
    torch.manual_seed(0)
    steps, field = 5, TransformerField(BlockSpec(8, 4, 8, time_dependent_attention=True))
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


def test_arclength_without_layers_is_zero():
    """A single state, as LayerDrop may leave, is a trajectory of length zero."""
    assert discrete_arclength([torch.ones(3, 2, 4)], torch.ones(2, 3).bool()).tolist() == [0, 0]
