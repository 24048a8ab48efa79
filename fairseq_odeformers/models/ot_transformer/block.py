"""The flow of OT-Transformer: one block with all layers of an encoder or decoder."""

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
    """x + h F(x) with h = 1/M, or a step of another Runge-Kutta method; F does not depend on t."""

    def __init__(self, method: str, steps: int):
        super().__init__()
        self.tableau, self.size = FIXED_GRID[method], 1 / steps

    def forward(self, x: Tensor, f: Callable[[int, Tensor], Tensor]) -> Tensor:
        """Map (T, B, C) to (T, B, C).

        Args:
            f: vector field F, a function ``(stage, state)``; stages are numbered from 0.
        """
        slopes = [f(0, x)]
        for stage, row in enumerate(self.tableau.matrix, start=1):
            slopes.append(f(stage, x + self.size * weighted_sum(row, slopes)))
        return x + self.size * weighted_sum(self.tableau.weights, slopes)


class FlowBlock(Block):
    """The flow of an encoder from x_0 to x_M, and the base class of a decoder's flow.

    Args:
        layers: layers of the vector field F.
        spec: the form of F, and its solver.
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
        """Map x_0 to x_M (T, B, C); the other arguments are as in fairseq's layer."""
        return self.solve(x, lambda layer, _, y: layer(y, *args, **kwargs))

    def solve(self, x: Tensor, evaluate: Evaluation) -> Tensor:
        """Map x_0 to x_M (T, B, C).

        Args:
            evaluate: function ``(layer, number, state)`` that returns the layer's output
                (T, B, C); evaluations of F are numbered from 0.
        """
        for index, step in enumerate(self.depths):
            x = step(x, partial(self.slope, evaluate, index * self.stages))
        return x

    def slope(self, evaluate: Evaluation, first: int, stage: int, x: Tensor) -> Tensor:
        """Return F(x) (T, B, C) at a stage of a step.

        Args:
            first: number of the first evaluation of the step.
            stage: number of the stage, from 0.
        """
        y = x
        for layer in self.layers:
            y = evaluate(layer, first + stage, y)
        return self.field_layer_norm(y - x if self.textbook else y)

    def state_modules(self) -> Sequence[nn.Module]:
        """Return the modules whose outputs are the states x_1, ..., x_M (T, B, C)."""
        return [*self.depths]

    def attention_maps(self, *args: Any, **kwargs: Any) -> Iterator[AttentionMaps]:
        """Yield the maps of each layer in each evaluation of F, by taking the steps once more."""
        answers = ask(self.layers, "attention_maps")
        with record_calls(answers) as calls:
            self(*args, **kwargs)
        maps = [m for call in calls for m in answers[call.module](*call.args, **call.kwargs)]
        for cross in sorted({layer_maps.cross for layer_maps in maps}):
            weights = [layer_maps.weights for layer_maps in maps if layer_maps.cross == cross]
            yield AttentionMaps(torch.cat(weights), cross)

    def layer_parts(self, *args: Any, **kwargs: Any) -> Iterator[LayerParts]:
        """Yield nothing: a step has several layers, so their parts would not match the states."""
        return iter(())


class FlowDecoderBlock(FlowBlock):
    """The flow of a decoder, with or without an encoder.

    In incremental decoding, a token sees the keys and values of earlier tokens in the same layer
    and the same evaluation of F. The result therefore equals full decoding.
    """

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Output:
        """Map x_0 to x_M (T, B, C), with the arguments and outputs of fairseq's layer.

        The attention weights come from the last layer in the last evaluation.
        """
        attention, last = None, (self.layers[-1], self.stages * len(self.depths) - 1)
        needs = {name: value for name, value in kwargs.items() if name.startswith("need_")}
        without = {**kwargs, **dict.fromkeys(needs, False)}

        def evaluate(layer: nn.Module, index: int, y: Tensor) -> Tensor:
            nonlocal attention
            options = kwargs if (layer, index) == last else without
            y, attention, _ = layer(y, *args, evaluation=index, **options)
            return y

        return self.solve(x, evaluate), attention, None
