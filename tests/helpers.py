"""Helpers of tests of several architectures."""

import copy
import re
from argparse import Namespace
from functools import cache

import fairseq
import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    FairseqLanguageModel,
    build_model,
)
from fairseq.models.roberta import RobertaModel
from omegaconf import OmegaConf

from fairseq_odeformers.inference.untrained import make_parts
from fairseq_odeformers.models.common import naive
from fairseq_odeformers.models.common.sequence_classifier import SequenceClassifier
from fairseq_odeformers.options import flag
from fairseq_odeformers.registry import default_options, kind_of
from odeformers.fairseq_options import training_parser
from odeformers.sizes import size_options

SIZES = {"embed_dim": 16, "ffn_embed_dim": 32, "attention_heads": 2}
SOLVERS = {  # steps do not depend on the rest of a batch
    "node_transformer": "--adaptivity sequence",
    "node_transformer_mt": "--ode-method rk4 --ode-steps 2",
}
PAD, EOS = 1, 2
OLD = fairseq.__version__ == "0.12.2"  # the one of Python 3.10, which has fewer options

# Names of the copies of parameters that an encoder layer of fairseq 0.12.2 has for an inference
# kernel: they are not trained.
COPY = re.compile(r"\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)$")


class Task:
    """The parts of a task that building a model uses."""

    cfg = None

    def __init__(self, words=50, target_words=None):
        self.dictionary = self.source_dictionary = self.make_dictionary(words)
        self.target_dictionary = self.make_dictionary(target_words or words)

    def max_positions(self):
        return 64

    @staticmethod
    def make_dictionary(words):
        dictionary = Dictionary()
        for index in range(words - len(dictionary)):
            dictionary.add_symbol(f"word{index}")
        return dictionary


class LanguageModelling(Task):
    class cfg:
        tokens_per_sample = 64


def configs(line):
    """The model, task and criterion of the configuration that ``fairseq-train`` makes of a line.

    Hydra is not used, since it takes a third of a second to compose all other parts as well. Each
    line is parsed once, since parsing takes most of the time to build a small model.
    """
    return copy.deepcopy(parse(tuple(line)))


@cache
def parse(line):
    return make_parts(options.parse_args_and_arch(training_parser(), line))


def model_config(arch, *extra, task="translation"):
    """The options of a model, as ``fairseq-train`` takes them."""
    return configs(["unused", "--task", task, "--arch", arch, *extra]).model


def resolved(arch, args=None):
    """The options of an architecture: its defaults, or the values on a parsed command line."""
    args = args or Namespace()
    ARCH_CONFIG_REGISTRY[arch](args)
    config = MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY[arch], Namespace)()
    return OmegaConf.create({"model": {**vars(config), **vars(args)}}).model


@cache
def small(arch):
    """The options of a small model: two layers, steps or depths."""
    sizes, known = size_options(arch, SIZES), default_options(arch)
    for side in ("encoder", "decoder"):
        for name in ("layers", "depth", "steps", "experts"):
            follows = str(known.get(f"{side}_{name}", "${model")).startswith("${model")
            if not follows:
                sizes[f"{side}_{name}"] = 2
    return [word for name, size in sizes.items() for word in (flag(name), str(size))]


def task_of(arch):
    """The name of the task that trains models of an architecture by default."""
    return kind_of(ARCH_MODEL_REGISTRY[arch]).tasks[0]


def make_model(arch, *extra, task=None, sizes=None):
    """A small model, unless options say otherwise, without dependence on the rest of a batch."""
    torch.manual_seed(0)
    kind = task_of(arch)
    if sizes is None:
        sizes = [*small(arch), *SOLVERS.get(arch, "").split()]
    if kind == "sentence_prediction":
        extra = ("--criterion", kind, *extra)
    elif kind == "language_modeling":
        task = task or LanguageModelling()
    return build_model(model_config(arch, *sizes, *extra, task=kind), task or Task())


def make_classifier(arch, *extra, classes=3, **options):
    """A small classifier with the head that fairseq's sentence_prediction registers."""
    model = make_model(arch, *extra, **options)
    model.register_classification_head(HEAD, num_classes=classes)
    return model


def make_any(arch, *extra, **options):
    """A small model of any architecture, a classifier with its head."""
    return (make_classifier if arch in CLASSIFIERS else make_model)(arch, *extra, **options)


def wake(model, std=1.0):
    """Give parameters that start at zero, and so switch a branch off, other values."""
    for name, parameter in model.named_parameters():
        zero = name.endswith("layer_norm.weight") and not parameter.any()  # 1 + u e(t)
        if zero or name.endswith((".s1", ".s2", "residual_weight")):
            torch.nn.init.normal_(parameter, std=std)
    return model


CLASSIFIERS = sorted(
    arch for arch, model in ARCH_MODEL_REGISTRY.items() if issubclass(model, SequenceClassifier)
)
HEAD = "sentence_classification_head"


def call(model, source, target):
    """The arguments of a model of any kind for sources, and for targets if it has a decoder.

    A language model reads the targets.
    """
    if isinstance(model, FairseqLanguageModel):
        return {"src_tokens": target}
    inputs = {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}
    if isinstance(model, SequenceClassifier):
        return {**inputs, "classification_head_name": HEAD}
    if isinstance(model, RobertaModel):
        return inputs
    return {**inputs, "prev_output_tokens": target}


def scores(model, *tokens):
    """The logits of a classifier in its current mode."""
    names = ("src_tokens", "src_tokens1")
    return model(**dict(zip(names, tokens)), classification_head_name=HEAD)[0]


def source_batch():
    """Three sentences with fairseq's left padding, and their lengths."""
    torch.manual_seed(1)
    tokens = torch.randint(4, 50, (3, 9))
    tokens[:, -1] = EOS
    tokens[1, :4] = PAD
    tokens[2, :1] = PAD
    return tokens, torch.tensor([9, 5, 8])


def count_parameters(model):
    """The number of parameters, without those that match :data:`COPY`."""
    return sum(p.numel() for name, p in model.named_parameters() if not COPY.search(name))


def layer_norm(norm, x):
    x = x - x.mean(-1, keepdim=True)
    return x / (x.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight + norm.bias


def sub_layers(num_heads):
    """How the formulas of the papers have the sub-layers of fairseq's layer.

    Returns:
        Two functions, which make a pair (F, LN) of the modules of an FFN, and of an attention.
    """

    def linear(module):
        return module.weight.T, module.bias

    def norm(module):
        return lambda x: naive.layer_norm(x, module.weight, module.bias, module.eps)

    def ffn(fc1, fc2, layer_norm):
        return lambda x: naive.feed_forward(x, *linear(fc1), *linear(fc2)), norm(layer_norm)

    def attention(module, layer_norm, source=None, causal=False):
        def project(projection, x):
            weight, bias = linear(projection)
            return x @ weight + bias

        def attend(x):
            y = x if source is None else source
            q = project(module.q_proj, x)
            k, v = project(module.k_proj, y), project(module.v_proj, y)
            return project(module.out_proj, naive.multi_head_attention(q, k, v, num_heads, causal))

        return attend, norm(layer_norm)

    return ffn, attention


def assert_same_gradients(ours, theirs, inputs, tolerance=1e-9):
    """Two results, and the gradients of a weighted sum of each with respect to the inputs."""
    assert (ours - theirs).abs().max() < tolerance
    weight = torch.randn_like(theirs)
    gradients = (torch.autograd.grad((out * weight).sum(), inputs) for out in (ours, theirs))
    for a, b in zip(*gradients):
        assert (a - b).abs().max() < tolerance * max(1, b.abs().max().item())


def checkpoint_of(model, **extra_state):
    """A checkpoint of these tensors, with the entries that fairseq reads."""
    return {
        "args": None,
        "cfg": {"model": Namespace(arch="transformer"), "common": {"seed": 1}, "task": {}},
        "model": model,
        "optimizer_history": [{"criterion_name": "", "lr_scheduler_state": {}, "num_updates": 7}],
        "extra_state": {"train_iterator": {"epoch": 1}, **extra_state},
        "last_optimizer_state": {},
    }
