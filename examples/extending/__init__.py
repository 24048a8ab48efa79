r"""An architecture of one's own: a Transformer over higher-order Runge-Kutta blocks.

After Li et al. 2022, "ODE Transformer". A layer with LayerNorm before its sub-layers adds
:math:`F(y)` to its input y, one step of Euler's method. A block of a higher order evaluates the
same layer several times,

.. math::
    y' = y + \sum_i b_i F_i, \quad F_i = F(y + a_i F_{i-1})

with no more parameters. Train with ``--user-dir examples/extending --arch ode_transformer``.
"""

from dataclasses import dataclass

from fairseq.models import register_model, register_model_architecture

# Registers tasks and criterions, too: no other --user-dir is needed.
import fairseq_odeformers  # noqa: F401
from fairseq_odeformers.models.common.transformer import Encoder
from fairseq_odeformers.models.common.transformer_classifier import (
    TransformerClassifier,
    TransformerClassifierConfig,
)
from fairseq_odeformers.modules.encoder_layer import EncoderLayer
from fairseq_odeformers.options import option

# By the order: a_i and b_i of each evaluation (the paper's RK1, RK2 and RK4).
METHODS = {
    1: ((0.0,), (1.0,)),
    2: ((0.0, 1.0), (1 / 2, 1 / 2)),
    4: ((0.0, 1 / 2, 1 / 2, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
}


class RungeKuttaLayer(EncoderLayer):
    """fairseq's encoder layer as the right-hand side of an ODE, over one step.

    Args:
        cfg: fairseq's config, which has the model's further options, too.
    """

    def __init__(self, cfg, **kwargs):
        super().__init__(cfg, **kwargs)
        self.method = METHODS[cfg.runge_kutta_order]

    def forward(self, x, encoder_padding_mask, attn_mask=None):
        """
        Args:
            x: states y (T, B, C).
            encoder_padding_mask: true where a token is padding (B, T).

        Returns:
            The states y' (T, B, C).
        """
        slope, increment = 0.0, 0.0
        for a, b in zip(*self.method):
            y = x + a * slope
            slope = super().forward(y, encoder_padding_mask, attn_mask) - y
            increment = increment + b * slope
        return x + increment


class ODETransformerEncoder(Encoder):
    """fairseq's encoder over Runge-Kutta layers; it derives from ``FairseqEncoder``."""

    layer_class = RungeKuttaLayer


@dataclass
class ODETransformerConfig(TransformerClassifierConfig):
    """Options of fairseq's encoder, and the order of the method."""

    encoder_normalize_before: bool = option(True, "apply layernorm before each encoder block")
    runge_kutta_order: int = option(4, "order of the Runge-Kutta method of a layer: 1, 2 or 4")


@register_model("ode_transformer", dataclass=ODETransformerConfig)
class ODETransformer(TransformerClassifier):
    """The classifier; pooling, heads, tasks and predictions come with its base class."""

    encoder_class = ODETransformerEncoder

    @classmethod
    def check_config(cls, cfg):
        super().check_config(cfg)
        if cfg.runge_kutta_order not in METHODS:
            raise ValueError(f"--runge-kutta-order {cfg.runge_kutta_order}: give 1, 2 or 4")


@register_model_architecture("ode_transformer", "ode_transformer_rk2")
def ode_transformer_rk2(args):
    args.runge_kutta_order = getattr(args, "runge_kutta_order", 2)
