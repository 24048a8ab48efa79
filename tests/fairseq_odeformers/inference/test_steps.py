"""The functions that are exported compute, token by token, the model's output for whole texts.

They run here as they are; ``test_deploy.py`` exports some of them.
"""

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from forms import every_form

from fairseq_odeformers.checkpoints import Trained
from fairseq_odeformers.inference.deploy import compare, make_functions
from fairseq_odeformers.inference.description import NAMES, describe
from fairseq_odeformers.inference.run import Model
from fairseq_odeformers.registry import kinds_of
from odeformers.check.subject import Subject

GRID = "--ode-method rk4 --ode-steps 2".split()
ADAPTIVE = ("node_transformer", "node_transformer_mt")


class Functions(Model):
    """An exported model whose programs are functions of torch."""

    def __init__(self, trained, arch, kind):
        functions = make_functions(trained.model, trained.task, kind)
        programs = {name: each.describe() for name, each in functions.items()}
        self.about = {**describe(trained, arch, kind), "programs": programs}
        self.pad, self.functions = self.about["pad"], functions

    def run(self, name, arrays):
        function = self.functions[name]
        out = function.module(*(torch.from_numpy(arrays[name]) for name in function.arguments))
        results = out if isinstance(out, tuple) else (out,)
        return {name: result.numpy() for name, result in zip(function.outputs, results)}


@pytest.mark.parametrize("line", every_form())
@torch.no_grad()
def test_incremental_steps_equal_full_decoding(line):
    arch, *words = line.split()
    words += GRID if arch in ADAPTIVE else []
    kind, *_ = (kind for kind in kinds_of(ARCH_MODEL_REGISTRY[arch]) if kind in NAMES)
    subject = Subject(arch, kind, *words)
    model = subject.build().float().eval()
    product = Functions(Trained(model, subject.task, subject.cfg), arch, kind)
    for sizes in ((1, 1), (1, 5), (2, 1), (3, 6)):
        assert compare(model, subject.task, product, *sizes) <= 1e-5
