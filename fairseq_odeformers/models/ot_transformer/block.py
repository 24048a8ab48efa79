"""The flow of OT-Transformer: all layers of an encoder or decoder as one block."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from fairseq.modules import LayerNorm
from torch import Tensor, nn

from fairseq_odeformers.models.common.answers import AttentionMaps, LayerParts, ask
from fairseq_odeformers.models.common.recording import record_calls
from fairseq_odeformers.modules.coefficients import weighted_sum
from fairseq_odeformers.modules.tableaus import FIXED_GRID
from fairseq_odeformers.modules.transformer_layer import Block, Output

from .spec import FlowSpec

Evaluation = Callable[[nn.Module, int, Tensor], Tensor]


class Step(nn.Module):
    """x + h f(x), or a step of size h = 1/M of another Runge-Kutta method, where f has no t."""

    def __init__(self, method: str, steps: int):
        super().__init__()
        self.tableau, self.size = FIXED_GRID[method], 1 / steps

    def forward(self, x: Tensor, f: Callable[[int, Tensor], Tensor]) -> Tensor:
        """From and to (T, B, C).

        Args:
            f: the vector field, of the number of the stage, from 0, and a state.
        """
        slopes = [f(0, x)]
        for stage, row in enumerate(self.tableau.matrix, start=1):
            slopes.append(f(stage, x + self.size * weighted_sum(row, slopes)))
        return x + self.size * weighted_sum(self.tableau.weights, slopes)


class FlowBlock(Block):
    """x_M from x_0: the flow of an encoder, and the base of a decoder's.

    Args:
        layers: the layers of the vector field f.
    """

    def __init__(self, layers: nn.ModuleList, spec: FlowSpec):
        super().__init__()
        self.layers = layers
        in_field = spec.final_norm == "field"
        self.field_layer_norm = LayerNorm(spec.embed_dim) if in_field else nn.Identity()
        self.textbook = spec.ode_field == "textbook"
        self.stages = len(FIXED_GRID[spec.ode_method].weights)
        self.depths = nn.ModuleList(
            Step(spec.ode_method, spec.ode_steps) for _ in range(spec.ode_steps)
        )

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """x_M (T, B, C) from x_0 (T, B, C); fairseq's layer names the other arguments."""
        return self.solve(x, lambda layer, _, y: layer(y, *args, **kwargs))

    def solve(self, x: Tensor, evaluate: Evaluation) -> Tensor:
        """x_M (T, B, C).

        Args:
            evaluate: a layer, in the evaluation of f of a number from 0, at a state.
        """
        for index, step in enumerate(self.depths):
            x = step(x, partial(self.slope, evaluate, index * self.stages))
        return x

    def slope(self, evaluate: Evaluation, first: int, stage: int, x: Tensor) -> Tensor:
        """f(x) (T, B, C), in a stage of the step whose first evaluation has the number *first*."""
        y = x
        for layer in self.layers:
            y = evaluate(layer, first + stage, y)
        return self.field_layer_norm(y - x if self.textbook else y)

    def state_modules(self) -> Sequence[nn.Module]:
        """The modules whose outputs are the states x_1, ..., x_M (T, B, C)."""
        return [*self.depths]

    def attention_maps(self, *args: Any, **kwargs: Any) -> Iterator[AttentionMaps]:
        """The maps of each layer in each evaluation of f; the block takes its steps again."""
        answers = ask(self.layers, "attention_maps")
        with record_calls(answers) as calls:
            self(*args, **kwargs)
        maps = [m for call in calls for m in answers[call.module](*call.args, **call.kwargs)]
        for cross in sorted({of_layer.cross for of_layer in maps}):
            weights = [of_layer.weights for of_layer in maps if of_layer.cross == cross]
            yield AttentionMaps(torch.cat(weights), cross)

    def layer_parts(self, *args: Any, **kwargs: Any) -> Iterator[LayerParts]:
        """No parts: a step has several layers, so there is not one part per state."""
        return iter(())


class FlowDecoderBlock(FlowBlock):
    """The flow of a decoder, with or without an encoder.

    In incremental decoding, a token sees the keys and values that the tokens before it had in the
    same layer and the same evaluation of f. So it equals full decoding.
    """

    def forward(self, x: Tensor, *args: Any, need_attn: bool = False, **kwargs: Any) -> Output:
        """As fairseq's layer, from x_0 to x_M (T, B, C).

        It returns the attention weights of the last layer in the last evaluation.
        """
        attention, last = None, self.stages * len(self.depths) - 1

        def evaluate(layer: nn.Module, index: int, y: Tensor) -> Tensor:
            nonlocal attention
            wanted = need_attn and index == last
            y, attention, _ = layer(y, *args, evaluation=index, need_attn=wanted, **kwargs)
            return y

        return self.solve(x, evaluate), attention, None
