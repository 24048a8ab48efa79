"""What the layers, attention heads and experts of a classifier compute from one text."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor

from fairseq_odeformers.models.baselines.layers import ReZero
from fairseq_odeformers.models.baselines.linear_attention import LinearAttention
from fairseq_odeformers.models.common.recording import Call, first_calls, record_calls
from fairseq_odeformers.models.diffeq_transformer.branches import SelfAttention as DiffEqAttention
from fairseq_odeformers.models.transevolve.attention import split_heads
from fairseq_odeformers.models.transevolve.block import TransEvolveLayer
from fairseq_odeformers.models.transject.layer import MixtureOfExperts, TransJectLayer


class States(NamedTuple):
    """What a model of L layers computes from a text of T tokens.

    Attributes:
        layers: X^(0), ..., X^(L) (L + 1, T, C); X^(0) is the embedding. A LayerNorm after the last
            layer is not applied.
        parts: states X^(l,e) of the E experts of each layer (L, E, T, C); or outputs of its H
            attention heads, before the projection that joins them (L, H, T, C/H); None if there are
            neither, or, as in an ODE, not one per layer.
        expert_weights: weights lambda of the experts (L, E); None without experts.
    """

    layers: Tensor
    parts: Tensor | None
    expert_weights: Tensor | None


@torch.no_grad()
def text_states(model, tokens: Tensor) -> States:
    """The states of a text alone, without padding and without other texts in its batch.

    Args:
        model: a :class:`~fairseq_odeformers.models.common.sequence_classifier.SequenceClassifier`
            in evaluation mode; its encoder takes ``return_all_hiddens``.
        tokens: a text (T), without padding.
    """
    modules = list(model.encoder.modules())
    kinds = MultiheadAttention, TransEvolveLayer, DiffEqAttention
    attentions = (m for m in modules if isinstance(m, kinds))
    mixtures = (m for m in modules if isinstance(m, MixtureOfExperts))
    with record_calls(attentions) as attended, record_calls(mixtures) as mixed:
        lengths = tokens.new_tensor([len(tokens)])
        out = model.encoder(tokens.unsqueeze(0), lengths, return_all_hiddens=True)
    # A layer evaluated several times counts once; each call of DiffEqFormer's is a step.
    steps = [call for call in attended if isinstance(call.module, DiffEqAttention)]
    parts, weights = list(map(head_outputs, steps or first_calls(attended))), []
    if mixed:
        parts, weights = zip(*map(expert_states, mixed))
    return States(
        torch.stack(out["encoder_states"]).squeeze(2),
        torch.stack(parts) if parts else None,
        torch.stack(weights) if weights else None,
    )


def head_outputs(call: Call) -> Tensor:
    """The outputs of the heads (H, T, C/H) in a call of an attention with one text."""
    if isinstance(call.module, TransEvolveLayer):
        _, heads = call.args
        return heads[0]
    attention: Any = call.module
    if isinstance(attention, LinearAttention):
        q, k, v = attention.features(call.kwargs["query"], None)
        return (q @ (k.mT @ v))[0]
    if isinstance(attention, DiffEqAttention):
        q, k, v = (split_heads(x, attention.num_heads) for x in call.args[:3])
        return F.scaled_dot_product_attention(q, k, v)[0]
    x = call.kwargs["query"].transpose(0, 1)
    projections = attention.q_proj, attention.k_proj, attention.v_proj
    q, k, v = (split_heads(project(x), attention.num_heads) for project in projections)
    return F.scaled_dot_product_attention(q, k, v)[0]


def expert_states(call: Call) -> tuple[Tensor, Tensor]:
    """X^(l,e) (E, T, C) and lambda (E) in a call of a mixture of experts with one text."""
    mixture: Any = call.module
    x, sigma, step, *_ = call.args
    changes = mixture.changes(x, sigma)
    states = torch.stack([x + step * change for change in changes])[:, 0]
    if mixture.gate is None:
        return states, states.new_ones(1)
    return states, mixture.weights(x, changes, step)[0, :, 0, 0]


@torch.no_grad()
def residual_weights(model) -> list[float]:
    """alpha of each layer; none if the residual connections have no weights."""
    weights = []
    for layer in model.encoder.modules():
        if isinstance(layer, TransJectLayer):
            weights += layer.alpha().tolist()
        elif isinstance(layer, ReZero):
            weights += layer.residual_weight.tolist()
    return weights
