"""Models are built only from finite weights, of any precision, and no larger than the weights."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fairseq_odeformers.checkpoints.trust import check_finite, limit_size

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_single_non_finite_weight_is_refused(dtype, value):
    weights = {"whole": torch.tensor([3]), "finite": torch.zeros(5), "w": torch.zeros(2, 3)}
    weights["w"] = weights["w"].to(dtype)
    check_finite("a.pt", weights)
    weights["w"][1, 2] = value
    with pytest.raises(ValueError, match="^a.pt: w is not finite"):
        check_finite("a.pt", weights)


@pytest.mark.parametrize("sizes", [[1] * 108, [4 * 10 + 10**6]])
def test_the_size_of_a_model_is_limited_by_its_weights(sizes):
    """Two weights of ten numbers allow exactly 108 parameters and 1,000,040 numbers."""
    weights = {"a": torch.zeros(4), "b": torch.zeros(2, 3)}
    with limit_size("a.pt", [*weights.values()]):
        layer = torch.nn.Module()
        for index, size in enumerate(sizes):
            layer.register_parameter(str(index), torch.nn.Parameter(torch.empty(size)))
        with pytest.raises(ValueError, match="^a.pt: .* a larger model than its weights"):
            layer.register_parameter("more", torch.nn.Parameter(torch.empty(1)))
    layer.register_parameter("more", torch.nn.Parameter(torch.empty(1)))


def test_models_of_other_threads_are_not_limited():
    with limit_size("a.pt", []), ThreadPoolExecutor() as other:
        assert other.submit(torch.nn.Linear, 2000, 1000).result().in_features == 2000
        with pytest.raises(ValueError, match="larger model"):
            torch.nn.Linear(2000, 1000)
