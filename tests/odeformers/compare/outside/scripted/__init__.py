"""Models whose answers and losses follow a script, so that a report's numbers are known."""

import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import (
    FairseqDecoder,
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    register_model,
    register_model_architecture,
)
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
TRIED = 2 * EPOCH  # more updates than are timed before training

# By its name: how many answers of 120 are right after each epoch, by how much they are above the
# other classes, and how the right ones are spread over the texts.
SCRIPTS = {
    "base": ((50, 80, 70, 60), (1.0, 6.0, 1.5, 3.0), 7),
    "good": ((50, 72, 88, 70), (3.0, 1.5, 12.0, 3.0), 11),
    "poor": ((30, 56, 46, 40), (1.0, 6.0, 1.0, 3.0), 13),
    "peak": ((50, 85, 40, 30), (3.0, 30.0, 3.0, 3.0), 7),  # best, except at its end and by loss
    "steady": ((50, 55, 62, 70), (1.0, 0.9, 0.8, 0.7), 7),
    "late": ((50, 60, 70, 110), (1.0, 1.0, 1.0, 3.0), 7),  # its loss falls to the end
    "tied": ((70, 70, 70, 70), (6.0, 1.0, 3.0, 9.0), 7),  # the loss falls once, then rises
    "plateau": ((50, 80, 80, 60), (3.0, 1.0, 6.0, 3.0), 7),  # the second has the lower loss
    "wild": ((50, 50, 50, 50), (1.0, 1.0, math.nan, math.nan), 7),  # diverges in its third epoch
    "idle": ((-1, -1, -1, -1), (0.1, 0.1, 0.2, 0.3), 7),  # always the first class
}


def control(name):
    return Path(os.environ.get("SCRIPTED", "/nowhere"), name)


def hold(name):
    """Wait while a file exists; a file beside it shows that this process waits."""
    file = control(name)
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
        self.luck, self.script, self.begun = cfg.luck, cfg.script, time.process_time()
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
                if control("fail-training").exists():
                    raise RuntimeError("no memory is left")
            if self.updates in SLOW:
                time.sleep(0.002)
            if self.updates <= TRIED:
                self.pace = (time.process_time() - self.begun) / self.updates.item()
            elif control(f"slow-{self.script}").exists():
                end = time.process_time() + 3 * self.pace
                while time.process_time() < end:
                    pass
        elif (src_tokens == TEST).any():
            hold("hold-evaluation")
        gradient = scores - scores.detach()  # zero, but it trains: weights tell of their batches
        return gradient + self.answer(src_tokens, scores.size(1)), extra

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


@dataclass
class CopyingConfig(FairseqDataclass):
    encoder_embed_dim: int = option(8, "width", at_least=1)
    wrong: int = option(0, "of 100 words, how many are written in lower case, or as the next word")


class Source(FairseqEncoder):
    def forward(self, src_tokens, src_lengths=None, **kwargs):
        return {"encoder_out": [src_tokens]}

    def reorder_encoder_out(self, encoder_out, new_order):
        return {"encoder_out": [encoder_out["encoder_out"][0].index_select(0, new_order)]}

    def max_positions(self):
        return 100


class Copy(FairseqDecoder):
    """Writes the words of the source, some of them wrong; both dictionaries have equal numbers."""

    def __init__(self, cfg, dictionary):
        super().__init__(dictionary)
        self.wrong, self.step = cfg.wrong, 37 + cfg.wrong
        self.scale = nn.Linear(cfg.encoder_embed_dim, 1)
        self.lower = torch.tensor([dictionary.index(word.lower()) for word in dictionary.symbols])

    def forward(self, prev_output_tokens, encoder_out, **kwargs):
        source = encoder_out["encoder_out"][0]
        padding = source.eq(self.dictionary.pad()).sum(1, keepdim=True)  # on the left
        places = padding + torch.arange(prev_output_tokens.size(1))
        words = source.gather(1, places.clamp(max=source.size(1) - 1))
        chance = (words * self.step + places - padding + source.sum(1, keepdim=True)) % 100
        other = torch.where(self.lower[words].eq(words), words + 1, self.lower[words])
        wrong = (chance < self.wrong) & words.ge(self.dictionary.nspecial)
        answer = torch.where(wrong, other.clamp(max=len(self.dictionary) - 1), words)
        return 20 * nn.functional.one_hot(answer, len(self.dictionary)) + 0 * self.scale.bias, {
            "attn": [None]
        }

    def max_positions(self):
        return 100


@register_model("copying", dataclass=CopyingConfig)
class Copying(FairseqEncoderDecoderModel):
    @classmethod
    def build_model(cls, cfg, task):
        return cls(Source(task.source_dictionary), Copy(cfg, task.target_dictionary))


def register(script):
    @register_model_architecture("scripted", f"scripted_{script}")
    def preset(args):
        args.script = getattr(args, "script", script)


for each in SCRIPTS:
    register(each)
