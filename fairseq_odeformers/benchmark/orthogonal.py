"""The orthogonal matrices of a TransJect with four experts in a training step, and gradients.

What makes them is in the place of a model: ``blocks``, as the package does, a stack a part of the
model; ``cayley`` or ``matrix_exp``, a parametrisation of torch's for each linear map.
"""

import torch
from torch.nn.utils import parametrizations

from fairseq_odeformers.modules.orthogonal import OrthogonalMatrices

from .timing import Step

MAPS = ("cayley", "blocks", "matrix_exp")


def build(name: str, args) -> torch.nn.ModuleList:
    """One matrix of the embedding, and in each layer two an expert and two of its FFN.

    Raises:
        ValueError: there is no such map.
    """
    if name not in MAPS:
        raise ValueError(f"--models {name}: choose from {', '.join(MAPS)}")
    counts = [1] + [2 * 4, 2] * args.layers
    if name == "blocks":
        return torch.nn.ModuleList(OrthogonalMatrices(n, args.embed_dim) for n in counts)
    size = args.embed_dim, args.embed_dim
    linear = (torch.nn.Linear(*size, bias=False) for _ in range(sum(counts)))
    return torch.nn.ModuleList(parametrizations.orthogonal(m, orthogonal_map=name) for m in linear)


def step(parts: torch.nn.ModuleList) -> Step:
    def run():
        matrices = [
            part() if isinstance(part, OrthogonalMatrices) else part.weight for part in parts
        ]
        torch.autograd.backward(matrices, [matrix.detach() for matrix in matrices])
        parts.zero_grad()

    return run
