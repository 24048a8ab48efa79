"""The options of PCformer's layers, beside fairseq's config."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.runge_kutta import RungeKuttaSpec


@dataclass(frozen=True)
class LayerSpec(RungeKuttaSpec):
    """The predictor of a layer: the options of these names."""

    rk_norm: bool = False
    rk_norm_slopes: bool = False
    alpha_per_layer: bool = False
