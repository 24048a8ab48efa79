"""The parity models with torch's initial values, instead of fairseq's.

The paper does not give initial values, and its models are written in torch. Here every linear map
begins as torch makes it: weights and bias of a map with n inputs are uniform between -n^(-1/2) and
n^(-1/2). fairseq's embeddings, after their scaling, are normal with variance 1, as torch's are.
Train with ``--user-dir examples/parity/initialisation --arch node_transformer_torch`` or
``vanilla_transformer_torch``.
"""

from fairseq.models import register_model
from torch import nn

import fairseq_odeformers  # noqa: F401
from fairseq_odeformers.models.baselines.models import VanillaTransformer, VanillaTransformerConfig
from fairseq_odeformers.models.node_transformer.models import (
    NodeTransformer,
    NodeTransformerConfig,
)


class TorchInitialisation:
    """Initial values of torch for a model."""

    @classmethod
    def build_model(cls, cfg, task):
        """The model, with its linear maps drawn anew."""
        model = super().build_model(cfg, task)
        for module in model.modules():
            if isinstance(module, nn.Linear):
                module.reset_parameters()
        return model


@register_model("node_transformer_torch", dataclass=NodeTransformerConfig)
class TorchNodeTransformer(TorchInitialisation, NodeTransformer):
    """The N-ODE Transformer for parity."""


@register_model("vanilla_transformer_torch", dataclass=VanillaTransformerConfig)
class TorchVanillaTransformer(TorchInitialisation, VanillaTransformer):
    """The vanilla Transformer for parity."""
