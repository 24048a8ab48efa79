"""Measures of hidden states (Sengupta et al. 2023, section 5), computed from tensors."""

import math
import warnings
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from scipy import stats
from sklearn.manifold import Isomap
from torch import Tensor

QUARTILES = ("smallest", "lower_quartile", "median", "upper_quartile", "largest")
NEIGHBOURS = 5  # number of neighbours per token in Isomap, each in all layers


def activation_factors(states: Tensor) -> Tensor:
    """Return ||X_i^(l) - X_j^(l)|| / ||X_i^(0) - X_j^(0)|| for all pairs of tokens (Eq. 5).

    Args:
        states: X^(0), ..., X^(L) (L + 1, T, C).

    Returns:
        The factors of the T (T - 1) / 2 pairs i < j after each layer (L, pairs); nan if X_i^(0) and
        X_j^(0) are equal.
    """
    distances = torch.stack([F.pdist(x) for x in states])
    first = distances[0]
    return distances[1:] / first.where(first > 0, math.nan)


def dot_product_factors(states: Tensor) -> Tensor:
    """Return X_i^(l) . X_j^(l) / X_i^(0) . X_j^(0): Eq. 5 with dot products instead of distances.

    A factor is nan where X_i^(0) and X_j^(0) are orthogonal.
    """
    rows, columns = torch.triu_indices(states.size(1), states.size(1), 1, device=states.device)
    products = (states @ states.transpose(1, 2))[:, rows, columns]
    first = products[0]
    return products[1:] / first.where(first != 0, math.nan)


def differential_entropy(values: Tensor) -> Tensor:
    """Estimate the entropy, in nats, of the density of the values along the last dimension.

    The values of a token are its C features: P of Eq. 6 is their density, and the entropy of a text
    is the mean over its tokens. The estimate uses the spacings of the sorted values,
    x_(i+m) - x_(i-m) with m = round(sqrt(C)), as in Vasicek (1976), and the correction at the ends
    of Ebrahimi et al. (1994). For a Gaussian, it is 0.1 too small with 32 values and off by 0.01
    with 256 or more. It is minus infinity if so many values are equal that a spacing is zero, and
    nan for fewer than five values, which have no such spacings.
    """
    if values.size(-1) < 5:
        return torch.full(values.shape[:-1], math.nan, dtype=torch.double)
    numbers = values.double().cpu().numpy()
    with np.errstate(divide="ignore"):  # log 0
        entropy = stats.differential_entropy(numbers, axis=-1, method="ebrahimi")
    return torch.from_numpy(np.asarray(entropy))


def summarize(values: Tensor) -> dict[str, np.ndarray]:
    """Return mean and :data:`QUARTILES` of a text's finite values, along the last dimension.

    They are nan if no value is finite; ``left_out`` is the number of values that are not finite.
    """
    numbers = values.double().cpu().numpy()
    finite = np.isfinite(numbers)
    numbers = np.where(finite, numbers, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no value is finite
        quartiles = np.nanquantile(numbers, (0, 0.25, 0.5, 0.75, 1), -1)
        mean = np.nanmean(numbers, -1)
    return {"mean": mean, **dict(zip(QUARTILES, quartiles)), "left_out": (~finite).sum(-1)}


def over_texts(summaries: Sequence[dict[str, np.ndarray]], **first: int) -> list[dict[str, float]]:
    """Average the statistics of :func:`summarize` over several texts, and return them as rows.

    ``smallest`` and ``largest`` are the extremes of all texts, ``left_out`` is the number in all
    texts, and ``deviation`` is the standard deviation of ``mean`` over the texts.

    Args:
        first: name and first index of each dimension.
    """
    values = {name: np.stack([each[name] for each in summaries]) for name in summaries[0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no value is finite
        statistics = {name: np.nanmean(of_texts, 0) for name, of_texts in values.items()}
        statistics["smallest"] = np.nanmin(values["smallest"], 0)
        statistics["largest"] = np.nanmax(values["largest"], 0)
        statistics["deviation"] = np.nanstd(values["mean"], 0)
        statistics["left_out"] = values["left_out"].sum(0)
    return [
        {
            **{name: start + at for (name, start), at in zip(first.items(), index)},
            **{name: column[index].item() for name, column in statistics.items()},
        }
        for index in np.ndindex(statistics["mean"].shape)
    ]


def isomap(states: Tensor) -> np.ndarray:
    """Map the tokens of all layers to one plane (L + 1, T, 2) by Isomap (Tenenbaum et al. 2000).

    One map for all layers shows how they change distances. First, the tokens of each layer are
    shifted to a mean of zero, since a common shift does not change distances. The number of
    neighbours is multiplied by the number of layers, since a token that hardly moves is its own
    neighbour in the other layers.
    """
    states = states.double()
    points = (states - states.mean(1, keepdim=True)).flatten(0, 1).cpu().numpy()
    neighbours = min(NEIGHBOURS * len(states), len(points) - 1)
    mapping = Isomap(n_neighbors=neighbours, eigen_solver="dense")
    with warnings.catch_warnings():
        # Isomap joins parts that no neighbours connect at their closest points, and warns.
        warnings.simplefilter("ignore")
        plane = mapping.fit_transform(points)
    return plane.reshape(*states.shape[:2], 2)
