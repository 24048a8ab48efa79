"""The spec of a flow of OT-Transformer, in addition to fairseq's config."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.transformer import Spec


@dataclass(frozen=True)
class FlowSpec(Spec):
    """The vector field and its solver; fields are named after their options."""

    embed_dim: int  # C
    layer_norm: bool = True
    final_norm: str = "field"
    ode_field: str = "released"
    ode_method: str = "euler"
    ode_steps: int = 5  # M
