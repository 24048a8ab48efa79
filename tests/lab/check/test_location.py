"""The module and line to blame for an error, or for a number that is not finite."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fairseq_odeformers.lab.check.location import innermost_module, origin_of
from fairseq_odeformers.lab.check.properties import NotFinite


class Bad(nn.Module):
    def forward(self, x):
        raise KeyError("caught")


class Outer(nn.Module):
    """Catches the error of a module inside of it, and then calls a function."""

    def __init__(self, function):
        super().__init__()
        self.bad, self.function = Bad(), function

    def forward(self, x):
        try:
            self.bad(x)
        except KeyError:
            pass
        return self.function(x)


def copy(x):
    torch.use_deterministic_algorithms(True)  # fills the empty tensor with NaN
    empty = torch.empty_like(x)
    torch.use_deterministic_algorithms(False)
    return empty.copy_(x)


@pytest.mark.parametrize(
    "function, name",
    [
        (lambda x: F.layer_norm(1 - x / 0, x.shape), "div"),
        (lambda x: x.clone().neg_().log_().exp(), "log_"),
        (lambda x: x.masked_fill(x > 0, -torch.inf).softmax(0).sum(), "softmax"),  # not the mask
        (lambda x: x * torch.nan, "mul"),
        (lambda x: copy(x).log(), ""),
        (lambda x: x, ""),
    ],
)
def test_a_number_that_is_not_finite_comes_from_a_line(function, name):
    """The call that makes it is named, in the innermost module that has not ended."""

    def measure():
        Outer(function)(torch.ones(2))
        raise NotFinite

    line = function.__code__.co_firstlineno
    said = f"{name} in Outer, {__file__}, line {line}" if name else ""
    assert origin_of(NotFinite(), measure) == said


def test_the_innermost_module_of_an_error():
    model = nn.Sequential(nn.Identity(), nn.Sequential(Bad()))
    with pytest.raises(KeyError) as raised:
        model(torch.zeros(2))
    assert innermost_module(raised.value) == "1.0 (Bad)"
