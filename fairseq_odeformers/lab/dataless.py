"""Tasks without data, for the models that ``check`` and ``benchmark`` build."""

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import FairseqTask
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq.tasks.translation import TranslationTask
from omegaconf import DictConfig

from fairseq_odeformers.data.classification import make_dictionary
from fairseq_odeformers.lab.parsers import training_parser
from fairseq_odeformers.models.common.kinds import Kind


def make_config(kind: Kind, *words: str) -> DictConfig:
    """The configuration that ``fairseq-train`` makes of a line for the default task of a kind."""
    line = ["unused", "--task", kind.tasks[0], *words]
    parsed = options.parse_args_and_arch(training_parser(), line)
    return convert_namespace_to_omegaconf(parsed)


def make_task(kind: Kind, cfg: DictConfig, vocabulary: int) -> FairseqTask:
    """The default task of a kind, with made-up words.

    Args:
        cfg: the task's part of a configuration.
        vocabulary: the number of words, without fairseq's special symbols.
    """
    words = make_dictionary(f"word{index}" for index in range(vocabulary))
    if kind is Kind.TRANSLATION:
        return TranslationTask(cfg, words, words)
    if kind is Kind.LANGUAGE_MODEL:
        return LanguageModelingTask(cfg, words, words)
    if kind is Kind.MASKED_LM:
        return MaskedLMTask(cfg, words)
    labels = make_dictionary(str(index) for index in range(cfg.num_classes))
    return SentencePredictionTask(cfg, words, labels)
