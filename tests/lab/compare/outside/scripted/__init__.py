"""Models whose answers and losses are written in a script, so that a report's numbers are known.

Each has a script: how many of its answers are right after each epoch, and how sure it is of them.
The best answers, the last and those of the smallest loss are of three different epochs. A
checkpoint keeps the number of its updates, which its answers tell.

The folder of the variable ``SCRIPTED`` holds files that stop a training (``hold-training``) or an
evaluation (``hold-evaluation``) as long as they are there.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq.models import FairseqEncoder, register_model, register_model_architecture
from torch import nn

from fairseq_odeformers.models.common.sequence_classifier import (
    SequenceClassifier,
    SequenceClassifierConfig,
)
from fairseq_odeformers.options import option

EPOCH = 20  # updates
TEST = 4  # the first word of the test texts
FIRST = 10  # the second word of the first text; the next one has the next word
HELD = 30  # the update that waits
SLOW = range(41, 61)  # updates that take longer

# By its name: how many answers of 120 are right after each epoch, by how much they are above the
# other classes, and how the right ones are spread over the texts.
SCRIPTS = {
    "base": ((50, 80, 70, 60), (1.0, 6.0, 1.5, 3.0), 7),
    "good": ((50, 72, 88, 70), (3.0, 1.5, 12.0, 3.0), 11),
    "poor": ((30, 56, 46, 40), (1.0, 6.0, 1.0, 3.0), 13),
    "peak": ((50, 100, 40, 30), (1.0, 9.0, 3.0, 3.0), 7),  # the best, but for its last, and loss
    "steady": ((50, 60, 70, 80), (1.0, 0.9, 0.8, 0.7), 7),
    "late": ((50, 60, 70, 110), (1.0, 1.0, 1.0, 3.0), 7),  # its loss falls to the end
    "idle": ((-1, -1, -1, -1), (0.1, 0.1, 0.2, 0.3), 7),  # always the first class
}


def hold(name):
    """Wait while a file is there; a file beside it says that this process does."""
    file = Path(os.environ.get("SCRIPTED", "/nowhere"), name)
    if file.exists():
        file.with_name(f"{name}-{os.getpid()}").touch()
        while file.exists():
            time.sleep(0.01)


@dataclass
class ScriptedConfig(SequenceClassifierConfig):
    encoder_embed_dim: int = option(8, "width", at_least=1)
    script: str = option("base", "what it answers", choices=tuple(SCRIPTS))
    luck: int = option(0, "how many more answers are right", at_least=-200)


class Embed(FairseqEncoder):
    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(dictionary)
        self.embed_tokens, self.max_source_positions = embed_tokens, cfg.max_source_positions
        self.linear = nn.Linear(cfg.encoder_embed_dim, cfg.encoder_embed_dim)

    def forward(self, src_tokens, src_lengths=None):
        states = self.linear(self.embed_tokens(src_tokens)).transpose(0, 1)
        padding_mask = src_tokens.eq(self.dictionary.pad())
        return {"encoder_out": [states], "encoder_padding_mask": [padding_mask]}

    def max_positions(self):
        return self.max_source_positions


@register_model("scripted", dataclass=ScriptedConfig)
class Scripted(SequenceClassifier):
    encoder_class = Embed

    def __init__(self, cfg, encoder, towers=1):
        super().__init__(cfg, encoder, towers)
        self.luck = cfg.luck
        self.right, self.margin, self.step = SCRIPTS[cfg.script]
        self.register_buffer("updates", torch.zeros(()))
        self.register_buffer("seed", torch.zeros(()))

    @classmethod
    def build_model(cls, cfg, task):
        model = super().build_model(cfg, task)
        model.seed += task.cfg.seed
        return model

    def forward(self, src_tokens, **kwargs):
        scores, extra = super().forward(src_tokens, **kwargs)
        if self.training:
            self.updates += 1
            if self.updates == HELD:
                hold("hold-training")
            if self.updates in SLOW:
                time.sleep(0.002)
        elif (src_tokens == TEST).any():
            hold("hold-evaluation")
        return 0 * scores + self.answer(src_tokens, scores.size(1)), extra

    def answer(self, src_tokens, classes):
        number = src_tokens.amax(1) - FIRST
        epoch = self.updates.item() / EPOCH - 1  # an average is of a half
        place = min(max(int(epoch), 0), len(self.right) - 1)
        seed = int(self.seed)
        right = self.right[place] + self.luck + seed**2 * self.step % 17 + 10 * (epoch > int(epoch))
        if self.right[place] < 0:
            number, right = 0 * number, 120
        hit = (number * self.step + 50 * seed) % 120 < right
        answer = (number + (~hit).long()) % classes
        return self.margin[place] * nn.functional.one_hot(answer, classes).float()


def register(script):
    @register_model_architecture("scripted", f"scripted_{script}")
    def preset(args):
        args.script = getattr(args, "script", script)


for each in SCRIPTS:
    register(each)
