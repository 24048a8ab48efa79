"""Compute BLEU of the output of ``fairseq-generate --remove-bpe`` on newstest2014 in four ways.

``tokenized``
    The hypotheses are detokenised and tokenised again, without splitting at hyphens; the reference
    is the test text of the preparation, tokenised in the same way. This equals Moses'
    ``multi-bleu.perl``.
``compound-split``
    Like ``tokenized``, but hyphenated compounds are split (``a-b`` to ``a ##AT##-##AT## b``).
    The papers of the Transformer and Macaron Net report this BLEU for English-German.
``detokenized``
    BLEU of the detokenised hypotheses against the published reference, as ``sacrebleu -t
    wmt14/full`` computes it.
``uncased``
    Like ``detokenized``, but in lower case, and split only at spaces. TransEvolve's code computes
    this BLEU.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU
from sacremoses import MosesDetokenizer

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import read_lines
from fairseq_odeformers.text.moses import make_moses_tokenizer
from odeformers.parser import Parser

from .prepare.common.command import existing_path
from .prepare.common.pairs import read_published, replace_apostrophes
from .prepare.wmt14 import TRAIN, reference_name

HYPOTHESIS = re.compile(r"H-(\d+)\t[^\t]*\t(.*)")
HYPHEN = re.compile(r"(\S)-(\S)")


def read_hypotheses(path: Path, count: int) -> list[str]:
    """Read the tokenised translations of *count* sentences, in the order of the corpus."""
    matches = filter(None, map(HYPOTHESIS.fullmatch, read_lines(path)))
    hypotheses = sorted((int(match[1]), match[2]) for match in matches)
    if [number for number, _ in hypotheses] != list(range(count)):
        raise InputError(
            f"{path} has {len(hypotheses):,} translations (lines H-<id>, from 0), but the "
            f"reference has {count:,} sentences; use the output of fairseq-generate --nbest 1 "
            "--required-batch-size-multiple 1"
        )
    texts = [text for _, text in hypotheses]
    if any("@@ " in f"{text} " for text in texts):
        raise InputError(f"{path} has subwords; pass --remove-bpe to fairseq-generate")
    return texts


def split_compounds(text: str) -> str:
    return HYPHEN.sub(r"\1 ##AT##-##AT## \2", text)


def score(hypotheses: Sequence[str], references: Sequence[str], lang: str) -> dict[str, str]:
    """Score tokenised *hypotheses* against raw *references* in four ways, with signatures.

    Args:
        lang: language of both hypotheses and references.
    """
    detokenizer, tokenize = MosesDetokenizer(lang), make_moses_tokenizer(lang)
    detokenized = [detokenizer.detokenize(text.split()) for text in hypotheses]
    tokenized = [
        list(map(tokenize, texts)) for texts in (detokenized, map(replace_apostrophes, references))
    ]
    split = [list(map(split_compounds, texts)) for texts in tokenized]
    scores = {}
    multi_bleu = {"tokenize": "none", "smooth_method": "none", "force": True}
    uncased = {"tokenize": "none", "lowercase": True, "force": True}
    for name, (system, target), settings in (
        ("tokenized", tokenized, multi_bleu),
        ("compound-split", split, multi_bleu),
        ("detokenized", (detokenized, references), {}),
        ("uncased", (detokenized, references), uncased),
    ):
        bleu = BLEU(**settings)
        result = bleu.corpus_score(system, [target])
        scores[name] = result.format(signature=bleu.get_signature().format())
    return scores


def main(arguments: Sequence[str]) -> None:
    parser = Parser(
        prog="odeformers score-wmt14",
        description=(__doc__ or "").replace("``", ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    default = "data/wmt14-{pair}/raw"
    parser.add_argument(
        "pair", choices=[f"en-{lang}" for lang in TRAIN], help="source and target language"
    )
    parser.add_argument("output", metavar="FILE", type=Path, help="output of fairseq-generate")
    parser.add_argument(
        "--reference",
        metavar="FILE",
        type=existing_path,
        help="reference translations, an .sgm file or one sentence per line (default: newstest2014 "
        "in data/wmt14-en-de/raw or data/wmt14-en-fr/raw)",
    )
    args = parser.parse_args(arguments)
    lang = args.pair.partition("-")[2]
    path = args.reference or Path(default.format(pair=args.pair), reference_name(lang))
    if not path.exists():
        parser.error(
            f"{path}: no such file; prepare wmt14 copies it from its archive, or pass --reference"
        )
    references = list(read_published(path))
    scores = score(read_hypotheses(args.output, len(references)), references, lang)
    for name, result in scores.items():
        print(f"{name + ':':<15} {result}")
