"""Train transevolve_fullff_2 on German-English pairs for a few minutes, and translate with it.

The steps are those of any fairseq experiment, with commands that can be copied: raw text, its
preparation, ``fairseq-train``, ``fairseq-generate``, and a table with the BLEU on held-out pairs.
A second call repeats no step that is done, and goes on with training that was interrupted.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import shlex
import shutil
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import babel
from sacrebleu.metrics import BLEU

from fairseq_odeformers.corpora import cldr, parallel_text
from fairseq_odeformers.files import build, fingerprints, replacing
from fairseq_odeformers.runs import fairseq_command, log_stats, stream

# Architectures, and what differs from their presets; the first is the default.
ARCHITECTURES = {"transevolve_fullff_2": (), "node_transformer_mt": ("--encoder-layers", 1)}
SPLITS = ("train", "valid", "test")
BPE_OPERATIONS = 2000
SAMPLES = 5


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder of all results")
    parser.add_argument("--arch", choices=ARCHITECTURES, default=next(iter(ARCHITECTURES)))
    parser.add_argument("--minutes", type=float, default=4.5, help="longest time of training")
    for split, size in [("train", 20000), ("valid", 500), ("test", 500)]:
        parser.add_argument(f"--{split}", type=int, default=size, help=f"pairs of {split}")
    parser.add_argument("--seed", type=int, default=1, help="of the corpus and of the training")
    args = parser.parse_args()
    if args.minutes <= 0:
        parser.error(f"--minutes {args.minutes}: give a time above 0")
    return args


def demo(args: argparse.Namespace) -> None:
    corpus = {"train": args.train, "valid": args.valid, "test": args.test, "seed": args.seed}
    cldr.check_sizes({split: corpus[split] for split in SPLITS})

    print(f"1. German-English pairs from the Unicode CLDR: {args.train:,} to train on")
    raw = args.out / "raw"
    recipe = {**corpus, "babel": babel.__version__, "code": fingerprints([Path(cldr.__file__)])}
    build(raw, recipe, lambda to: cldr.write_corpus(to, **corpus))

    print("2. Tokens, byte-pair encoding, binary files")
    files = {split: (raw / f"{split}.de", raw / f"{split}.en") for split in SPLITS}
    data = parallel_text.prepare(files, args.out, "de", "en", BPE_OPERATIONS, lowercase=False)

    print(f"3. Training of {args.arch}, at most {args.minutes:g} minutes")
    checkpoints = args.out / "checkpoints"
    command = train_command(args.arch, data, checkpoints, args.minutes, args.seed)
    train(command, data, checkpoints)

    print("4. Translation of the held-out pairs")
    checkpoint = checkpoints / "checkpoint_best.pt"
    command = generate_command(data, checkpoint)
    recipe = {"command": command, "checkpoint": fingerprints([checkpoint])}
    translations = args.out / "translations"
    build(translations, recipe, lambda to: generate(command, to / "generate.log"))

    result = report(args.arch, raw, checkpoints / "train.log", translations / "generate.log")
    with replacing(args.out / "result.md") as path:
        path.write_text(result, encoding="utf-8")
    print(f"\n{result}", end="")


def train_command(arch: str, data: Path, checkpoints: Path, minutes: float, seed: int) -> list[str]:
    return fairseq_command(
        *["fairseq-train", data, "--source-lang", "de", "--target-lang", "en"],
        *["--arch", arch, *ARCHITECTURES[arch], "--encoder-embed-dim", 128],
        *["--encoder-ffn-embed-dim", 512, "--encoder-attention-heads", 4, "--dropout", 0.1],
        *["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1],
        *["--optimizer", "adam", "--adam-betas", "(0.9, 0.98)"],
        *["--lr", 2e-3, "--lr-scheduler", "inverse_sqrt", "--warmup-updates", 300],
        *["--max-tokens", 1024, "--stop-time-hours", round(minutes / 60, 4), "--seed", seed],
        *["--save-dir", checkpoints, "--no-epoch-checkpoints", "--log-format", "json"],
    )


def generate_command(data: Path, checkpoint: Path) -> list[str]:
    # With its default of 8, --required-batch-size-multiple leaves sentences out.
    return fairseq_command(
        *["fairseq-generate", data, "--source-lang", "de", "--target-lang", "en"],
        *["--path", checkpoint, "--beam", 5],
        *["--max-tokens", 4096, "--required-batch-size-multiple", 1],
        *["--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes", data / "code"],
    )


def train(command: list[str], data: Path, checkpoints: Path) -> None:
    """Run *command* to its end, going on from what *checkpoints* has of the same training."""
    recipe = json.dumps({"command": command, "data": fingerprints(sorted(data.glob("*.bin")))})
    begun, done = checkpoints / "begun.json", checkpoints / "done"
    if not (begun.exists() and begun.read_text() == recipe):
        shutil.rmtree(checkpoints, ignore_errors=True)
        checkpoints.mkdir(parents=True)
        begun.write_text(recipe)
    if done.exists():
        print(f"{checkpoints} is up to date")
        return
    validation = {}
    for line in run(command, checkpoints / "train.log"):
        validation = log_stats(line, "valid") or validation
        training = log_stats(line, "train")
        if training:
            print(
                f"epoch {training['epoch']}: {training['train_num_updates']} updates in "
                f"{float(training['train_wall']) / 60:.1f} minutes, "
                f"perplexity {training['train_ppl']}, validation {validation['valid_ppl']}"
            )
    done.touch()


def generate(command: list[str], log: Path) -> None:
    for _ in run(command, log):
        pass


def run(command: list[str], log: Path) -> Iterator[str]:
    """Print and run *command*; append its output to *log* and yield it line by line."""
    print(f"$ {shlex.join(command)}")
    with open(log, "a", encoding="utf-8") as file:
        yield from stream(command, file)


def report(arch: str, raw: Path, train_log: Path, generate_log: Path) -> str:
    """The table of results and the first held-out sentences, in Markdown."""
    sources, references = (
        (raw / f"test.{lang}").read_text(encoding="utf-8").splitlines() for lang in ("de", "en")
    )
    generated = generate_log.read_text(encoding="utf-8")
    found = dict(re.findall(r"^D-(\d+)\t\S+\t(.*)$", generated, re.MULTILINE))
    # The Moses tokeniser takes 2:30 and 3/7/26 apart, and its detokeniser leaves them so.
    translations = [
        re.sub(r"(?<=\d) ?([:/]) (?=\d)", r"\1", found[str(number)])
        for number in range(len(references))
    ]
    bleu = BLEU()
    score = bleu.corpus_score(translations, [references])

    log = train_log.read_text(encoding="utf-8")
    epochs = [stats for stats in (log_stats(line, "train") for line in log.splitlines()) if stats]
    parameters = re.search(r"num\. shared model params: ([\d,]+)", log).group(1)
    speed = re.search(r"([\d.]+) tokens/s\)", generated).group(1)
    rows = [
        ("architecture", f"`{arch}`, {parameters} parameters"),
        ("BLEU on the held-out pairs", f"**{score.score:.1f}** (`{bleu.get_signature()}`)"),
        ("training", f"{epochs[-1]['train_num_updates']} updates, {epochs[-1]['epoch']} epochs"),
        (
            "training speed",
            f"{statistics.median(float(e['train_wps']) for e in epochs):,.0f} target tokens/s",
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


def main() -> None:
    args = parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    logging.basicConfig(
        format="%(message)s", stream=sys.stdout, force=True
    )  # fairseq has set it up
    logging.getLogger("fairseq_odeformers").setLevel(logging.INFO)
    try:
        demo(args)
    except (ValueError, RuntimeError, OSError) as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit(f"\ninterrupted; the same command goes on from what {args.out} has")


if __name__ == "__main__":
    main()
