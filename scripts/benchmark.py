#!/usr/bin/env python3
"""Speed of the architectures against fairseq's own Transformer of the same size, side by side.

    scripts/benchmark.py train       one training step of translation (forward, backward, Adam)
    scripts/benchmark.py generate    beam search over a batch, as fairseq-generate does it
    scripts/benchmark.py encoder     one training step of the encoder alone, at several lengths
    scripts/benchmark.py classify    one training step of a classifier, by fairseq's trainer
    scripts/benchmark.py infer       the encoder of a classifier in evaluation, without gradients
    scripts/benchmark.py orthogonal  TransJect's orthogonal matrices in a training step, and their
                                     gradients; instead of models: blocks, cayley, matrix_exp

In each round every model runs once, in turn, so that a ratio compares neighbours in time. Printed
are the medians over the rounds, and the median (minimum-maximum) over the rounds of the ratio to
the first model: above 1 is faster than it. Batches are random; all sequences have the given
length.
"""

import argparse
import logging
import platform
import re
import statistics
import time
from contextlib import nullcontext
from types import SimpleNamespace

import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import build_model
from fairseq.optim.adam import FairseqAdam
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq.trainer import Trainer
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parametrizations

import fairseq_odeformers  # noqa: F401  registers the architectures
from fairseq_odeformers.models.transevolve import naive
from fairseq_odeformers.models.transevolve.attention import BACKENDS, TimeEvolvingAttention
from fairseq_odeformers.modules.orthogonal import OrthogonalMatrices

SIZES = {
    "transformer": "--arch transformer --encoder-layers {layers} --decoder-layers {layers}",
    "transevolve": "--arch {model} --encoder-blocks {blocks} --encoder-depth {depth}",
    "macaron": (
        "--arch {model} --encoder-layers {layers} --decoder-layers {layers} --activation-dropout 0"
    ),
}
ENCODER = (
    " --encoder-embed-dim {embed_dim} --encoder-ffn-embed-dim {inner_width} "
    "--encoder-attention-heads {heads} --dropout {dropout} "
    "--attention-dropout {attention_dropout} "
)
DECODER = (
    "--decoder-embed-dim {embed_dim} --decoder-ffn-embed-dim {inner_width} "
    "--decoder-attention-heads {heads} --share-all-embeddings "
    "--max-source-positions 100000 --max-target-positions 100000"
)
CLASSIFIERS = {
    "transevolve": "--encoder-blocks {blocks} --encoder-depth {depth}" + ENCODER,
    "transformer": "--encoder-layers {layers}" + ENCODER,
    "macaron": "--encoder-layers {layers}" + ENCODER,
    "transject": (
        "--encoder-layers {layers} --encoder-experts {experts} --encoder-embed-dim {embed_dim} "
    ),
}
ORTHOGONAL_MAPS = ("cayley", "matrix_exp")  # torch's
MATERIALIZED = "materialized"  # form of a Transformer
CLASSIFICATION = (
    "--arch {model} --task sentence_prediction --num-classes 2 --max-positions 100000 "
    "--criterion sequence_classification --optimizer adam --lr 5e-4 --batch-size {batch}"
)


def family(name):
    """The architectures that take the same options, such as ``transevolve``."""
    return re.match("[a-z]*", name).group()


def random_dictionary(size):
    dictionary = Dictionary()
    while len(dictionary) < size:
        dictionary.add_symbol(f"word{len(dictionary)}")
    return dictionary


def parse(line, name, args):
    """The configuration that fairseq-train makes of a command line."""
    model, _, form = name.partition(":")
    halves = model.startswith("macaron")  # it has two FFNs of half the width
    line = line.format(
        model=model,
        layers=args.blocks * args.depth,
        inner_width=args.ffn_embed_dim // (2 if halves else 1),
        experts=form or 4,
        **vars(args),
    )
    parsed = options.parse_args_and_arch(options.get_training_parser(), ["unused", *line.split()])
    return convert_namespace_to_omegaconf(parsed)


def make_model(name, args, dictionary):
    """A translation model by its architecture, ``:form`` appended for a form of its attention."""
    line = SIZES[family(name)] + ENCODER + DECODER + " --task translation"
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    return set_form(build_model(parse(line, name, args).model, task), name)


def set_form(model, name):
    """The model with the form of attention that its name asks for."""
    form = name.partition(":")[2]
    for module in model.modules():
        if isinstance(module, TimeEvolvingAttention) and form:
            module.backend = form
            if form == "literal":
                module.__class__ = LiteralAttention
                module.add_literal_parameters()
    return model


class LiteralAttention(TimeEvolvingAttention):
    """The paper's formula as it stands: A1, A2, A3 and a softmax at every depth (Eqs. 6 and 9)."""

    def add_literal_parameters(self):
        self.time_key = torch.nn.Parameter(torch.empty_like(self.time_query))
        torch.nn.init.xavier_uniform_(self.time_key)

    def forward(self, query, key, key_padding_mask=None):
        weights = self.q_proj.weight.T, self.k_proj.weight.T, self.time_query, self.time_key
        mask = None if key_padding_mask is None else key_padding_mask[:, None, None]
        return naive.initial_scores(query, key, *weights, self.num_heads), mask

    def evolve(self, scores, mask):
        time_map = self.time_map()
        return lambda depth, value: naive.attention(scores, time_map[depth], mask) @ value


def training_step(model, args, dictionary, length):
    tokens = torch.randint(dictionary.nspecial, len(dictionary), (args.batch, length))
    lengths = torch.full((args.batch,), length)
    previous = tokens.roll(1, 1)
    optimizer = FairseqAdam(
        SimpleNamespace(
            adam_betas="(0.9, 0.98)",
            adam_eps=1e-8,
            weight_decay=0.0,
            lr=[5e-4],
            tpu=False,
            use_old_adam=False,
            fp16_adam_stats=False,
        ),
        list(model.parameters()),
    )
    model.train()

    def step():
        logits, _ = model(tokens, lengths, previous)
        lprobs = logits.log_softmax(-1).flatten(0, 1)
        torch.nn.functional.nll_loss(lprobs, tokens.flatten(), reduction="sum").backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def encoder_step(model, args, dictionary, length):
    tokens = torch.randint(dictionary.nspecial, len(dictionary), (args.batch, length))
    lengths = torch.full((args.batch,), length)
    encoder = model.encoder.train()

    def step():
        encoder(tokens, lengths)["encoder_out"][0].square().sum().backward()
        encoder.zero_grad()

    return step


def make_classifier(name, args, dictionary):
    """A classifier, its configuration and its task."""
    cfg = parse(CLASSIFIERS[family(name)] + CLASSIFICATION, name, args)
    task = SentencePredictionTask(cfg.task, dictionary, dictionary)
    return set_form(task.build_model(cfg.model), name), cfg, task


def trainer_step(name, args, dictionary, length):
    """A step of fairseq's trainer, and the model that it trains."""
    model, cfg, task = make_classifier(name, args, dictionary)
    trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
    sample = {
        "net_input": {
            "src_tokens": torch.randint(dictionary.nspecial, len(dictionary), (args.batch, length)),
            "src_lengths": torch.full((args.batch,), length),
        },
        "target": torch.randint(2, (args.batch, 1)),
        "ntokens": args.batch * length,
    }
    return lambda: trainer.train_step([sample]), model


def inference(name, args, dictionary, length):
    """The encoder over a batch, and the classifier that it belongs to."""
    model, _, _ = make_classifier(name, args, dictionary)
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith("residual_weight"):  # or a layer would add zeros
            torch.nn.init.constant_(parameter, 0.3)
    tokens = torch.randint(dictionary.nspecial, len(dictionary), (args.batch, length))
    materialized = name.endswith(MATERIALIZED)

    @torch.no_grad()
    def step():
        with sdpa_kernel(SDPBackend.MATH) if materialized else nullcontext():
            model.encoder(tokens)

    return step, model.eval()


def orthogonalization(name, args, dictionary, length):
    """The matrices of a TransJect with four experts and their gradients, and what makes them.

    Either a stack a part of the model, or by a parametrisation of torch for each linear map.
    """
    counts = [1] + [2 * 4, 2] * (args.blocks * args.depth)
    if name == "blocks":
        parts = [OrthogonalMatrices(count, args.embed_dim) for count in counts]
    else:
        size = args.embed_dim, args.embed_dim
        linear = [torch.nn.Linear(*size, bias=False) for _ in range(sum(counts))]
        parts = [parametrizations.orthogonal(part, orthogonal_map=name) for part in linear]
    module = torch.nn.ModuleList(parts)

    def step():
        matrices = [part() if name == "blocks" else part.weight for part in module]
        torch.autograd.backward(matrices, [matrix.detach() for matrix in matrices])
        module.zero_grad()

    return step, module


def generation(model, args, dictionary, length):
    model.eval()
    generator = SequenceGenerator(
        [model], dictionary, beam_size=args.beam, max_len_a=0, max_len_b=length, min_len=length
    )
    tokens = torch.randint(dictionary.nspecial, len(dictionary), (args.batch, length))
    tokens[:, -1] = dictionary.eos()
    sample = {"net_input": {"src_tokens": tokens, "src_lengths": torch.full((args.batch,), length)}}
    return lambda: generator.generate([model], sample)


MEASUREMENTS = {"train": training_step, "generate": generation, "encoder": encoder_step}
WITH_THEIR_MODELS = {
    "classify": trainer_step,
    "infer": inference,
    "orthogonal": orthogonalization,
}


def measure(steps, rounds):
    """Seconds of each of *steps* in each round, one after the other, after a warm-up round."""
    seconds = {name: [] for name in steps}
    for round_ in range(rounds + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if round_:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=[*MEASUREMENTS, *WITH_THEIR_MODELS])
    parser.add_argument(
        "--models",
        nargs="+",
        help="architectures, the first of which is compared against (default: fairseq's and a "
        "TransEvolve); append :direct, :factored, :fused or (encoder, classify) :literal to a "
        "transevolve for a form of its attention, (infer) :materialized to a transformer for "
        "attention by a matrix of scores, and :N to a transject for N experts (default: 4)",
    )
    parser.add_argument("--embed-dim", type=int, default=256)
    parser.add_argument("--ffn-embed-dim", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--depth", type=int, default=2, help="of a block; layers = blocks x depth")
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--attention-dropout", type=float, default=0.0)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lengths", type=int, nargs="+", default=[16])
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.models is None:
        kind = "_classifier" if args.what in ("classify", "infer") else ""
        args.models = [f"transformer{kind}", f"transevolve{kind}_fullff_2"]
        if args.what == "orthogonal":
            args.models = ["cayley", "blocks"]
    families = CLASSIFIERS if args.what in ("classify", "infer") else SIZES
    for name in args.models:
        if args.what == "orthogonal":
            if name not in ("blocks", *ORTHOGONAL_MAPS):
                parser.error(f"--models {name}: choose from blocks, {', '.join(ORTHOGONAL_MAPS)}")
            continue
        if family(name) not in families:
            parser.error(f"--models {name}: choose from the families {', '.join(families)}")
        model, _, form = name.partition(":")
        experts = model.startswith("transject") and form.isdigit()
        if not experts and form not in ("", "literal", MATERIALIZED, *BACKENDS):
            parser.error(f"--models {name}: no such form of the model")
        if name.endswith(":literal") and args.what not in ("encoder", "classify"):
            parser.error(f"--models {name}: the literal formula is for the encoder alone")
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)

    dictionary = random_dictionary(args.vocabulary)
    print(" ".join(f"{key}={value}" for key, value in vars(args).items() if key != "models"))
    print(f"{platform.machine()}, torch {torch.__version__}")
    print(f"\n| length | model | parameters | ms | x {args.models[0]} (min-max) |")
    print("| ---: | --- | ---: | ---: | --- |")
    for length in args.lengths:
        steps, models = {}, {}
        for name in args.models:
            if args.what in WITH_THEIR_MODELS:
                make = WITH_THEIR_MODELS[args.what]
                steps[name], models[name] = make(name, args, dictionary, length)
            else:
                models[name] = make_model(name, args, dictionary)
                steps[name] = MEASUREMENTS[args.what](models[name], args, dictionary, length)
        seconds = measure(steps, args.rounds)
        for name, times in seconds.items():
            ratios = [base / own for base, own in zip(seconds[args.models[0]], times)]
            size = sum(p.numel() for p in models[name].parameters())
            print(
                f"| {length} | {name} | {size:,} | {statistics.median(times) * 1e3:.0f} | "
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}) |",
                flush=True,
            )


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main()
