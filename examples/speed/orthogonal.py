"""Time TransJect's orthogonal matrices and their gradients, beside torch's parametrisations.

    python examples/speed/orthogonal.py --embed-dim 512 --layers 6

    blocks          as TransJect makes them, in one stack per part of the model
    cayley          each linear map by torch.nn.utils.parametrizations.orthogonal
    matrix_exp      likewise

A model with four experts has one matrix for the embedding, and in each layer two per expert and two
for the FFN. The ways take turns; ratios compare them with the first one in each round.
"""

import argparse

import torch
from torch import nn
from torch.nn.utils import parametrizations

from fairseq_odeformers.modules.orthogonal import OrthogonalMatrices
from odeformers.benchmark import timing
from odeformers.parser import positive_int

WAYS = ("blocks", "cayley", "matrix_exp")


def build(way: str, width: int, layers: int) -> nn.ModuleList:
    """The modules that make the matrices."""
    counts = [1] + [2 * 4, 2] * layers
    if way == "blocks":
        return nn.ModuleList(OrthogonalMatrices(count, width) for count in counts)
    linear = (nn.Linear(width, width, bias=False) for _ in range(sum(counts)))
    return nn.ModuleList(parametrizations.orthogonal(each, orthogonal_map=way) for each in linear)


def make(parts: nn.ModuleList) -> list[torch.Tensor]:
    """The matrices, stacked where a module makes several."""
    return [p() if isinstance(p, OrthogonalMatrices) else p.weight for p in parts]


def make_step(parts: nn.ModuleList) -> timing.Step:
    """Make all matrices, and go back through them."""

    def step():
        matrices = make(parts)
        torch.autograd.backward(matrices, [matrix.detach() for matrix in matrices])
        parts.zero_grad()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--models", nargs="+", choices=WAYS, default=WAYS[:2], metavar="WAY")
    add("--embed-dim", type=positive_int, default=256)
    add("--layers", type=positive_int, default=4)
    add("--rounds", type=positive_int, default=5)
    add("--threads", type=positive_int, default=torch.get_num_threads())
    add("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    models = {way: build(way, args.embed_dim, args.layers).to(args.device) for way in args.models}
    steps = {way: make_step(parts) for way, parts in models.items()}
    timing.print_times(models, steps, args.rounds, args.device, layers=args.layers)


if __name__ == "__main__":
    main()
