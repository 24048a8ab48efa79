"""Affine maps and LayerNorms with weights that depend on time, at the times of all steps."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fairseq_odeformers.modules.cached_tensors import CachedTensors

from .spec import BlockSpec

Weights = tuple[Tensor, Tensor]  # weight and bias, or scale and shift, at one time

# The standard deviations of the initial matrices and of the initial B in the authors' code.
RELEASED_STD, RELEASED_BIAS_STD = 0.02, 1e-4


def time_features(steps: int, frequencies: int, form: str) -> Tensor:
    """Return phi(t) = (t, sin(a_s t), cos(a_s t)) at t = 1/L, 2/L, ..., 1: (L, 1 + 2S).

    Args:
        steps: L.
        frequencies: S.
        form: With ``harmonic``, a_s = pi s for s = 1..S, and the fastest feature completes S/2
            periods from t = 0 to 1, so that a few steps sample it fully. With ``released``, as in
            the authors' code, a_s = 1000 / 10000^(s/S) for s = 0..S-1, and the fastest feature
            completes 159 periods.
    """
    if form == "harmonic":
        t = torch.arange(1, steps + 1).unsqueeze(1) / steps
        angles = math.pi * t * torch.arange(1, frequencies + 1)
    else:  # in double precision, since angles are as large as 1000
        t = torch.arange(1, steps + 1, dtype=torch.float64).unsqueeze(1) / steps
        angles = 1000 * t / 10_000 ** (torch.arange(frequencies) / t.new_tensor(frequencies))
    return torch.cat([t, angles.sin(), angles.cos()], 1).to(torch.get_default_dtype())


class TimeDependent(CachedTensors):
    """Base class of maps, each with an embedding e(t) = A_2 silu(A_1 phi(t) + c_1) + c_2 of time.

    The weights at the times of all steps are computed once per training pass, and only once in
    evaluation.
    """

    features: Tensor  # (L, 1 + 2S)

    def __init__(self, spec: BlockSpec):
        super().__init__()
        features = time_features(spec.steps_taken, spec.time_frequencies, spec.time_features)
        self.register_buffer("features", features, persistent=False)
        self.embedding = nn.Sequential(
            nn.Linear(features.size(1), spec.time_width),
            nn.SiLU(),
            nn.Linear(spec.time_width, spec.time_width),
        )
        if spec.initialization == "released":
            for name, parameter in self.embedding.named_parameters():
                nn.init.normal_(parameter, std=RELEASED_STD if "weight" in name else 0.0)

    def embed(self) -> Tensor:
        """Return e(t) at the times of all steps (L, E)."""
        return self.embedding(self.features)

    def compute(self) -> Sequence[Weights]:
        """Compute the weights of each of the L steps."""
        raise NotImplementedError


class TimeDependentLinear(TimeDependent):
    """x W(t)^T + b(t), with W(t) = G e(t) + W_0 and b(t) = B e(t).

    In the authors' initialisation, W_0 starts at zero, so the scale of W(t) is proportional to the
    norm of e(t).

    Args:
        in_features, out_features: widths I and O.
        std: standard deviation of an ordinary layer's weight. Unless the initialisation is
            ``released``, W(t) starts with this deviation at the time when the norm of e(t) is
            largest (G contributes a third of the variance), and with at least 0.8 of it at every
            other time.
    """

    def __init__(self, spec: BlockSpec, in_features: int, out_features: int, std: float):
        super().__init__(spec)
        width, shape = spec.time_width, (out_features, in_features)
        self.weight = nn.Parameter(torch.empty(width, *shape))  # G
        self.constant = nn.Parameter(torch.empty(shape))  # W_0
        self.bias = nn.Parameter(torch.zeros(width, out_features))  # B
        if spec.initialization == "released":
            nn.init.normal_(self.weight, std=RELEASED_STD)
            nn.init.zeros_(self.constant)
            nn.init.normal_(self.bias, std=RELEASED_BIAS_STD)
        else:
            nn.init.normal_(self.weight, std=std * (1 / 3) ** 0.5)
            nn.init.normal_(self.constant, std=std * (2 / 3) ** 0.5)
            with torch.no_grad():
                phi = time_features(100, spec.time_frequencies, spec.time_features)
                self.weight /= self.embedding(phi).norm(dim=1).max()

    def compute(self) -> Sequence[Weights]:
        """Compute W (O, I) and b (O) of each step."""
        e, shape = self.embed(), self.constant.shape
        weight = torch.addmm(self.constant.flatten(), e, self.weight.flatten(1))
        return [*zip(weight.unflatten(1, shape).unbind(), (e @ self.bias).unbind())]


class TimeDependentLayerNorm(TimeDependent):
    """LN(x) (1 + u e(t)) + v e(t), where u and v start at zero."""

    def __init__(self, spec: BlockSpec):
        super().__init__(spec)
        self.weight = nn.Parameter(torch.zeros(spec.time_width, spec.embed_dim))  # u
        self.bias = nn.Parameter(torch.zeros(spec.time_width, spec.embed_dim))  # v

    def compute(self) -> Sequence[Weights]:
        """Compute scale and shift (C) of each step."""
        e = self.embed()
        return [*zip((1 + e @ self.weight).unbind(), (e @ self.bias).unbind())]
