"""A linear map that has no bias at all."""

from torch import nn


class LinearWithoutBias(nn.Linear):
    """x W^T.

    torch's own, without a bias, still lists one that is None, and fairseq's trainer takes all such
    entries of a model for one shared parameter and reports each.
    """

    def __init__(self, in_features: int, out_features: int):
        super().__init__(in_features, out_features, bias=False)
        del self.bias
        self.bias = None
