#!/usr/bin/env python3
"""Speed of a training step of the N-ODE Transformer on parity, against the plain way.

    plain              torchdiffeq around the paper's formula in torch's usual modules
    torchdiffeq        torchdiffeq around the vector field of this package
    node_transformer   the model as it is
    vanilla_transformer

All strings up to six bits are one batch; a step is forward pass, cross-entropy and backward pass.
Models take turns; printed are medians over the rounds, and median (minimum-maximum) of the ratio of
the plain way's time to each: above 1 is faster than it.
"""

import argparse
import platform
import statistics

import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import setup_task
from torch import nn
from torchdiffeq import odeint

import fairseq_odeformers  # noqa: F401  registers models and task
from fairseq_odeformers.benchmark.timing import measure
from fairseq_odeformers.models.node_transformer.layout import features_first, tokens_first
from fairseq_odeformers.models.node_transformer.solver import Solution


class TorchdiffeqBlock(nn.Module):
    """A block that torchdiffeq solves, over the vector field of this package."""

    def __init__(self, block):
        super().__init__()
        self.field, self.solver, self.final_time = block.field, block.solver, block.final_time

    def forward(self, x, encoder_padding_mask):
        start = features_first(x)
        end = self.solve(self.field.of_batch(start, encoder_padding_mask), start)
        return tokens_first(end), Solution(end, x.new_zeros(x.size(1)), {})

    def solve(self, f, x):
        options = {"rtol": self.solver.rtol, "atol": self.solver.atol, "method": self.solver.method}
        return odeint(f, x, torch.tensor([0.0, self.final_time]), **options)[-1]


class PlainBlock(TorchdiffeqBlock):
    """The same over linear maps a module, and heads in batches of matrices."""

    def forward(self, x, encoder_padding_mask):
        f, attention = self.field, self.field.self_attn
        mask = encoder_padding_mask[:, None, None]

        def heads(x):
            return x.unflatten(2, (attention.num_heads, -1)).transpose(1, 2)

        def slope(t, x):
            q, k, v = (heads(linear(t, x)) for linear in (attention.q, attention.k, attention.v))
            scores = q @ k.transpose(2, 3) * q.size(3) ** -0.5
            weights = scores.masked_fill(mask, float("-inf")).softmax(3)
            x = attention.out(t, (weights @ v).transpose(1, 2).flatten(2))
            return f.fc2(t, torch.relu(f.fc1(t, x)))

        end = self.solve(slope, x.transpose(0, 1))
        return end.transpose(0, 1), Solution(end, x.new_zeros(x.size(1)), {})


BLOCKS = {"plain": PlainBlock, "torchdiffeq": TorchdiffeqBlock}
MODELS = (*BLOCKS, "node_transformer", "vanilla_transformer")


def training_step(name, args):
    """A step on all strings, which returns the loss, and the number of the model's parameters."""
    line = f"--task parity --arch {'node_transformer' if name in BLOCKS else name}"
    line += f" --criterion sequence_classification --encoder-embed-dim {args.embed_dim}"
    line += f" --encoder-layers {args.layers} --parity-max-length {args.max_length}"
    parsed = options.parse_args_and_arch(options.get_training_parser(), line.split())
    cfg = convert_namespace_to_omegaconf(parsed)
    task = setup_task(cfg.task)
    torch.manual_seed(args.seed)
    model = task.build_model(cfg.model)
    if name in BLOCKS:
        layers = model.encoder.layers
        for index, block in enumerate(layers):
            layers[index] = BLOCKS[name](block)
    criterion = task.build_criterion(cfg.criterion)
    task.load_dataset("train")
    strings = task.dataset("train")
    sample = strings.collater(range(len(strings)))

    def step():
        loss, _, _ = criterion(model, sample)
        loss.backward()
        model.zero_grad()
        return loss.detach()

    return step, sum(p.numel() for p in model.parameters())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--embed-dim", type=int, default=8, help="width d")
    parser.add_argument("--layers", type=int, default=2, help="number N of blocks")
    parser.add_argument("--max-length", type=int, default=6, help="bits of the longest strings")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    if args.max_length < 2:
        parser.error(f"--max-length {args.max_length}: give 2 or more, or there is no padding")
    torch.set_num_threads(args.threads)
    steps, sizes = {}, {}
    for name in MODELS:
        steps[name], sizes[name] = training_step(name, args)
    print(" ".join(f"{key}={value}" for key, value in vars(args).items()))
    print(f"{platform.machine()}, torch {torch.__version__}")
    print("\n| model | parameters | ms | x plain (min-max) |\n| --- | ---: | ---: | --- |")
    seconds = measure(steps, args.rounds)
    for name, times in seconds.items():
        ratios = [plain / own for plain, own in zip(seconds["plain"], times)]
        print(
            f"| {name} | {sizes[name]:,} | {statistics.median(times) * 1e3:.1f} | "
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}) |"
        )


if __name__ == "__main__":
    main()
