"""Layers that read a learned combination of the outputs of all earlier layers.

Wang et al. 2019, "Learning Deep Transformer Models for Machine Translation".
"""

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.modules import LayerNorm
from torch import Tensor, nn

from .coefficients import weighted_sum
from .transformer_layer import Block, Output


class Combination(nn.Module):
    """Weighted sum w_0 h_0 + ... + w_k h_k; all learned weights w start at 1 / (k + 1).

    Args:
        count: number of states, k + 1.
    """

    def __init__(self, count: int):
        super().__init__()
        self.weight = nn.Parameter(torch.full((count,), 1 / count))

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """Return the weighted sum (T, B, C) of k + 1 states (T, B, C)."""
        return weighted_sum(self.weight.unbind(), states)


class LayerHistory(Block):
    r"""A stack whose layers each read a learned combination of all earlier outputs.

    .. math::
        h_0 = y_1, \quad h_k = \mathrm{LN}_k(\mathrm{layer}_k(y_k)), \quad
        y_{k+1} = \sum_{i \le k} w_{ki} h_i

    Args:
        layers: fairseq's layers.
        embed_dim: width C.
    """

    def __init__(self, layers: nn.ModuleList, embed_dim: int):
        super().__init__()
        self.depths = layers
        self.output_layer_norms = nn.ModuleList(LayerNorm(embed_dim) for _ in layers)
        self.combinations = nn.ModuleList(Combination(n + 2) for n in range(len(layers)))

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor | Output:
        """Map (T, B, C) to (T, B, C), as a layer does.

        A decoder's other outputs come from its last layer.
        """
        states, out = [x], x
        # Only the last layer returns attention weights.
        needs = {name: value for name, value in kwargs.items() if name.startswith("need_")}
        kwargs = {**kwargs, **dict.fromkeys(needs, False)}
        for index, layer in enumerate(self.depths):
            if index == len(self.depths) - 1:
                kwargs |= needs
            out = layer(x, *args, **kwargs, **self.inputs(index, states))
            states.append(self.output_layer_norms[index](out[0] if isinstance(out, tuple) else out))
            x = self.combinations[index](states)
        return (x, *out[1:]) if isinstance(out, tuple) else x

    def inputs(self, index: int, states: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return additional arguments of a layer that depend on the states before it."""
        return {}

    def state_modules(self) -> Sequence[nn.Module]:
        """Return the modules whose outputs are the states (T, B, C) after each layer."""
        return [*self.combinations]
