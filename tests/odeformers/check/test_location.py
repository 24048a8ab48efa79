"""The module and line to blame for an error, or for a number that is not finite."""

from functools import partial

import pytest
import torch
from torch import nn

from odeformers.check.location import find_not_finite, innermost_module


class Bad(nn.Module):
    def forward(self, x):
        raise KeyError("caught")


class Outer(nn.Module):
    """Catches the error of an inner module, and then calls a function."""

    def __init__(self, function):
        super().__init__()
        self.bad, self.function = Bad(), function

    def forward(self, x):
        try:
            self.bad(x)
        except KeyError:
            pass
        return self.function(x)


@pytest.mark.parametrize(
    "function, blamed",
    [
        (lambda x: 1 - x / 0, True),
        (lambda x: x.masked_fill(x > 0, -torch.inf).softmax(0), True),  # not the mask
        (lambda x: x * torch.nan, True),
        (lambda x: torch.where(x > 0, x, x / 0), False),  # what is not returned
        (lambda x: x, False),
    ],
)
def test_the_origin_of_a_non_finite_number_is_located(function, blamed):
    """The first module with such a number in its output alone is named with its file and line."""
    model = nn.Sequential(Outer(torch.exp), Outer(function), Outer(torch.log))
    evaluate = partial(model, torch.ones(2))
    line = Outer.forward.__code__.co_firstlineno
    message = f"1 (Outer), {__file__}, line {line}" if blamed else ""
    assert find_not_finite(model, evaluate) == message


def test_the_innermost_module_of_an_error_is_named():
    model = nn.Sequential(nn.Identity(), nn.Sequential(Bad()))
    with pytest.raises(KeyError) as raised:
        model(torch.zeros(2))
    assert innermost_module(raised.value) == "1.0 (Bad)"
