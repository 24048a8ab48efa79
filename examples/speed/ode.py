"""Time a training step of the N-ODE Transformer on parity, beside plainer solvers.

    python examples/speed/ode.py --rounds 9

    plain              torchdiffeq around the paper's formula as it stands (naive.py)
    torchdiffeq        torchdiffeq around the vector field of this package
    node_transformer   the model as it is
    vanilla_transformer

All strings up to a length are one batch; a step is forward pass, cross-entropy and backward pass.
Models take turns; ratios compare them with the first one in each round.
"""

import argparse
import logging
from typing import Any

import torch
from fairseq import options, utils
from fairseq.tasks import setup_task
from torchdiffeq import odeint

from fairseq_odeformers.models.node_transformer import naive
from fairseq_odeformers.models.node_transformer.layout import features_first, tokens_first
from fairseq_odeformers.models.node_transformer.problem import Solution
from fairseq_odeformers.modules.transformer_layer import Block
from odeformers import fairseq_options
from odeformers.benchmark import timing
from odeformers.parser import integer, positive_int


class TorchdiffeqBlock(Block):
    """A block that torchdiffeq solves, over the vector field of this package."""

    def __init__(self, block):
        super().__init__()
        self.field, self.solver, self.final_time = block.field, block.solver, block.final_time

    def forward(self, x, encoder_padding_mask):
        start = features_first(x)
        end = self.solve(self.field.bind(start, encoder_padding_mask), start)
        return tokens_first(end), Solution(end, x.new_zeros(x.size(1)), {})

    def solve(self, f, x):
        options = {"rtol": self.solver.rtol, "atol": self.solver.atol, "method": self.solver.method}
        return odeint(f, x, x.new_tensor([0.0, self.final_time]), **options)[-1]


class PlainBlock(TorchdiffeqBlock):
    """The same over the formula as it stands."""

    def forward(self, x, encoder_padding_mask):
        field, mask = self.field, encoder_padding_mask[:, None, None]
        attention, heads = field.self_attn, field.self_attn.num_heads
        linears = attention.q, attention.k, attention.v, attention.out, field.fc1, field.fc2
        *mhsa, fc1, fc2 = (naive.Affine(each.weight, each.bias, each.time) for each in linears)

        def slope(t, x):
            return naive.composed(
                lambda t, x: naive.feed_forward((fc1, fc2), t, x),
                lambda t, x: naive.attention(mhsa, heads, t, x, x, mask),
                *(t, x),
            )

        end = self.solve(slope, x.transpose(0, 1))
        return end.transpose(0, 1), Solution(end, x.new_zeros(x.size(1)), {})


BLOCKS = {"plain": PlainBlock, "torchdiffeq": TorchdiffeqBlock}
MODELS = (*BLOCKS, "node_transformer", "vanilla_transformer")


def build(name: str, args: argparse.Namespace) -> tuple[torch.nn.Module, timing.Step]:
    """A model, and a training step of it on all strings up to ``--length``."""
    line = f"--task parity --arch {'node_transformer' if name in BLOCKS else name}"
    line += f" --criterion sequence_classification --encoder-embed-dim {args.embed_dim}"
    line += f" --encoder-layers {args.layers} --parity-max-length {args.length}"
    parsed = options.parse_args_and_arch(options.get_training_parser(), line.split())
    cfg = fairseq_options.make_config(parsed)
    task = setup_task(cfg.task)
    torch.manual_seed(1)
    model: Any = task.build_model(cfg.model).to(args.device)
    if name in BLOCKS:
        layers = model.encoder.layers
        for index, block in enumerate(layers):
            layers[index] = BLOCKS[name](block)
    criterion = task.build_criterion(cfg.criterion)
    task.load_dataset("train")
    strings = task.dataset("train")
    sample = strings.collater(range(len(strings)))
    sample = utils.apply_to_sample(lambda tensor: tensor.to(args.device), sample)

    def step():
        loss, _, _ = criterion(model, sample)
        loss.backward()
        model.zero_grad()
        return loss.detach()

    return model, step


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--models", nargs="+", choices=MODELS, default=MODELS, metavar="MODEL")
    add("--embed-dim", type=positive_int, default=8)
    add("--layers", type=positive_int, default=2)
    add("--length", type=lambda text: integer(text, minimum=2), default=6, help="of the strings")
    add("--rounds", type=positive_int, default=15)
    add("--threads", type=positive_int, default=torch.get_num_threads())
    add("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    logging.disable(logging.WARNING)  # hydra's
    torch.set_num_threads(args.threads)
    models, steps = {}, {}
    for name in args.models:
        models[name], steps[name] = build(name, args)
    timing.print_times(models, steps, args.rounds, args.device, length=args.length)


if __name__ == "__main__":
    main()
