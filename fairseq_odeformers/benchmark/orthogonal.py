"""The orthogonal matrices of a TransJect with four experts in a training step, and gradients.

What makes them is in the place of a model: ``blocks``, as the package does, a stack a part of the
model; ``cayley`` or ``matrix_exp``, a parametrisation of torch's for each linear map.
"""

import torch
from torch.nn.utils import parametrizations

from fairseq_odeformers.modules.orthogonal import OrthogonalMatrices

from .subjects import Subject
from .timing import Step

SETTINGS = {"embed_dim", "layers", "device"}
MAPS = ("cayley", "blocks", "matrix_exp")


def build(name: str, args) -> Subject:
    """One matrix of the embedding, and in each layer two an expert and two of its FFN.

    Raises:
        ValueError: there is no such map.
    """
    if name not in MAPS:
        raise ValueError(f"--models {name}: choose from {', '.join(MAPS)}")
    counts = [1] + [2 * 4, 2] * args.layers
    width = args.embed_dim
    if name == "blocks":
        parts = (OrthogonalMatrices(n, width) for n in counts)
    else:
        linear = (torch.nn.Linear(width, width, bias=False) for _ in range(sum(counts)))
        parts = (parametrizations.orthogonal(m, orthogonal_map=name) for m in linear)
    return Subject(name, torch.nn.ModuleList(parts).to(args.device), None, None)


def step(subject: Subject, args, length: int) -> Step:
    parts = subject.model

    def run():
        matrices = [
            part() if isinstance(part, OrthogonalMatrices) else part.weight for part in parts
        ]
        torch.autograd.backward(matrices, [matrix.detach() for matrix in matrices])
        parts.zero_grad()

    return run
