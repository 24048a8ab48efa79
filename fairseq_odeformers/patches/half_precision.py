"""Changes to checkpoints in half precision: float32 weights and the age of the loss scale."""

import torch
from fairseq.optim import FP16Optimizer
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler

from .ownership import trains_ours

STATE = "half_precision"  # an entry of the optimizer's state that fairseq and torch ignore


def trainer_state_dict(original, self):
    """Add the state of half precision to the optimizer's state in a checkpoint."""
    state = original(self)
    if trains_ours(self.cfg) and not self.is_fsdp and "last_optimizer_state" in state:
        if half_state := half_precision_state(self.optimizer):
            state["last_optimizer_state"][STATE] = half_state
    return state


def half_precision_state(optimizer):
    """Return the float32 weights and the counters of the loss scale that an optimizer has."""
    state = {}
    if weights := float32_weights(optimizer):
        state["fp32_params"] = [weight.detach() for weight in weights]
    if counters := loss_scale_counters(optimizer):
        state["loss_scaler"] = counters
    return state


def load_state_dict(original, self, state_dict, optimizer_overrides=None):
    """Restore the state of half precision after the optimizer's own.

    A saved float32 weight is used only where it rounds to the model's weight, since it does not in
    an average of checkpoints.
    """
    state_dict = {**state_dict}
    saved = state_dict.pop(STATE, {})
    original(self, state_dict, optimizer_overrides)
    if loss_scale_counters(self):
        vars(self.scaler).update(saved.get("loss_scaler", {}))
    for weight, value in zip(float32_weights(self), saved.get("fp32_params", [])):
        half = self.fp16_params[0].dtype
        value = value.to(weight.device)
        weight.data.copy_(torch.where(value.to(half) == weight.to(half), value, weight))


def float32_weights(optimizer):
    """Return an optimizer's float32 copies of the weights, one flat tensor per device."""
    if not isinstance(optimizer, FP16Optimizer):  # the memory-efficient optimizer has no copies
        return []
    weights = optimizer.fp32_params
    return [*weights.values()] if isinstance(weights, dict) else [*weights]


def loss_scale_counters(optimizer):
    """Return the counters of the loss scale: updates and overflows since it last changed."""
    scaler = getattr(optimizer, "scaler", None)
    if not isinstance(scaler, DynamicLossScaler):
        return {}
    return {name: value for name, value in vars(scaler).items() if name.startswith("_")}
