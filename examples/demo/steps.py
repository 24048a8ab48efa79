"""The steps of the demo: corpus and preparation, training, translation, result."""

from __future__ import annotations

import json
import logging
import re
import statistics
from argparse import Namespace
from pathlib import Path

import babel
import cldr
from progress import ProgressLine
from recipes import ARCHITECTURES, SIZES
from sacrebleu.metrics import BLEU
from training import Outcome, run, train

from fairseq_odeformers.compare.runs import fairseq_command, log_stats
from fairseq_odeformers.corpora import parallel_text
from fairseq_odeformers.files import build, fingerprints, replacing

BPE_OPERATIONS = 2000  # of cldr
SAMPLES = 5
SCRIPTS = Path(__file__).parents[2] / "scripts"


def demo(args: Namespace) -> None:
    data, test = PREPARATIONS[args.corpus](args)

    print(f"3. Training of {args.arch} until BLEU of validation is {args.target_bleu:g}")
    checkpoints = args.out / "checkpoints"
    outcome = train(train_command(args, data, checkpoints), data, checkpoints, args)
    print(outcome)

    print("4. Translation of the held-out pairs")
    checkpoint = checkpoints / "checkpoint_best.pt"
    command = generate_command(data, checkpoint)
    recipe = {"command": command, "checkpoint": fingerprints([checkpoint])}
    translations = args.out / "translations"
    build(translations, recipe, lambda to: generate(command, to / "generate.log"))

    logs = [checkpoints / "train.log", translations / "generate.log"]
    result = report(args, outcome, test, logs)
    with replacing(args.out / "result.md") as path:
        path.write_text(result, encoding="utf-8")
    print(f"\n{result}", end="")


def prepare_cldr(args: Namespace) -> tuple[Path, tuple[Path, Path]]:
    """The binarised corpus, and the text of the pairs to test with."""
    sizes = {split: getattr(args, split) for split in SIZES}
    cldr.check_sizes(sizes)
    args.out.mkdir(parents=True, exist_ok=True)
    logging.getLogger().addHandler(logging.FileHandler(args.out / "prepare.log", encoding="utf-8"))

    print(f"1. German-English pairs from the Unicode CLDR: {args.train:,} to train on")
    raw = args.out / "raw"
    corpus = {**sizes, "seed": args.seed}
    code = fingerprints([Path(cldr.__file__), cldr.GRAMMAR])
    recipe = {**corpus, "babel": babel.__version__, "code": code}
    build(raw, recipe, lambda to: cldr.write_corpus(to, **corpus))

    print("2. Tokens, byte-pair encoding, binary files")
    files = {split: (raw / f"{split}.de", raw / f"{split}.en") for split in SIZES}
    lowercase = args.recipe.lowercase
    data = parallel_text.prepare(files, args.out, "de", "en", BPE_OPERATIONS, lowercase)
    return data, files["test"]


def prepare_multi30k(args: Namespace) -> tuple[Path, tuple[Path, Path]]:
    """As :func:`prepare_cldr`."""
    print("1. and 2. Captions of Multi30k; tokens, byte-pair encoding, binary files")
    source = ["--from", str(args.source)] if args.source else []
    command = [str(SCRIPTS / "prepare-multi30k.sh"), *source, "--out", str(args.out)]
    args.out.mkdir(parents=True, exist_ok=True)
    progress = ProgressLine()
    for line in run(command, args.out / "prepare.log"):
        progress.show(line.rstrip().split(" | ")[-1])
    progress.end()
    test = args.out / "raw" / "test_2016_flickr"
    return args.out / "data-bin", (test.with_suffix(".de"), test.with_suffix(".en"))


PREPARATIONS = {"cldr": prepare_cldr, "multi30k": prepare_multi30k}


def train_command(args: Namespace, data: Path, checkpoints: Path) -> list[str]:
    # The nonsense that a model translates to before it is good would have 200 tokens a sentence.
    greedy = json.dumps({"beam": 1, "max_len_a": 1.2, "max_len_b": 10})
    return fairseq_command(
        *["fairseq-train", data, "--source-lang", "de", "--target-lang", "en"],
        *["--arch", args.arch, "--encoder-attention-heads", 4],
        *[*args.recipe.options, *ARCHITECTURES[args.arch]],
        *["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1],
        *["--optimizer", "adam", "--adam-betas", "(0.9, 0.98)"],
        *["--seed", args.seed],
        *["--eval-bleu", "--eval-bleu-args", greedy, "--eval-bleu-detok", "moses"],
        *["--eval-bleu-remove-bpe", "--max-tokens-valid", 8192],
        *["--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric"],
        *["--save-dir", checkpoints, "--no-epoch-checkpoints", "--keep-interval-updates", 1],
        *["--log-format", "json", "--log-interval", 1],
    )


def generate_command(data: Path, checkpoint: Path) -> list[str]:
    # With its default of 8, --required-batch-size-multiple leaves sentences out.
    return fairseq_command(
        *["fairseq-generate", data, "--source-lang", "de", "--target-lang", "en"],
        *["--path", checkpoint, "--beam", 5, "--max-len-a", 1.2, "--max-len-b", 10],
        *["--max-tokens", 4096, "--required-batch-size-multiple", 1],
        *["--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes", data / "code"],
    )


def generate(command: list[str], log: Path) -> None:
    for _ in run(command, log):
        pass


def report(args: Namespace, outcome: Outcome, test: tuple[Path, Path], logs: list[Path]) -> str:
    """The table of results and the first held-out sentences, in Markdown."""
    sources, references = (path.read_text(encoding="utf-8").splitlines() for path in test)
    training, generated = (log.read_text(encoding="utf-8") for log in logs)
    found = dict(re.findall(r"^D-(\d+)\t\S+\t(.*)$", generated, re.MULTILINE))
    # The Moses tokeniser takes 2:30 and 3/7/26 apart, and its detokeniser leaves them so.
    translations = [
        re.sub(r"(?<=\d) ?([:/]) (?=\d)", r"\1", found[str(number)])
        for number in range(len(references))
    ]
    bleu = BLEU(lowercase=args.recipe.lowercase)
    score = bleu.corpus_score(translations, [references])

    updates = filter(None, (log_stats(line, "train_inner") for line in training.splitlines()))
    parameters = re.search(r"num\. shared model params: ([\d,]+)", training).group(1)
    speed = re.search(r"([\d.]+) tokens/s\)", generated).group(1)
    rows = [
        ("architecture", f"`{args.arch}`, {parameters} parameters"),
        ("BLEU on the held-out pairs", f"**{score.score:.1f}** (`{bleu.get_signature()}`)"),
        ("training", f"{outcome}"),
        (
            "training speed",
            f"{statistics.median(float(update['wps']) for update in updates):,.0f} target tokens/s",
        ),
        ("generation speed, beam 5", f"{float(speed):,.0f} target tokens/s"),
    ]
    lines = ["| what | result |", "| --- | --- |"]
    lines += [f"| {what} | {result} |" for what, result in rows]
    lines += ["", f"The first {SAMPLES} held-out sentences:", ""]
    for source, reference, translation in list(zip(sources, references, translations))[:SAMPLES]:
        lines += [f"- source: {source}", f"  - reference: {reference}"]
        lines += [f"  - translation: {translation}"]
    return "\n".join(lines) + "\n"
