"""Outcomes: the scores of a run's predictions on a split, a class for each kind of task."""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest
from sacremoses import MosesDetokenizer
from scipy.stats import binomtest

from fairseq_odeformers.data.classification import macro_f1
from fairseq_odeformers.files import read_lines
from fairseq_odeformers.models.common.kinds import Kind

SAMPLES = 1000  # of a bootstrap
# sacrebleu's tokenizers, and the modules that they need.
MORPHEMES = {"ja": ("ja-mecab", "MeCab"), "ko": ("ko-mecab", "mecab_ko")}
UNSPACED = ("bo", "dz", "km", "lo", "my", "th", "yue")
MANY = 10_000  # texts: one is 0.01%
LEAST_VOCABULARY = 0.1  # of the references' words; a model below repeats phrases
LEAST_BLEU = 1  # below which translations are hardly words of the reference
LINE = re.compile(r"([STHDP])-(\d+)\t(.*)")


def better(metric: str) -> int:
    """1 if a higher value of a metric is better, else -1."""
    return -1 if metric in ("perplexity", "ppl") or metric.endswith("loss") else 1


def is_percentage(metric: str) -> bool:
    """Whether a score is at most 100."""
    return re.search("accuracy|f1|bleu|chrf", metric, re.IGNORECASE) is not None


def count_decimals(metric: str, texts: int = 0) -> int:
    """How many decimals of a score are shown: in percent, two only if one text is 0.01 points."""
    if is_percentage(metric):
        return 2 if texts >= MANY else 1
    return 2 if metric in ("perplexity", "ppl") else 3


def add_decimals(score: float, digits: int) -> int:
    """So many decimals, or more where a score below 100 would read 100."""
    while round(score, digits) == 100 > round(score, 6):
        digits += 1
    return digits


class Outcome:
    """The base of all kinds of outcomes."""

    main: str  # the score that counts
    scores: dict[str, float]
    signatures: Mapping[str, str] = {}  # how scores were computed
    test: str  # the name of the test of significance
    examples: Sequence[tuple[str, str, str]] = ()  # source, reference and output, if known

    @property
    def digits(self) -> int:
        """The number of decimals of the scores."""
        return count_decimals(self.main, len(self.examples))

    def p_value(self, baseline) -> float | None:
        """The significance of the difference from another run; None if it cannot be tested."""

    def error(self) -> float:
        """Half the 95% interval of the first score over the texts; 0 if it is not known."""
        return 0.0

    def qualities(self) -> Sequence[float]:
        """How good each of the examples is."""
        return ()

    def undertrained(self, improving: bool) -> str:
        """Why the run has learned too little to be compared; "" if it has learned enough.

        It is *improving* if its last validation was the best.
        """
        return ""


def bleu_tokenizer(language: str) -> str:
    """sacrebleu's tokenizer of a language: 13a divides text at spaces, which some do not have.

    Japanese and Korean are divided into words where sacrebleu's extra for them is installed.
    """
    language = re.split(r"[^a-z]", language.lower())[0]
    if language == "zh":
        return "zh"
    tokenizer, module = MORPHEMES.get(language, ("", ""))
    if tokenizer and find_spec(module):
        return tokenizer
    return "char" if tokenizer or language in UNSPACED else "13a"


class Translations(Outcome):
    """Translations of a test set, printed by fairseq-generate.

    Args:
        path: of the output.
        language: of the translations, which are detokenised by the rules of Moses.
        references: the test set as published; by default, as the data have it, detokenised.
        tokenize: sacrebleu's tokenizer for BLEU; by default that of :func:`bleu_tokenizer`.
    """

    main = Kind.TRANSLATION.score
    test = "a paired bootstrap over the texts"

    def __init__(
        self,
        path: Path,
        language: str,
        references: Sequence[str] | None = None,
        tokenize: str | None = None,
    ):
        printed: dict[str, dict[int, str]] = {"S": {}, "T": {}, "H": {}}
        for line in read_lines(path):
            if (match := LINE.fullmatch(line)) and match[1] in printed:
                text = match[3].split("\t", 1)[1] if match[1] == "H" else match[3]
                printed[match[1]][int(match[2])] = text
        if not printed["H"] or (printed["T"] and printed["T"].keys() != printed["H"].keys()):
            raise ValueError(
                f"{path} has no translations, or not of all sentences; remove it, and compare "
                "makes it anew"
            )
        detokenize = MosesDetokenizer(language).detokenize
        order = sorted(printed["H"])
        sources = [printed["S"].get(index, "") for index in order]
        self.texts = [detokenize(printed["H"][index].split()) for index in order]
        of_data = [detokenize(printed["T"].get(index, "").split()) for index in order]
        self.references = list(references or of_data)
        if len(self.references) != len(self.texts):
            raise ValueError(
                f"{path} has {len(self.texts):,} translations, but there are "
                f"{len(self.references):,} references"
            )
        self.examples = list(zip(sources, self.references, self.texts))
        lowercase = not any(text != text.lower() for text in of_data)
        bleu = BLEU(lowercase=lowercase, tokenize=tokenize or bleu_tokenizer(language))
        self.metrics = {"BLEU": bleu, "chrF": CHRF(lowercase=lowercase)}

    @cached_property
    def scores(self) -> dict[str, float]:
        """BLEU and chrF of the corpus."""
        return {
            name: metric.corpus_score(self.texts, [self.references]).score
            for name, metric in self.metrics.items()
        }

    @property
    def signatures(self) -> dict[str, str]:
        """How sacrebleu has computed the scores."""
        self.scores  # noqa: B018  signatures are known after a score
        return {name: metric.get_signature().format() for name, metric in self.metrics.items()}

    def p_value(self, baseline: "Translations") -> float:
        """Of the difference in BLEU, by sacrebleu's paired bootstrap."""
        if self.texts == baseline.texts:
            return 1.0
        test = PairedTest(
            [("baseline", baseline.texts), ("system", self.texts)],
            {"BLEU": self.metrics["BLEU"]},
            [self.references],
            test_type="bs",
            n_samples=SAMPLES,
        )
        # The first is the metric's name, the others are results.
        result = test()[1]["BLEU"][1]
        return result.p_value  # pyright: ignore[reportAttributeAccessIssue,reportReturnType]

    def error(self) -> float:
        """By sacrebleu's bootstrap; it changes the signature of the metric, so a copy makes it."""
        bleu = copy(self.metrics["BLEU"])
        return bleu.corpus_score(self.texts, [self.references], n_bootstrap=SAMPLES)._ci

    def qualities(self) -> list[float]:
        """chrF of each sentence."""
        score = self.metrics["chrF"].sentence_score
        return [score(text, [right]).score for text, right in zip(self.texts, self.references)]

    def undertrained(self, improving: bool) -> str:
        if self.scores["BLEU"] < LEAST_BLEU:
            return f"BLEU below {LEAST_BLEU}"
        tokenize = self.metrics["BLEU"].tokenizer
        words, known = (
            len({word for text in texts for word in tokenize(text).split()})
            for texts in (self.texts, self.references)
        )
        if words < LEAST_VOCABULARY * known:
            return f"{words} different words, the references have {known}"
        return ""


class Classes(Outcome):
    """Classes of a test set, a table of ``odeformers predict``."""

    main = Kind.CLASSIFICATION.score
    test = "McNemar's exact test"

    def __init__(self, path: Path, texts: Sequence[str] | None = None):
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        for number, row in enumerate(rows, start=2):
            classes = row.get("target"), row.get("prediction")
            if None in row or not all(row.get(f"p({name})") for name in classes):
                raise ValueError(
                    f"{path}, line {number} is not the prediction of a labelled text; remove the "
                    "file, and compare makes it anew"
                )
        if not rows:
            raise ValueError(f"{path} has no predictions; remove it, and compare makes it anew")
        self.targets = np.array([row["target"] for row in rows])
        self.predictions = np.array([row["prediction"] for row in rows])
        self.shares = [float(row[f"p({row['target']})"]) for row in rows]
        texts = texts or [f"example {row['id']}" for row in rows]
        self.examples = list(zip(texts, self.targets, self.predictions))

    @cached_property
    def scores(self) -> dict[str, float]:
        """Accuracy, and the mean over the classes of F1, in percent."""
        return self.scores_of(self.predictions)

    def scores_of(self, predictions: np.ndarray) -> dict[str, float]:
        accuracy = 100 * float((predictions == self.targets).mean())
        return {"accuracy": accuracy, "macro-F1": macro_f1(self.targets, predictions)}

    def majority(self) -> tuple[str, dict[str, float]]:
        """The most frequent class, and the scores of predicting it for all texts."""
        names, counts = np.unique(self.targets, return_counts=True)
        name = names[counts.argmax()]
        return name, self.scores_of(np.full_like(self.targets, name))

    def p_value(self, baseline: "Classes") -> float:
        """By McNemar's exact test: of the texts that one of both has right, how many each has."""
        right, right_before = (run.predictions == run.targets for run in (self, baseline))
        gained, lost = int((right & ~right_before).sum()), int((right_before & ~right).sum())
        return binomtest(gained, gained + lost).pvalue if gained + lost else 1.0

    def error(self) -> float:
        """Of a share of the texts."""
        share = self.scores["accuracy"] / 100
        return 196 * math.sqrt(share * (1 - share) / len(self.targets))

    def qualities(self) -> list[float]:
        """The probability of the right class of each text."""
        return self.shares

    def undertrained(self, improving: bool) -> str:
        if len(np.unique(self.predictions)) == 1:
            return "it predicts one class"
        name, scores = self.majority()
        if improving and self.scores["accuracy"] - self.error() < scores["accuracy"]:
            return f"it was still improving, and is hardly better than always {name}"
        return ""


class Perplexity(Outcome):
    """The output of fairseq-eval-lm."""

    main = Kind.LANGUAGE_MODEL.score  # one number, which cannot be resampled

    def __init__(self, path: Path):
        text = path.read_text(encoding="utf-8")
        match = re.search(r"Perplexity: ([\d.]+)", text)
        if match is None or "Evaluated 0 tokens" in text:
            raise ValueError(f"{path} has no perplexity; remove it, and compare makes it anew")
        self.scores = {"perplexity": float(match[1])}
