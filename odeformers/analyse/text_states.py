"""Outputs of layers, attention heads and experts of a classifier for one text."""

from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_odeformers.models.common.answers import LayerParts, ask
from fairseq_odeformers.models.common.recording import first_calls, record_calls


class States(NamedTuple):
    """The states of a model of L layers for a text of T tokens.

    Attributes:
        layers: X^(0), ..., X^(L) (L + 1, T, C); X^(0) is the embedding. A LayerNorm after the last
            layer is not applied.
        parts: states X^(l,e) of the E experts of each layer (L, E, T, C); or outputs of its H
            attention heads, before the projection that joins them (L, H, T, C/H); None if there are
            neither, or if, as in an ODE, they do not belong to one layer each.
        expert_weights: weights lambda of the experts (L, E); None without experts.
    """

    layers: Tensor
    parts: Tensor | None
    expert_weights: Tensor | None


@torch.no_grad()
def text_states(model, tokens: Tensor) -> States:
    """Compute the states of one text, without padding and other texts in its batch.

    Args:
        model: a :class:`~fairseq_odeformers.models.common.sequence_classifier.SequenceClassifier`
            in evaluation mode; its encoder takes ``return_all_hiddens``.
        tokens: a text (T), without padding.
    """
    answers = ask(model.encoder, "layer_parts")
    with record_calls(answers) as calls:
        lengths = tokens.new_tensor([len(tokens)])
        out = model.encoder(tokens.unsqueeze(0), lengths, return_all_hiddens=True)
    # A layer evaluated several times counts once.
    layer_parts: list[LayerParts] = [
        parts
        for call in first_calls(calls)
        for parts in answers[call.module](*call.args, **call.kwargs)
    ]
    weights = [parts.weights for parts in layer_parts if parts.weights is not None]
    return States(
        torch.stack(out["encoder_states"]).squeeze(2),
        torch.stack([parts.states for parts in layer_parts]) if layer_parts else None,
        torch.stack(weights) if weights else None,
    )


@torch.no_grad()
def residual_weights(model) -> list[dict[str, float]]:
    """Return the learned weights of each layer's residual connections by name, if there are any."""
    answers = ask(model.encoder, "residual_weights").values()
    return [{name: weight.item() for name, weight in answer().items()} for answer in answers]
