"""The script draws the scoreboard's data sets from files of the published layout."""

import csv
import subprocess
import sys

from script_helpers import ROOT

sys.path.insert(0, str(ROOT / "examples/scoreboard"))
from data import ROWS, TESTED, name_of  # noqa: E402


def draw(*arguments):
    script = ROOT / "examples/scoreboard/data.py"
    return subprocess.run(
        [sys.executable, script, *map(str, arguments)], capture_output=True, text=True
    )


def write_table(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)


def test_rows_are_found_by_the_hashes_of_their_texts(tmp_path):
    rows = [["1", f"title {i}", f'a "text", {i}'] for i in range(TESTED + 3)]
    (tmp_path / "rows").write_text("".join(f"{name_of(row)}\n" for row in rows))
    spaced = [[label, f"{title} ", text] for label, title, text in reversed(rows)]
    write_table(tmp_path / "published.csv", [["2", "another", "text"], *spaced])
    done = draw(
        *("agnews", tmp_path / "published.csv", "--rows", tmp_path / "rows"),
        *("--out", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    drawn = [
        list(csv.reader((tmp_path / f"out/{split}.csv").open(newline="", encoding="utf-8")))
        for split in ("train", "test")
    ]
    assert [len(split) for split in drawn] == [3, TESTED]
    assert [row[2] for split in drawn for row in split] == [row[2] for row in rows]


def test_a_file_without_the_rows_is_refused(tmp_path):
    write_table(tmp_path / "published.csv", [["2", "another", "text"]])
    done = draw("agnews", tmp_path / "published.csv", "--out", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.endswith("published.csv: 6,500 of the 6,500 rows are not in it\n")
    assert not (tmp_path / "out").exists()
    names = ROWS.read_text("utf-8").split()
    assert len(names) == len(set(names)) == 6_500


def test_penn_treebanks_test_file_is_halved(tmp_path):
    for name, lines in (("valid", 5), ("test", 3_761)):
        (tmp_path / name).write_text("".join(f" {name} {i} \n" for i in range(lines)))
    done = draw("ptb", tmp_path / "valid", tmp_path / "test", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    ends = {
        path.stem: (lines[0].split(), lines[-1].split())
        for path in (tmp_path / "out").iterdir()
        for lines in [path.read_text("utf-8").splitlines()]
    }
    assert ends == {
        "train": (["valid", "0"], ["valid", "4"]),
        "valid": (["test", "0"], ["test", "939"]),
        "test": (["test", "940"], ["test", "1880"]),
    }
