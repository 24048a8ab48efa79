"""What the commands for trained models refuse: each by one line, and nothing is written."""

import gzip
import math
import shutil
import sys
from pathlib import Path

import pytest
import torch
from make_checkpoints import PATHS, write_data, write_splits
from script_helpers import times

from fairseq_odeformers.data.classification import make_dictionary
from odeformers.__main__ import main

REFUSED = {
    "predict words --path classifier.pt --output made": {
        "--text absent --path cut.pt": "--text absent: no such file; give",
        "--text words": "--text words: is a folder; give a file",
        "--text labels.csv": "labels.csv, line 1: which columns a, b, c texts? --column",
        "--text labels.csv --column 9": "labels.csv, line 1: no column 9",
        "--text tab --column 2": "--column 2: a table",
        "--text tab": "tab, line 2",
        "--text cr": "cr, line 2",
        "--split valid": "label/valid",
        "--split dev": "--split dev: words has test, valid; give one of them",
        "--split tset": "--split tset: words has test, valid; did you mean test?",
        "--text tab --split test": "--split",
        "--glue-submission": "--glue-submission",
        "--text --batch-size -1": "--batch-size: -1",
        "--path model.pt": "model.pt of_my_own --user-dir",
        "--path task.pt": "task.pt of_my_own --user-dir",
        "--path cut.pt": "cut.pt",
        "--path foreign.pt": "foreign.pt PosixPath",
        "--path nan.pt": "nan.pt embed_tokens",
        "--path numbers.pt": "numbers.pt --regression-target fairseq-validate STS-B-bin",
        "--path short.pt": "4 of 4 inputs of test --max-positions --truncate",
        "--path export": "safetensors [export]",
        "--user-dir absent": "--user-dir absent",
        "--user-dir clone/json/__init__.py": "/__init__.py: a file; give its folder, clone/json",
        "--user-dir tab": "tab: a file; give a folder with this file as its __init__.py",
        "--user-dir clone/fairseq_odeformers": "clone/fairseq_odeformers already been imported",
        "--user-dir clone/json": "--user-dir clone/json already been imported",
        "--path a:b.pt": "a:b.pt ':'",
        "--path a:b.pt:classifier.pt": "a:b.pt",
        "--path c:d/classifier.pt": "c:d ':'",
        "--output words": "--output words: give a file, not a folder",
        "--output absent/made": "--output absent/made: there is no folder absent; make it first",
        "--output /proc/made": "--output: /proc/made: cannot be written",
    },
    "predict c:d --path classifier.pt --output made": {"": "c:d ':'"},
    "predict two --path classifier.pt --output made": {"": "classes two"},
    "predict bare --path classifier.pt": {"": "bare/input0/dict.txt: give the data folder"},
    "predict absent --path classifier.pt": {"": "data absent: no such folder; give dictionaries"},
    "translate words --path classifier.pt": {
        "--text absent": "--text absent: no such file; give",
        "--output words": "--output: words: is a folder; give a file",
        "--text labels.csv": "--text labels.csv: a table; save the column",
    },
    "predict tab --path classifier.pt": {"": "data tab: no such folder; give data-bin"},
    "translate words --path numbers.pt --text tab": {"": "numbers.pt --regression-target STS-B"},
    "predict turned --path classifier.pt --output made": {"": "0, 1, 2, turned 2, 1, 0,"},
    "export": {
        "foreign.pt made": "foreign.pt PosixPath",
        "nan.pt made": "nan.pt embed_tokens",
        "nan.pt made.pt2 --data words": "nan.pt embed_tokens",
    },
    "analyse states --data words --out made --cpu": {
        "foreign.pt": "foreign.pt PosixPath",
        "nan.pt": "nan.pt embed_tokens",
        "short.pt": "short.pt: --max-positions",
    },
    "analyse states classifier.pt --out made --cpu": {
        "--data c:d": "c:d ':'",
        "--data absent": "data absent: no such folder; give dictionaries",
        "--data words --user-dir clone/fairseq_odeformers": "clone/fairseq_odeformers imported",
    },
    "list": {
        "--user-dir clone/fairseq_odeformers": "clone/fairseq_odeformers already been imported"
    },
    "analyse attention --data words --out made --cpu": {
        "classifier.pt": "classifier.pt: TransJect attention maps; translators",
        "classifier.pt --text 1": "classifier.pt: TransJect attention maps; translators",
    },
    "export classifier.pt": {
        "made.pt2 --model-overrides {'a':": "--model-overrides {'a':",
        "made.pt2 --model-overrides {'layer':3}": "classifier.pt layer; fairseq-train",
        "made.pt2 --data absent": "absent",
        "made.pt2 --data two": "classes two",
        "absent/made.pt2": "absent/made.pt2",
        "words": "words is in the way",
        "old.pt2 --data words": "old.pt2 is in the way",
        "made --data words": "made: weights --data --to torch",
        "made --model-overrides {'ode_steps':3}": "made: weights --model-overrides --to torch",
    },
    "average --output made": {
        "--checkpoint-dir . --last 10": "--last 10 3 checkpoints",
        "--checkpoint-dir .": "--checkpoint-dir --last",
        "--checkpoint-dir absent --last 2": "--checkpoint-dir absent: no such folder; give",
        "--inputs classifier.pt --last 2": "--checkpoint-dir --last",
        "--checkpoint-dir . --last 0": "--last 0",
        "--inputs cut.pt": "cut.pt",
        "--inputs foreign.pt": "foreign.pt PosixPath",
        "--inputs nan.pt": "nan.pt embed_tokens",
        "--inputs absent.pt": "absent.pt",
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The current folder: data sets, texts and checkpoints, whole ones and others.

    One for all, since what is refused changes nothing in it.
    """
    folder = tmp_path_factory.mktemp("refused")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setitem(sys.modules, "safetensors.torch", None)
        write_files(folder)
        yield folder


def write_files(folder):
    Path("classifier.pt").write_bytes(gzip.decompress(PATHS["transject"].read_bytes()))
    state = torch.load("classifier.pt")
    Path("export").mkdir()
    Path("export/config.json").touch()
    write_data(folder)
    write_splits(folder, test=4)
    Path("bare").mkdir()
    Path("labels.csv").write_text("a,b,c\n")
    for name, classes in (("two", "01"), ("turned", "210")):
        shutil.copytree("words", name)
        make_dictionary(classes).save(f"{name}/label/dict.txt")
    shutil.copytree("words", "c:d")
    shutil.copy("classifier.pt", "a:b.pt")
    for name in ("fairseq_odeformers", "json"):
        Path("clone", name).mkdir(parents=True)
        Path("clone", name, "__init__.py").touch()
    for path in Path("words/label").glob("valid.*"):
        path.unlink()
    Path("old.pt2").touch()
    Path("tab").write_text("a b\na\tb\n")
    Path("cr").write_bytes(b"a b\r\na\rb\r\n")
    torch.save({**state, "task_state": {"classes": ["0", "1", "2", "<mask>"]}}, "classifier.pt")
    for number in range(3):
        torch.save(state, f"checkpoint_1_{number}.pt")
    Path("cut.pt").write_bytes(Path("classifier.pt").read_bytes()[:1000])
    torch.save({**state, "foreign": Path()}, "foreign.pt")
    weights = dict.fromkeys(state["model"], torch.tensor([math.nan]))
    torch.save({**state, "model": weights}, "nan.pt")
    for part in ("model", "task"):
        config = {**state["cfg"], part: {**state["cfg"][part], "_name": "of_my_own"}}
        torch.save({**state, "cfg": config}, f"{part}.pt")
    for name, options in (
        ("short.pt", {"max_positions": 3}),
        ("numbers.pt", {"regression_target": True}),
    ):
        config = {**state["cfg"], "task": {**state["cfg"]["task"], **options}}
        torch.save({**state, "cfg": config}, name)


@pytest.mark.parametrize(
    "line, more", [(line, more) for line, options in REFUSED.items() for more in options]
)
def test_refusals(line, more, folder, capsys):
    """On standard error, after the usage if an option is at fault."""
    before = times(folder)
    command, *arguments = line.split()
    with pytest.raises(SystemExit) as stop:
        main([command, *arguments, *more.split()])
    error = str(stop.value) if stop.value.code != 2 else capsys.readouterr().err.splitlines()[-1]
    for word in REFUSED[line][more].split():
        assert word in error
    assert "\n" not in error
    assert times(folder) == before
