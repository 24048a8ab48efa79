"""The module that is to blame for an error, or for a number that is not finite."""

import pytest
import torch
from torch import nn

from fairseq_odeformers.lab.check.location import locating


class Bad(nn.Module):
    def forward(self, x):
        raise KeyError("caught")


class Log(nn.Module):
    def forward(self, x):
        return x.log()


class Outer(nn.Module):
    """Catches the error of a module inside of it, and calls the other."""

    def __init__(self):
        super().__init__()
        self.bad, self.log = Bad(), Log()

    def forward(self, x):
        try:
            self.bad(x)
        except KeyError:
            pass
        return self.log(x) if x.dim() else -x / 0


@pytest.mark.parametrize("x, said", [(torch.zeros(2), "log (Log)"), (torch.ones(()), "Outer")])
def test_a_module_that_has_raised_what_was_caught_is_not_blamed(x, said):
    with locating() as location:
        Outer()(x)
    assert location.not_finite.startswith(f"{said}, {__file__}, line ")
    assert location.innermost == ""


def test_the_innermost_module_of_an_error():
    model = nn.Sequential(nn.Identity(), nn.Sequential(Bad()))
    with pytest.raises(KeyError), locating() as location:
        model(torch.zeros(2))
    assert location.innermost == "1.0 (Bad)"
