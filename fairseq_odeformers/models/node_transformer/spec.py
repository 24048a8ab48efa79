"""The options from which a block of the N-ODE Transformer and its solver are built."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.transformer import Spec


@dataclass(frozen=True)
class BlockSpec(Spec):
    """The vector field of a block and its solver; fields are named after their options."""

    embed_dim: int  # C
    attention_heads: int  # H
    ffn_embed_dim: int  # the width of the hidden layer of the FFN
    vector_field: str = "composed"
    skip_connection: bool = False
    time_dependent_attention: bool = False
    normalize_before: bool = False
    dropout: float = 0.0
    ode_method: str = "dopri5"
    ode_steps: int | None = None
    ode_rtol: float = 1e-5
    ode_atol: float = 1e-5
    ode_max_steps: int = 1000
    ode_on_max_steps: str = "raise"
    ode_final_time: float = 1.0
    adaptivity: str = "batch"
    adjoint: bool = False
    checkpoint_activations: bool = False
    arclength_order: int = 1

    @property
    def residual(self) -> bool:
        """Whether dX/dt is the sum of all residual branches (paper, Eq. 9)."""
        return self.vector_field == "residual"
