"""The commands of README and the tutorials work as typed, from data to a report and a result.

The commands and Python code run in their order, each as a process, in a folder with only the user's
data. Options of :data:`SMALLER` are added. ``MAIN_ROAD=printed`` runs README's commands as printed,
which takes half an hour.
"""

import ast
import csv
import os
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from script_helpers import ROOT

PRINTED = os.environ.get("MAIN_ROAD") == "printed"
SETUP = ("git", "export", "make", ".")  # first words of the lines before the commands
TUTORIALS = ROOT / "docs/tutorials"
SCORES = {"parallel": "BLEU", "text-classification": "accuracy", "lm": "perplexity"}
# Options at the end of a command, where they override earlier ones.
SMALLER = {
    "odeformers compare": "--seeds 1 --size small --width 16 --heads 2",
    "odeformers translate": "--beam 1",
}
COMPARE = {"--budget": "--budget 0.5s", "--tune": "--no-extend --epochs 1"}
GRID = "lr=1e-3,2e-3"  # replaces that of --tune


def read_road(page):
    """The commands and Python of a page, as words; ``>`` and ``|`` are such words."""
    text, road = (ROOT / page).read_text("utf-8"), []
    for language, block in re.findall(r"^```(bash|python)\n(.*?)^```", text, re.M | re.S):
        if language == "python":
            road.append(["python", "-c", block])
        else:
            lines = block.replace("\\\n", " ").splitlines()
            road += [shlex.split(line, comments=True) for line in lines]
    return [words for words in road if words and words[0] not in SETUP]


PAGES = ["README.md", *sorted(f"docs/tutorials/{path.name}" for path in TUTORIALS.glob("*.md"))]
ROADS = {page: read_road(page) for page in (PAGES[:1] if PRINTED else PAGES)}


def test_the_pages_contain_their_commands():
    """Without this check, commands that a page loses or writes otherwise would not be tested."""
    for page, road in ROADS.items():
        kinds = [" ".join(words[:2]) for words in road]
        assert kinds[:2] == ["odeformers prepare", "odeformers compare"], page
    (last,) = (words for words in ROADS["README.md"] if "|" in words)
    assert last[last.index("|") + 1 :][0] == "python"


@pytest.mark.parametrize("name", ROADS)
def test_the_commands_of_a_page_work_in_order(name, tmp_path):
    (tmp_path / "fairseq_odeformers").symlink_to(ROOT / "fairseq_odeformers")
    road = ROADS[name]
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for words in road:
        write_data(tmp_path, words)
    for words in road:
        words = shortened(words, road)
        line = shlex.join([*words, *added(words)]).replace(" '|' ", " | ")
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=tmp_path,
            env={**os.environ, "PATH": programs},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        check_result(tmp_path, words, done.stdout)


def shortened(words, road):
    """A command that compares only models that later commands use; README's has two."""
    if PRINTED or words[1] != "compare":
        return words
    words = [GRID if before == "--tune" else word for before, word in zip(["", *words], words)]
    first = words.index("--archs") + 1
    archs, later = words[first:], " ".join(map(" ".join, road))
    kept = [arch for arch in archs if f"/{arch}-" in later]
    others = [arch for arch in archs if arch not in kept]
    return [*words[:first], *others[: (2 if road is ROADS["README.md"] else 1) - len(kept)], *kept]


def added(words):
    """The options that make a command of a page small."""
    line, options = " ".join(words), []
    if not PRINTED:
        for start, more in SMALLER.items():
            options += more.split() if line.startswith(start) else []
        if words[1] == "compare":
            shorter = [COMPARE[option] for option in COMPARE if option in words]
            options += " ".join(shorter or ["--epochs 1"]).split()
    return options


def value(words, option):
    return words[words.index(option) + 1]


NOUNS = {"hund": "dog", "katze": "cat", "vogel": "bird", "fisch": "fish", "wolf": "wolf"}
VERBS = {"sieht": "sees", "hört": "hears", "mag": "likes"}


def draw_pairs(number):
    """Sentences and translations, all different."""
    draw = random.Random(1)
    for n in range(number):
        (first, one), (second, two) = (draw.choice([*NOUNS.items()]) for _ in range(2))
        verb, translated = draw.choice([*VERBS.items()])
        yield (
            f"{n} Mal {verb} ein {first} den {second}.",
            f"{n} times a {one} {translated} the {two}.",
        )


def write_data(folder, words):
    """Write the user's data, by the paths that a command names."""
    line = " ".join(words)
    if line.startswith("odeformers prepare") and "--from" in words:
        path, kind = folder / value(words, "--from"), words[2]
        pairs = [*draw_pairs(60)]
        if kind == "parallel":
            path.write_text("".join(f"{pair[0]}\t{pair[1]}\n" for pair in pairs), "utf-8")
            return
        texts = [text for _, text in pairs]
        labels = ["cat" if "cat" in text else "other" for text in texts]
        rows = [f'{label},"{text}"' for label, text in zip(labels, texts)]
        lines = texts if kind == "lm" else ["class,text", *rows]
        path.write_text("\n".join([*lines, ""]), "utf-8")
    elif "--text" in words:
        (folder / value(words, "--text")).write_text("3 Mal sieht ein hund den wolf.\n" * 2)


def check_result(folder, words, printed):
    """Check a command's files or output."""
    match words[:2]:
        case ["odeformers", "prepare"]:
            assert any((folder / value(words, "--out")).glob("data-bin/**/train*.idx"))
        case ["odeformers", "check"]:
            assert "pass" in printed and "FAIL" not in printed
        case ["odeformers", "compare"]:
            archs, out = words[words.index("--archs") + 1 :], folder / value(words, "--out")
            check_report((out / "report.md").read_text("utf-8"), archs)
            with open(out / "results.csv", encoding="utf-8", newline="") as file:
                rows = [row for row in csv.DictReader(file) if row["score"]]
            assert {row["architecture"] for row in rows} == {*archs}
            assert all(float(row["seconds"]) > 0 < float(row["cpu_seconds"] or 1) for row in rows)
        case ["odeformers", "translate"]:
            assert len(printed.splitlines()) == 2 and all(printed.splitlines())
        case ["odeformers", "predict"]:
            path = folder / value(words, "--output") if "--output" in words else None
            header, *rows = (path.read_text() if path else printed).splitlines()
            classes = re.findall(r"p\((\w+)\)", header)
            assert rows and all(row.split("\t")[2] in classes for row in rows)
        case ["odeformers", "export"]:
            assert (folder / words[3] / "run.py").exists()
        case ["python", _]:
            for result in map(ast.literal_eval, printed.splitlines()):
                # a log-probability, or a list of one text
                assert result < 0 if isinstance(result, float) else len(result) == 1
        case ["echo", _]:  # pipes a text to a translator
            assert printed.strip()
        case _:
            pytest.fail(f"{words[:2]}: say here what it leaves, or that it is set-up")


def check_report(report, archs):
    """A table of scores has a number for every architecture."""
    tables = (block.splitlines() for block in report.split("\n\n") if block.startswith("| "))
    scored = {}
    for header, _, *rows in tables:
        names = [cell.strip() for cell in header.split("|")]
        for metric in SCORES.values():
            if metric in names:
                for row in rows:
                    cells = [cell.strip() for cell in row.split("|")]
                    scored[cells[1].split("[")[0]] = cells[names.index(metric)]
    for arch in archs:
        assert float(scored[arch].split()[0]) >= 0, report
