"""What the stacks of blocks in the encoder and in the decoder share."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from fairseq_odeformers.modules.recording import Call, recorded
from fairseq_odeformers.options import side

from .errors import SolveError
from .field import FieldSpec


def field_spec(cfg, name: str) -> FieldSpec:
    """The vector field of the blocks of the ``encoder`` or ``decoder``."""
    own = side(cfg, name)
    return FieldSpec(
        embed_dim=own.embed_dim,
        num_heads=own.attention_heads,
        ffn_embed_dim=own.ffn_embed_dim,
        residual=cfg.vector_field == "residual",
        skip_connection=cfg.skip_connection,
        time_dependent_attention=cfg.time_dependent_attention,
        layer_norm=cfg.encoder_normalize_before,
        dropout=cfg.dropout,
        decoder=name == "decoder",
    )


@contextmanager
def recorded_solves(blocks: Iterable[nn.Module]) -> Iterator[list[Call]]:
    """A list of the calls of the blocks, whose last output is a solution.

    Raises:
        RuntimeError: a solve does not reach its end. The message names the options that may help.
    """
    try:
        with recorded(blocks) as calls:
            yield calls
    except SolveError as error:
        raise RuntimeError(f"{error}; {error.remedy}") from error


def summary(name: str, calls: list[Call]) -> dict[str, dict[str, Tensor]]:
    """The regularisers, in training, and the statistics of the ``encoder`` or ``decoder``.

    Each is a dictionary of values (B) a sequence. The arclength is summed over the blocks.
    """
    solutions = [call.output[-1] for call in calls]
    regularizers = {}
    if calls[0].module.training:
        regularizers["arclength"] = sum(solution.integral for solution in solutions)
    statistics = {
        f"{name}_{statistic}_{index}": value
        for index, solution in enumerate(solutions, 1)
        for statistic, value in solution.statistics.items()
    }
    return {"regularizers": regularizers, "statistics": statistics}
