"""Draw the scoreboard's small data sets from the published files.

    python examples/scoreboard/data.py agnews test.csv --out ag_news
    python examples/scoreboard/data.py ptb ptb.valid.txt ptb.test.txt --out ptb

AG News: 5,500 texts to train on and 1,000 to test on, all from its test file; ``agnews_rows.txt``
lists their hashes in order. Penn Treebank, as Mikolov prepared it: its validation file to train on;
of the first half of its test file, the first 940 lines to validate on and the others to test on.
"""

import argparse
import csv
import hashlib
import sys
from pathlib import Path

from fairseq_odeformers.files import read_lines, replacing

ROWS = Path(__file__).with_name("agnews_rows.txt")
TESTED = 1_000  # the last rows
VALIDATED = 940  # lines


def name_of(row: list[str]) -> str:
    """The hash of a row's texts, whatever their quotes and spaces."""
    text = " ".join(" ".join(row[1:]).split())
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def draw_agnews(source: Path, rows: Path, out: Path) -> None:
    with open(source, encoding="utf-8", newline="") as file:
        found = {name_of(row): row for row in csv.reader(file)}
    names = list(read_lines(rows))
    if missing := sum(name not in found for name in names):
        raise ValueError(f"{source}: {missing:,} of the {len(names):,} rows are not in it")
    out.mkdir(parents=True, exist_ok=True)
    for split, of_split in (("train", names[:-TESTED]), ("test", names[-TESTED:])):
        with (
            replacing(out / f"{split}.csv") as path,
            open(path, "w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
            writer.writerows(found[name] for name in of_split)


def draw_ptb(valid: Path, test: Path, out: Path) -> None:
    lines = list(read_lines(test))
    half = (len(lines) + 1) // 2
    splits = {
        "train": list(read_lines(valid)),
        "valid": lines[:VALIDATED],
        "test": lines[VALIDATED:half],
    }
    out.mkdir(parents=True, exist_ok=True)
    for split, of_split in splits.items():
        with replacing(out / f"{split}.txt") as path:
            path.write_text("".join(f"{line}\n" for line in of_split), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    corpora = parser.add_subparsers(dest="corpus", required=True, metavar="CORPUS")
    agnews = corpora.add_parser("agnews")
    agnews.add_argument("source", metavar="TEST.CSV", type=Path)
    agnews.add_argument("--rows", metavar="FILE", type=Path, default=ROWS, help="their hashes")
    ptb = corpora.add_parser("ptb")
    ptb.add_argument("valid", metavar="PTB.VALID.TXT", type=Path)
    ptb.add_argument("test", metavar="PTB.TEST.TXT", type=Path)
    for corpus in (agnews, ptb):
        corpus.add_argument("--out", metavar="DIR", type=Path, required=True)
    args = parser.parse_args()
    try:
        if args.corpus == "agnews":
            draw_agnews(args.source, args.rows, args.out)
        else:
            draw_ptb(args.valid, args.test, args.out)
    except (ValueError, OSError) as error:
        sys.exit(f"data.py: {error}")


if __name__ == "__main__":
    main()
