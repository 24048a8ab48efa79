"""Train TransEvolve on German-English pairs until it translates well, and translate with it.

The steps are those of any fairseq experiment, with commands that can be copied: raw text, its
preparation, ``fairseq-train``, ``fairseq-generate``, and a table with the BLEU on held-out pairs.
A second call repeats no step that is done, and goes on with training that was interrupted.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from recipes import ARCHITECTURES, CORPORA, SIZES


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", choices=CORPORA, default=next(iter(CORPORA)))
    parser.add_argument(
        "--from",
        dest="source",
        metavar="PATH",
        type=Path,
        help="folder or archive of --corpus multi30k (default: download it)",
    )
    parser.add_argument("--out", type=Path, help="of all results (default: demo-out/CORPUS)")
    parser.add_argument("--arch", choices=ARCHITECTURES, default=next(iter(ARCHITECTURES)))
    parser.add_argument(
        "--target-bleu",
        type=float,
        help="BLEU of validation that ends the training (default: "
        + ", ".join(f"{name} {recipe.target_bleu}" for name, recipe in CORPORA.items())
        + ")",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        help="that end the training at the latest (default: "
        + ", ".join(f"{name} {recipe.minutes}" for name, recipe in CORPORA.items())
        + ")",
    )
    for split, size in SIZES.items():
        parser.add_argument(
            f"--{split}", type=int, help=f"pairs of --corpus cldr for {split} (default: {size})"
        )
    parser.add_argument("--seed", type=int, default=1, help="of cldr's pairs and of the training")
    args = parser.parse_args()

    args.out = args.out or Path("demo-out", args.corpus)
    args.recipe = CORPORA[args.corpus]
    if args.target_bleu is None:
        args.target_bleu = args.recipe.target_bleu
    if args.minutes is None:
        args.minutes = args.recipe.minutes
    if not 0 <= args.target_bleu <= 100:
        parser.error(f"--target-bleu {args.target_bleu}: give a BLEU, from 0 to 100")
    if args.minutes <= 0:
        parser.error(f"--minutes {args.minutes}: give a time above 0")
    if args.corpus == "cldr":
        if args.source:
            parser.error(f"--from {args.source}: the pairs of --corpus cldr are generated")
        for split, size in SIZES.items():
            if getattr(args, split) is None:
                setattr(args, split, size)
    else:
        for split in SIZES:
            if getattr(args, split) is not None:
                parser.error(f"--{split} {getattr(args, split)}: is for --corpus cldr")
    return args


def main() -> None:
    args = parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    # Without a handler, fairseq would have all that it says printed from its import on.
    logging.basicConfig(level=logging.INFO, handlers=[logging.NullHandler()])
    from steps import demo

    package = logging.getLogger("fairseq_odeformers")
    package.setLevel(logging.INFO)
    package.addHandler(logging.StreamHandler(sys.stdout))
    try:
        demo(args)
    except (ValueError, RuntimeError, OSError) as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit(f"\ninterrupted; the same command goes on from what {args.out} has")


if __name__ == "__main__":
    main()
