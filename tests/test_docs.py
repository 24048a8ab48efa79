"""Links, names and commands of README and documentation exist and work."""

import contextlib
import io
import itertools
import json
import logging
import pkgutil
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from fairseq import options
from hydra._internal.utils import get_args_parser

from fairseq_odeformers.registry import import_plugins
from odeformers.__main__ import main
from odeformers.compare.report import notes

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$", re.S)
PARSERS = {
    "fairseq-train": options.get_training_parser,
    "fairseq-generate": options.get_generation_parser,
    "fairseq-interactive": options.get_interactive_generation_parser,
    "fairseq-validate": options.get_validation_parser,
    "fairseq-eval-lm": options.get_eval_lm_parser,
}


def name(page):
    return str(page.relative_to(ROOT))


def prose(page):
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchors(page):
    """The names that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_have_targets(page):
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_markdown_does_not_change_tildes_and_formulas(page):
    """GitHub strikes out text between two tildes.

    In formulas it also slants text between two underscores, and drops a backslash before a sign.
    The first underscore follows a space or a sign, and the second precedes one.
    """
    for paragraph in re.split(r"\n\s*\n", re.sub(r"`[^`]+`|\]\([^)]*\)", "", prose(page))):
        assert not re.search(r"(?<!\w)_(?=\S).*?(?<=\S)_(?!\w)", paragraph, re.S), paragraph
        text, *formulas = re.sub(FORMULA, "", paragraph), *re.findall(FORMULA, paragraph)
        assert text.count("~") < 2, paragraph
        for formula in formulas:
            assert not re.search(r"\\[^\w\s]", formula), formula


def commands():
    for page in PAGES:
        blocks = re.findall(r"^```bash\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
        for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
            words = shlex.split(line.partition(" > ")[0], comments=True)
            while words and re.fullmatch(r"\w+=.*", words[0]):  # variables of the environment
                words.pop(0)
            if words:
                yield pytest.param(words, id=f"{name(page)}: {' '.join(words)[:60]}")


def python_names():
    for page in (page for page in PAGES if page.name != "CHANGELOG.md"):  # has former names
        text = page.read_text(encoding="utf-8")
        names = {*re.findall(r"\bfairseq_odeformers(?:\.\w+)+", text)}
        for module, imported in re.findall(
            r"^ *from (fairseq_odeformers[\w.]*) import (\([^)]*\)|.*)$", text, re.M
        ):
            words = re.findall(r"\w+(?: as \w+)?", imported.partition("#")[0])
            names |= {f"{module}.{word.split()[0]}" for word in words}
        for each in sorted(names):
            yield pytest.param(each, id=f"{name(page)}: {each}")


@pytest.mark.parametrize("path", python_names())
def test_python_names_exist(path):
    pkgutil.resolve_name(path)


@cache
def help_of(*names):
    """The help of a command."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        main([*names, "--help"])
    return output.getvalue()


@pytest.mark.parametrize("words", commands())
def test_commands_of_pages_are_valid(words, page_plugin, monkeypatch, capsys):
    """fairseq's commands parse, and the project's own commands have the given options."""
    if words[0] == "torchrun":
        words = words[words.index(".venv/bin/fairseq-train") :]
    program, *args = words
    program = program.replace(".venv/bin/", "")
    if program in PARSERS:
        plugin = args.index("--user-dir")
        if args[plugin + 1].startswith("examples/"):
            import_plugins([str(ROOT / args[plugin + 1])])
        options.parse_args_and_arch(PARSERS[program](), args[:plugin] + args[plugin + 2 :])
    elif program == "make":
        assert re.search(rf"^{args[0]}:", (ROOT / "Makefile").read_text(), re.M)
    elif program == "odeformers" and args[0] == "hydra-train":  # its --help takes ten seconds
        get_args_parser().parse_args(args[1:])
    elif program == "odeformers":
        names = [*itertools.takewhile(lambda arg: not arg.startswith("-"), args)]
        names = names[: 2 if names[0] in ("analyse", "benchmark", "prepare") else 1]
        monkeypatch.setattr(sys, "argv", sys.argv[:])
        monkeypatch.setattr(logging.root.manager, "disable", 0)  # a program may change it
        shown = help_of(*names)
        for option in (arg for arg in args if arg.startswith("--")):
            assert option in shown, option
    elif program == "sacremoses":
        command = [str(Path(sys.executable).with_name(program)), *args[: args.index("<")]]
        done = subprocess.run(command, input='"A&B" isn\'t.', capture_output=True, text=True)
        assert done.stdout.strip() == '" A & B " isn \'t .'
    elif program not in (".", "echo", "export", "git", "pip"):
        assert (ROOT / (args[0] if program == "python" else program)).is_file(), program


def test_the_page_states_the_thresholds_of_notes():
    page = (ROOT / "docs/reference/verdicts.md").read_text(encoding="utf-8")
    items = [" ".join(item.split()) for item in re.split(r"\n\| |\n\n(?!- )", page)]
    for note, *thresholds in (
        (
            "Too little training to compare",
            f"more than {notes.MARKED_IMPROVEMENT:.0%}",
            f"below {notes.MIN_BLEU},",
            f"than {notes.MIN_VOCABULARY:.0%}",
        ),
        ("Too few texts to compare", f"{notes.FEW_EXAMPLES} test texts"),
        ("Unequal effort", f"{notes.INCOMPARABLE:.0%}", f"{notes.UNEQUAL:.0%}"),
        ("Still improving at the end", f"{notes.SLIGHT_IMPROVEMENT:.0%}"),
        ("Seeds took unequal time", f"{notes.MIN_TIME} seconds", f"{notes.UNEQUAL:.0%}"),
        ("... of the words of test are unknown", f"above {notes.UNKNOWN:.0%}"),
    ):
        (item,) = (item for item in items if item.startswith(f"`{note}`"))
        assert all(threshold in item for threshold in thresholds), note


def test_the_named_files_of_tests_exist():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in re.findall(r"`(?:tests/)?((?:\w+/)*test_\w+\.py)`", page):
        assert (ROOT / "tests" / path).is_file(), path


@pytest.mark.parametrize("path", [*ROOT.glob("examples/*.ipynb")], ids=name)
def test_notebooks_are_kept_with_the_outputs_of_one_run(path):
    """Outputs are those of scripts/notebook.py: all cells, small, without traces of a machine."""
    text = path.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output.get("name", "stdout") for output in outputs} == {"stdout"}
    assert "error" not in {output["output_type"] for output in outputs}
    assert len(text) < 300_000
    words = re.sub(r'"image/png": ".*?"', "", text)
    assert not re.search(r"(?<![\w.])/(home|root|tmp|Users)/|(\.\./){2}|seconds|20\d\d-\d\d", words)


def test_pictures_are_small():
    for path in (*ROOT.glob("docs/**/*.png"), *ROOT.glob("examples/**/*.png")):
        assert path.stat().st_size < 300_000, path
