"""BERT's pretraining (Devlin et al. 2019) on masked tokens and next-sentence prediction."""

from argparse import ArgumentParser
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fairseq import utils
from fairseq.data import FairseqDataset, data_utils
from fairseq.dataclass import FairseqDataclass
from fairseq.models import ARCH_MODEL_REGISTRY, BaseFairseqModel
from fairseq.models.roberta import RobertaModel
from fairseq.tasks import register_task
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from omegaconf import OmegaConf, open_dict

from fairseq_odeformers.data.text_pairs import BLANK_SIZE, NEXT_SENTENCE, MaskedPairs, TextPairs
from fairseq_odeformers.errors import InputError, naming_faults
from fairseq_odeformers.files import reading
from fairseq_odeformers.options import add_choices, option, validate

MASKING = (
    *("seed", "mask_prob", "leave_unmasked_prob", "random_token_prob"),
    *("freq_weighted_replacement", "mask_multiple_length", "mask_stdev"),
)
# Options of masked_lm that do not apply, with the reasons.
UNSUPPORTED = {
    "mask_whole_words": "tokens are masked one by one, as in the paper",
    "include_target_tokens": "BERT does not read the target tokens",
    "skip_masking": "BERT is trained on masked tokens",
    "d2v2_multi": "the models read one kind of data",
}


@dataclass
class BertPretrainingConfig(MaskedLMConfig):
    """Options of fairseq's ``masked_lm``, where they apply."""

    sample_break_mode: str = option(
        "complete_doc",
        "texts of a pair: complete_doc joins lines of a document up to half of "
        "--tokens-per-sample; eos takes single lines",
        choices=("complete_doc", "eos"),
    )
    tokens_per_sample: int = option(512, "maximum number of tokens per pair of texts", at_least=8)


@register_task("bert_pretraining", dataclass=BertPretrainingConfig)
class BertPretrainingTask(MaskedLMTask):
    """Masked language modelling and next-sentence prediction on documents between blank lines.

    An example is a pair of neighbouring texts. In half of the pairs, the second text comes from
    another document and is drawn again in each epoch. The model gets segment embeddings and a
    classification head to predict whether the second text follows the first.
    """

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        super().add_args(parser)
        add_choices(parser, BertPretrainingConfig)

    @classmethod
    def setup_task(cls, cfg: BertPretrainingConfig, **kwargs: Any) -> "BertPretrainingTask":
        validate(cfg, BertPretrainingConfig, UNSUPPORTED)
        if cfg.shorten_method != "none":
            raise ValueError(
                f"--shorten-method {cfg.shorten_method}: pairs are truncated at "
                "--tokens-per-sample; leave the option out"
            )
        return super().setup_task(cfg, **kwargs)

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> FairseqDataset:
        """Load a split; with several folders of data, the epochs use them in turn.

        Raises:
            InputError: fewer than two documents of the split have several texts.
        """
        folders = utils.split_paths(self.cfg.data)
        path = Path(folders[(epoch - 1) % len(folders)], split)
        with reading(path.parent, f"has no complete split {split}"):
            lines = data_utils.load_indexed_dataset(str(path), self.dictionary, combine=combine)
        if lines is None:
            raise FileNotFoundError(
                f"{path}.idx and {path}.bin: no such files; prepare the data, or choose another "
                "split"
            )
        if not np.any(lines.sizes == BLANK_SIZE):
            raise InputError(
                f"{path}.bin has no blank lines to end documents; put one between the documents of "
                "the text, and binarise it again with fairseq-preprocess"
            )
        cfg = self.cfg
        advice = "lower --tokens-per-sample, or set --sample-break-mode eos"
        with naming_faults(f"{path}.bin", f"has no pairs of texts; {advice}"):
            pairs = TextPairs(
                lines, cfg.sample_break_mode, cfg.tokens_per_sample, self.dictionary, cfg.seed
            )
        masking = {name: getattr(cfg, name) for name in MASKING}
        dataset = MaskedPairs(pairs, self.dictionary, mask_idx=self.mask_idx, **masking)
        self.datasets[split] = dataset
        return dataset

    def build_model(self, cfg: FairseqDataclass, *args: Any, **kwargs: Any) -> BaseFairseqModel:
        arch = getattr(cfg, "_name", None) or cfg.arch
        if not issubclass(ARCH_MODEL_REGISTRY[arch], RobertaModel):
            raise ValueError(
                f"--arch {arch}: it has no segment embeddings for --task bert_pretraining; use "
                "macaron_bert_base or roberta_prenorm"
            )
        with open_dict(cfg) if OmegaConf.is_config(cfg) else nullcontext():
            cfg.segment_embeddings = True
        model = super().build_model(cfg, *args, **kwargs)
        model.register_classification_head(NEXT_SENTENCE, num_classes=2)
        return model
