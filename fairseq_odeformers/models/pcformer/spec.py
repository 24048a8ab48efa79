"""The spec of a layer of PCformer, in addition to fairseq's config."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.runge_kutta import RungeKuttaSpec


@dataclass(frozen=True)
class LayerSpec(RungeKuttaSpec):
    """The predictor of a layer; fields are named after their options."""

    rk_norm: bool = False
    rk_norm_slopes: bool = False
    alpha_per_layer: bool = False
