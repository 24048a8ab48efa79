"""Train TransEvolve on generated German-English sentence pairs, and translate held-out ones.

Any experiment with fairseq has these steps, and their commands are printed. After an interruption,
call the demo again: the training resumes.
"""

import argparse
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pairs import detokenize, write_corpus
from sacrebleu import corpus_bleu

from fairseq_odeformers.files import read_lines
from odeformers.__main__ import share_cores
from odeformers.processes import fairseq_command, log_stats, stream

PAIRS = {"test": 500, "valid": 500, "train": 20_000}
SAMPLES = 5
EVERY = 5.0  # seconds between lines of a training's progress


def run(log: Path, *command: object) -> Iterator[str]:
    """Print and run a command of fairseq, append its output to *log*, and yield it by lines."""
    command = fairseq_command(*command)
    print(f"$ {shlex.join(command)}", flush=True)
    with open(log, "a", encoding="utf-8") as file:
        yield from stream(command, file)


def prepare(data: Path) -> None:
    """Generate the pairs and binarize them."""
    shutil.rmtree(data, ignore_errors=True)  # fairseq-preprocess replaces nothing
    write_corpus(data, **PAIRS)
    lines = run(
        data / "preprocess.log",
        *["fairseq-preprocess", "--source-lang", "de", "--target-lang", "en"],
        *(f"--{split}pref={data / split}" for split in PAIRS),
        *["--joined-dictionary", "--destdir", data],
    )
    list(lines)  # until the command has ended


def train(data: Path, checkpoints: Path, updates: int) -> None:
    """Train, or resume a training that was interrupted, and print its progress."""
    checkpoints.mkdir(exist_ok=True)
    lines = run(
        checkpoints / "train.log",
        *["fairseq-train", data, "--arch", "transevolve_fullff_2_prenorm"],
        *["--encoder-depth", 2, "--encoder-embed-dim", 128, "--encoder-ffn-embed-dim", 512],
        *["--encoder-attention-heads", 4, "--dropout", 0, "--attention-dropout", 0],
        *["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1],
        *["--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", 2e-3],
        *["--lr-scheduler", "polynomial_decay", "--warmup-updates", 200],
        *["--total-num-update", updates, "--max-update", updates, "--max-tokens", 1024],
        *["--save-dir", checkpoints, "--save-interval-updates", 100, "--keep-interval-updates", 1],
        *["--no-epoch-checkpoints", "--log-format", "json", "--log-interval", 1],
    )
    printed = -EVERY
    for line in lines:
        if stats := log_stats(line, "train_inner"):
            done = int(stats["num_updates"])
            if time.monotonic() - printed >= EVERY or done == updates:
                printed = time.monotonic()
                print(
                    f"update {done} of {updates}: loss {stats['loss']}, perplexity {stats['ppl']}"
                )


def translate(data: Path, checkpoint: Path) -> list[str]:
    """The translations of the held-out sentences."""
    lines = run(
        data / "generate.log",
        *["fairseq-generate", data, "--path", checkpoint],
        *["--beam", 5, "--max-len-a", 1.2, "--max-len-b", 10, "--max-tokens", 4096],
        *["--required-batch-size-multiple", 1],  # with the default of 8 sentences are left out
    )
    found = dict(re.findall(r"^D-(\d+)\t\S+\t(.*)$", "".join(lines), re.M))
    return [detokenize(found[str(number)]) for number in range(PAIRS["test"])]


def demo(out: Path, updates: int) -> None:
    start = time.monotonic()
    data, checkpoints = out / "data-bin", out / "transevolve"
    print(f"Three steps, about two minutes on two idle cores; results go to {out}")
    print(f"step 1 of 3: generate German-English sentence pairs, {PAIRS['train']:,} to train on")
    prepare(data)
    print(f"step 2 of 3: train for {updates} updates, which takes most of the time")
    train(data, checkpoints, updates)
    print(f"step 3 of 3: translate {PAIRS['test']} held-out sentences")
    translations = translate(data, checkpoints / "checkpoint_last.pt")
    sources, references = (
        [detokenize(line) for line in read_lines(data / f"test.{language}")]
        for language in ("de", "en")
    )
    for texts in islice(zip(sources, references, translations), SAMPLES):
        print("\n   source     {}\n   reference  {}\n   translated {}".format(*texts))
    bleu = corpus_bleu(translations, [references])
    print(f"\nBLEU {bleu.score:.1f}, {time.monotonic() - start:.0f} seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder of all results")
    parser.add_argument("--updates", type=int, default=800, help="of the training")
    args = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    share_cores()
    try:
        demo(args.out, args.updates)
    except (RuntimeError, ValueError, OSError) as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; the same command resumes")


if __name__ == "__main__":
    main()
