"""Bad input ends a command with status 2 and one line that names it; nothing is written or run."""

import gzip
import math
import os
import random
import re
import resource
import shutil
import signal
import struct
import zipfile
from functools import partial
from pathlib import Path

import published
import pytest
import torch
import yaml
from make_checkpoints import PATHS, write_data, write_rows, write_splits
from script_helpers import write_to

from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.data.classification import make_dictionary
from odeformers.__main__ import main
from odeformers.prepare import CORPORA
from odeformers.processes import FORK
from tests.odeformers.compare.comparisons import write_comparison, write_run

LIMITS = {resource.RLIMIT_AS: 12 << 30, resource.RLIMIT_CPU: 60}  # bytes, seconds
SECONDS = 600  # wall-clock time on a busy machine
EOS = 2
CODE = "__import__('pathlib').Path('trace').touch()"

# --- commands, and the words of their last line ---------------------------------------------

COMPARE = "compare words --task translation --archs macaron_transformer --dry-run --epochs 1 --cpu"
PARALLEL = "prepare parallel -s de -t en --bpe-operations 20 --workers 1 --out own --from"
TABLES = "prepare text-classification tsv --vocab-size 60 --workers 1 --out own --from"
REFUSED = {
    "lst": {"": "(see odeformers --help)"},
    "translat": {"": "did you mean translate"},
    "prepare": {
        "glu": "(see odeformers prepare --help)",
        "paralel": "did you mean parallel",
        "glue QQPP": "did you mean QQP",
        "glue wnli": "TASK: 'wnli' CoLA",
        "glue --dict absent": "--dict: absent",
        "glue --dict lines": "--bpe-codes and --dict",
        "glue --bpe-codes lines --dict lines --bpe-operations 5": "--bpe-operations: not allowed",
        "glue words": "TASK: words: a path goes after --from; name CoLA,",
        "lra imdb": "TASK: 'imdb' listops",
        "text-classification sst": "DATA: 'sst'",
        "text-classification tsv": "tsv needs --from",
        "text-classification --from lines": "DATA; name it agnews, or tsv for your own tables",
        "text-classification lines": "lines: a path goes after --from; name imdb, agnews, tsv",
        "lines": "lines: name the kind of data: parallel --from lines text-classification tsv",
        "parallel -s de -t en --from parallel --out lines": "--out: lines: is a file; give",
        "text-classification imdb --vocab absent": "--vocab: absent",
        "text-classification imdb --vocab lines --vocab-size 9": "--vocab-size: not allowed",
        "text-classification tsv --valid-fraction 1": "--valid-fraction: 1: give",
        "text-classification tsv --valid-fraction x": "--valid-fraction: x: give a number",
        "listops --max-args 1": "--max-args: 1",
        "wmt14": "are required: pair; name it before the options",
        "wmt14 de-en": "pair: 'de-en'",
        "multi30k --bpe-operations x": "--bpe-operations: x",
        "parallel -s de -t en": "are required: --from",
        "lm": "are required: --from",
        "parallel -s de -t de --from parallel": "-s and -t are both de",
        "parallel -s a:b -t en --from parallel": "a:b",
        "parallel -s de -t en --from parallel --valid 9": "--valid and --test",
        "parallel -s de -t en --from parallel/train.de": "train.de one column",
        "parallel --from parallel/train.de": "required: --source-lang, parallel/train.de pass both",
        "parallel -s de -t en --from a.tar.gz": "--from a.tar.gz: an archive; unpack it",
        "parallel -s de -t en --from a.txz": "--from a.txz: an archive; unpack it",
        "parallel -s de -t en --max-ratio 0.5": "--max-ratio: 0.5: give 1",
        "parallel -s de -t en --max-ratio x": "--max-ratio: x: give a number",
        **{f"{corpus} --workers 0": "--workers: 0 --help" for corpus in CORPORA},
        **{f"{name} --from absent": "--from: absent" for name in CORPORA if name != "listops"},
    },
    f"{PARALLEL} parallel": {f"--out {name}": f"--out {name}" for name in ("a:b", "a,b")},
    PARALLEL: {
        "kept": "kept",
        "parallel/train.de": "train.de one column; pass second",
        "parallel/train.de parallel/train.en --valid 99": "train.en: --valid 99 smaller",
    },
    "prepare listops --train 2 --workers": {
        value: f"--workers: {value}" for value in ("1000000000", "1e30", "nan", str(10**30))
    },
    "options": {"transevolve_fulff_2": "did you mean transevolve_fullff_2"},
    "list": {
        "--user-dirr x": "--user-dirr (see odeformers list --help)",
        "transjekt": "transjekt: family kind of model name did you mean transject",
        "transject translation": "transject translation: nothing matches words; use fewer",
        "--user-dir absent": "absent",
        "--user-dir clone/fairseq_odeformers": "clone/fairseq_odeformers already been imported",
    },
    "check": {
        "transjekt": "transjekt: did you mean transject or",
        "transject --encoder-layers -1": "transject --encoder-layers -1: give at least 1",
        "transject --encoder-layers": "--encoder-layers: no value follows; give one",
        "transject --droput 1": "--droput 1; did you mean --dropout",
        "transformer --dropout 0.1 transject": "transject; name architectures before options",
        "transformer --encoder-experts=1": "belong to transject, leave it out",
    },
    "compare": {
        "": "--help",
        "absent": "absent: no such file or folder; give",
        "words --size smal": "smal --help",
        "c:d --task translation --archs macaron_transformer --dry-run": "c:d ':'",
        "bare --task translation --archs macaron_transformer --dry-run": "bare omit --task",
    },
    "report": {"absent": "absent: no such file or folder; give"},
    "predict words --path classifier.pt --output made": {
        "--text absent --path cut.pt": "--text absent: no such file; give",
        "--text words": "--text words: a folder; give a file",
        "--text labels.csv": "labels.csv, line 1: cannot tell columns a, b, c texts; --column",
        "--text labels.csv --column 9": "labels.csv, line 1: no column 9; use a, b, c,",
        "--text both.csv": "both.csv, line 1: text, comment one text --column",
        "--text tab --column 2": "--column 2 a table",
        "--text tab": "tab, line 2",
        "--text cr": "cr, line 2",
        "--split valid": "label/valid",
        "--split dev": "--split dev: words has test, valid; choose one of them",
        "--split tset": "--split tset: words has test, valid; did you mean test?",
        "--text tab --split test": "--split",
        "--glue-submission": "--glue-submission",
        "--text --batch-size -1": "--batch-size: -1",
        **{f"--batch-size {n}": f"--batch-size: {n}" for n in ("1e30", "0", "nan", 10**30)},
        "--batch-sise=3 --cpuu": "did you mean --batch-size? --cpu",
        "--path model.pt": "model.pt of_my_own --user-dir",
        "--path task.pt": "task.pt of_my_own --user-dir",
        "--path cut.pt": "cut.pt",
        "--path labels.csv": "labels.csv pass an intact checkpoint torch did not save it",
        "--path foreign.pt": "foreign.pt PosixPath",
        "--path nan.pt": "nan.pt embed_tokens",
        "--path numbers.pt": "numbers.pt --regression-target fairseq-validate STS-B-bin",
        "--path short.pt": "4 of 4 inputs of test --max-positions --truncate",
        "--path a:b.pt": "a:b.pt ':'",
        "--path a:b.pt:classifier.pt": "a:b.pt",
        "--path c:d/classifier.pt": "c:d ':'",
        "--user-dir absent": "--user-dir absent",
        "--user-dir clone/json/__init__.py": "/__init__.py: a file; pass its folder, clone/json",
        "--user-dir tab": "tab: a file; pass a folder with this file as its __init__.py",
        "--user-dir clone/fairseq_odeformers": "clone/fairseq_odeformers already been imported",
        "--user-dir clone/json": "--user-dir clone/json already been imported",
        "--output words": "--output words: pass a file, not a folder",
        "--output absent/made": "--output absent/made: there is no folder absent; make it first",
        "--output /proc/made": "--output: /proc/made: cannot be written",
        "--output full": "full",
        "--output kept/below": "kept/below",
    },
    "predict --path classifier.pt --output made": {
        "c:d": "c:d ':'",
        "two": "classes two",
        "bare": "bare/input0/dict.txt: pass the data folder",
        "absent": "data absent: no such folder; pass dictionaries",
        "tab": "data tab: no such folder; pass data-bin",
        "turned": "0, 1, 2, turned 2, 1, 0,",
    },
    "translate words --path classifier.pt": {
        "--text absent": "--text absent: no such file; give",
        "--output words": "--output: words: is a folder; give a file",
        "--text labels.csv": "--text labels.csv: a table; save its column",
        "--bem 3": "did you mean --beam",
        "kept": "did you mean --text kept",
    },
    "translate": {
        "absent --path x.pt": "absent: no such file or folder; give",
        "words --path numbers.pt --text tab": "numbers.pt --regression-target STS-B",
    },
    "export": {
        "classifier.pt:classifier.pt made": "classifier.pt:classifier.pt ensemble",
        "foreign.pt made": "foreign.pt PosixPath",
        "nan.pt made": "nan.pt embed_tokens",
        "nan.pt made.pt2 --data words": "nan.pt embed_tokens",
    },
    "export classifier.pt": {
        "made.pt2 --model-overrides {'a':": "--model-overrides {'a':",
        "made.pt2 --model-overrides {'layer':3}": "classifier.pt layer; did you mean",
        "made.pt2 --model-overrides {'kernel':3}": "classifier.pt kernel; fairseq-train",
        **{f"made.pt2 --model-overrides {bad}": "--model-overrides" for bad in (CODE, "9**9**9")},
        "made.pt2 --model-overrides [].append": "--model-overrides",
        "made.pt2 --data absent": "absent",
        "made.pt2 --data two": "classes two",
        "absent/made.pt2": "absent/made.pt2",
        "full.pt2 --data words": "full.pt2",
        "words": "words is in the way",
        "old.pt2 --data words": "old.pt2 is in the way",
        "made --data words": "made: weights --data --to torch",
        "made --model-overrides {'ode_steps':3}": "made: weights --model-overrides --to torch",
    },
    "analyse": {
        "states": "(see odeformers analyse states --help)",
        "depth classifier.pt --data words --out made --step 2": "--step: --steps? depth",
        "spectra classifier.pt --data words --out made --steps 2": "--steps analyse spectra --help",
        "depth classifier.pt --data words --out made --cpu": "analyse depth: TransJect",
        "states foreign.pt --data words --out made --cpu": "foreign.pt PosixPath",
        "states nan.pt --data words --out made --cpu": "nan.pt embed_tokens",
        "states short.pt --data words --out made --cpu": "short.pt: --max-positions",
        "states classifier.pt --data c:d --out made --cpu": "c:d ':'",
        "states classifier.pt --data absent --out made": "data absent: no such folder; pass",
        "attention classifier.pt --data words --out made --cpu": "classifier.pt: TransJect maps;",
    },
    "average --output made": {
        "--by week": "week --help",
        "--checkpoint-dir . --last 10": "--last 10 3 checkpoints",
        "--checkpoint-dir .": "--checkpoint-dir --last",
        "--checkpoint-dir absent --last 2": "--checkpoint-dir absent: no such folder; pass",
        "--inputs classifier.pt --last 2": "--checkpoint-dir --last",
        "--checkpoint-dir . --last 0": "--last 0",
        "--inputs cut.pt": "cut.pt",
        "--inputs foreign.pt": "foreign.pt PosixPath",
        "--inputs nan.pt": "nan.pt embed_tokens",
        "--inputs absent.pt": "absent.pt",
        "--inputs classifier.pt translator.pt": "classifier.pt and translator.pt different models",
        "--inputs classifier.pt --output full": "full",
    },
    COMPARE: {
        "--out a:b": "a:b",
        "--max-epoch 3": "--max-epoch 3: --epochs leave one of them out",
        "--tune seed=1,2": "--tune seed: give --seeds",
        "--tune lr=1e-3 2e-3": "--tune lr=1e-3: no spaces",
    },
}
LINES = [
    (f"{line} {more}", words) for line, ends in REFUSED.items() for more, words in ends.items()
]

# --- damaged files --------------------------------------------------------------------------

PREDICT = "predict words --path classifier.pt --cpu"
EXPORTED = "predict words --path export --cpu"
RECIPE = {
    "data": "words",
    "train": {"task": "translation", "source-lang": "de", "target-lang": "en", "lr": 0.1}
    | {"optimizer": "adam", "max-tokens": 100, "max-epoch": 1, "cpu": True},
    "sizes": {"embed-dim": 16, "ffn-embed-dim": 16, "attention-heads": 2, "layers": 1},
    "architectures": {"macaron_transformer": {}},
    "seeds": [1],
    "score": {"test": "odeformers score-wmt14 en-de {output}"},
    "paper": {"macaron_transformer": {"BLEU": 1.5}},
    "cited": {"a paper": {"macaron_transformer": {"BLEU": 1.5}}},
}
HEADER = b"MMIDIDX\0\0" + struct.pack("<QB", 1, 8)
LAUGHS = "".join(f"a{n}: &a{n} [{f'*a{n - 1},' * 9}]\n" for n in range(1, 40))
WRITERS = [
    *(f"{PREDICT} --output made", "average --inputs classifier.pt --output made.pt"),
    *("export classifier.pt made", "export classifier.pt made.pt2 --data words"),
]
READERS_OF_CHECKPOINTS = [
    *WRITERS,
    "analyse states classifier.pt --data words --out made --cpu",
]
# By file: the command that reads it, and contents that it refuses.
CONTENTS = {
    "words/input0/test.idx": (
        PREDICT,
        [b"", b"MMIDIDX", HEADER, HEADER + struct.pack("<Q", 2**60)]
        + [HEADER + struct.pack("<Qiq", 1, *two) for two in ((-3, 0), (9, 2**50))],
    ),
    "words/vocab.txt": (f"{PREDICT} --text lines", [b"", b"a\na\n", b"\xff", b"a b\n", b"x\n"]),
    "words/code": (f"{PREDICT} --text lines", [b"#version: 0.2\na\n", b"\xff", b"a b c\n"]),
    "classes/results.csv": ("report classes", [b"", b"schema\n1\n", b"\0"]),
    "texts/b-seed1/curve.csv": ("report texts", [b"", b"updates\n1\n"]),
    "recipe.yaml": (
        "compare recipe.yaml --dry-run",
        [b"", f"a0: &a0 [1]\n{LAUGHS}".encode(), b"? [a]\n: 1"]
        + [
            yaml.safe_dump({**RECIPE, **bad}).encode()
            for bad in ({"base": "recipe.yaml"}, {"base": "absent"}, {"parts": [1]})
            + tuple({key: 3} for key in RECIPE)
            + tuple({"train": {**RECIPE["train"], key: "x"}} for key in ("max-tokens", "arch"))
        ],
    ),
    "tables/train.tsv": (
        f"{TABLES} tables",
        [b"", b"y", b"y\n", b"\xff\ta\n", b"\ty\n", b"\0\tx\n"],
    ),
    "parallel/train.de": (f"{PARALLEL} parallel", [b"", b"\xff\n", b"one line\n"]),
    "parallel/train.tsv": (f"{PARALLEL} parallel/train.tsv", [b"", b"a\n", b"1\t" * 3]),
    "corpus/test.txt": (
        "prepare lm --workers 1 --out own --from corpus",
        [b"<pad> a\n", b"<s> a\n", b"a\rb\n"],
    ),
}
# The name in the error, if it is not the path.
NAMED = {"words/input0/test.idx": "words test", "recipe.yaml": "", "parallel/train.de": ""}
DEVICES = {
    "FIFO": os.mkfifo,
    "/dev/zero": lambda target: target.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "loop": lambda target: target.symlink_to(target.name),
}


class CreatesFolder:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("trace",)


def write(path, content):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content)


def replace(path, device):
    target = Path(path)
    shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
    DEVICES[device](target)


def change(**items):
    """Save the checkpoint again with other items."""
    torch.save({**torch.load("classifier.pt", weights_only=True), **items}, "classifier.pt")


def set_option(name, value):
    cfg = torch.load("classifier.pt", weights_only=True)["cfg"]
    change(cfg={**cfg, "model": {**cfg["model"], name: value}})


def zip_bomb():
    with zipfile.ZipFile("classifier.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(300 << 20))


def spoilt():
    """Cases: name, change that spoils a file, command that reads it, and the error's words."""
    for path, (line, contents) in CONTENTS.items():
        for number, content in enumerate(contents):
            yield f"{path} {number}", partial(write, path, content), line, NAMED.get(path, path)
    for key in ("foreign", "model", "cfg"):
        spoil = partial(change, **{key: CreatesFolder()})
        for line in READERS_OF_CHECKPOINTS:
            yield f"code in {key}, {line}", spoil, line, "classifier.pt"
    others = [[1], 3, "text", {}, {"model": {}}, {"model": 3, "cfg": 4}, {"cfg": None}]
    for number, state in enumerate([*others, {"model": {"x": torch.zeros(1)}}]):
        spoil = partial(torch.save, state, "classifier.pt")
        yield f"another file of torch {number}", spoil, PREDICT, "classifier.pt"
    for name in ("encoder_layers", "encoder_embed_dim", "encoder_experts"):
        for value in (-1, "x", [1], math.nan, 10**30):
            yield f"{name} {value}", partial(set_option, name, value), PREDICT, ""
    rows = [[4, 5 + n % 2, EOS] for n in range(4)]
    spoil = partial(write_rows, "words/label/test", rows)
    yield "labels of two words", spoil, PREDICT, "words/label"


def endless():
    """The same cases for files without an end, or of more than the memory."""
    for path, line in (
        *(("classifier.pt", PREDICT), ("export", EXPORTED), ("export/model.safetensors", EXPORTED)),
        *(("words/label/dict.txt", PREDICT), ("recipe.yaml", "compare recipe.yaml --dry-run")),
    ):
        for device in DEVICES:
            yield f"{path} is {device}", partial(replace, path, device), line, ""
    for path in ("classes/results.csv", "recipe.yaml"):
        spoil = partial(write, path, b"[" * 10**5)
        yield f"{path} is deep", spoil, CONTENTS[path][0], path
    yield "a zip bomb", zip_bomb, PREDICT, "classifier.pt"
    yield "a large width", partial(set_option, "encoder_embed_dim", 10**6), PREDICT, ""
    for device in ("/dev/zero", "/dev/null"):
        yield f"--from {device}", int, f"{PARALLEL} {device}", device
    yield "--text /dev/zero", int, f"{PREDICT} --text /dev/zero", "/dev/zero"


SPOILT, ENDLESS = [*spoilt()], [*endless()]

# --- whole files ----------------------------------------------------------------------------


def write_folder(folder):
    """The current folder: data sets, checkpoints, an export, runs, texts and a recipe."""
    write_data(folder)
    write_splits(folder, train=12, valid=4, test=4)
    for name, arch in (("classifier.pt", "transject"), ("translator.pt", "macaron_transformer")):
        write(name, gzip.decompress(PATHS[arch].read_bytes()))
    for path in Path("words/label").glob("valid.*"):
        path.unlink()
    change(task_state={"classes": ["0", "1", "2", "<mask>"]})
    Checkpoint.read("classifier.pt").export(Path("export"))
    texts = {"labels.csv": b"a,b,c\n", "both.csv": b"text,comment\n"}
    texts |= {"lines": b"1 2 3\n\n4 5\n", "kept": b"precious"}
    texts |= {"tab": b"a b\na\tb\n", "cr": b"a b\r\na\rb\r\n", "old.pt2": b"", "a.tar.gz": b""}
    texts |= {
        "a.txz": b"",
        "clone/json/__init__.py": b"",
        "clone/fairseq_odeformers/__init__.py": b"",
    }
    for name, content in texts.items():
        write(name, content)
    for name in ("full", "full.pt2"):
        os.symlink("/dev/full", name)
    Path("bare").mkdir()
    for name, classes in (("two", "01"), ("turned", "210")):
        shutil.copytree("words", name)
        make_dictionary(classes).save(f"{name}/label/dict.txt")
    shutil.copytree("words", "c:d")
    shutil.copy("classifier.pt", "a:b.pt")
    write_checkpoints(torch.load("classifier.pt", weights_only=True))
    write_runs(folder / "classes", "sentence_prediction", metric="accuracy")
    write_runs(folder / "texts", "translation", metric="BLEU", score=3.0)
    write("recipe.yaml", yaml.safe_dump(RECIPE).encode())
    parallel, tables, words = {}, {}, random.Random(1)
    for split, size in (("train", 40), ("valid", 4), ("test", 4)):
        rows = [" ".join(words.choices(["ab", "abc", "bc"], k=4)) for _ in range(size)]
        text = "".join(f"{row}\n" for row in rows).encode()
        parallel |= {f"{split}.de": text, f"{split}.en": text}
        write(f"corpus/{split}.txt", text)
        tables[f"{split}.tsv"] = b"".join(
            b"%c\t%s\n" % (b"yn"[n % 2], row.encode()) for n, row in enumerate(rows)
        )
    published.write_folder(folder / "parallel", parallel)
    published.write_folder(folder / "tables", tables)
    published.write_archive(folder / "tables.zip", tables)


def write_checkpoints(state):
    for number in range(3):
        torch.save(state, f"checkpoint_1_{number}.pt")
    write("cut.pt", Path("classifier.pt").read_bytes()[:1000])
    torch.save({**state, "foreign": Path()}, "foreign.pt")
    weights = dict.fromkeys(state["model"], torch.tensor([math.nan]))
    torch.save({**state, "model": weights}, "nan.pt")
    for path, part, options in (
        ("model.pt", "model", {"_name": "of_my_own"}),
        ("task.pt", "task", {"_name": "of_my_own"}),
        ("short.pt", "task", {"max_positions": 3}),
        ("numbers.pt", "task", {"regression_target": True}),
    ):
        config = {**state["cfg"], part: {**state["cfg"][part], **options}}
        torch.save({**state, "cfg": config}, path)


def write_runs(folder, task, **score):
    """Two runs of a comparison that have ended."""
    outputs = {"a": ["y", "n"] * 3, "b": ["y"] * 6}
    runs = (
        write_run(folder, name, outputs=out, references=["y"] * 6, task=task, **score)
        for name, out in outputs.items()
    )
    write_comparison(folder, *runs)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_folder(folder)
    return folder


@pytest.fixture
def copy(whole, tmp_path, monkeypatch):
    """A copy of the folder to spoil, which is the current folder."""
    monkeypatch.chdir(shutil.copytree(whole, tmp_path / "copy", symlinks=True))
    return tmp_path / "copy"


# --- tests ----------------------------------------------------------------------------------


def times(folder):
    """The time of the last change of each file, except locks."""
    paths = [path for path in folder.rglob("*") if path.suffix != ".lock"]
    return {path: path.is_dir() or path.lstat().st_mtime_ns for path in paths}


def check_line(said, words=""):
    """Check that the last line names the fault."""
    last = said.rstrip("\n").split("\n")[-1]
    assert "Traceback" not in said and re.match(r"odeformers( [\w-]+){0,2}: error: ", last), said
    assert [word for word in words.split() if word not in last] == [], last


@pytest.mark.parametrize("line, words", LINES)
def test_a_bad_line_is_refused(line, words, whole, monkeypatch, capsys):
    monkeypatch.chdir(whole)
    before = times(whole)
    with pytest.raises(SystemExit, match="^2$"):
        main(line.split())
    check_line(capsys.readouterr().err, words)
    assert times(whole) == before


@pytest.mark.parametrize(
    "spoil, line, words", [case[1:] for case in SPOILT], ids=[case[0] for case in SPOILT]
)
def test_a_bad_file_is_refused(spoil, line, words, copy, capsys):
    spoil()
    before = times(copy)
    with pytest.raises(SystemExit, match="^2$"):
        main(line.split())
    check_line(capsys.readouterr().err, words)
    assert times(copy) == before


def execute(line, writer, limits):
    write_to(open(writer, "wb", closefd=False))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.alarm(SECONDS)
    for kind, limit in limits.items():
        resource.setrlimit(kind, (limit, limit))
    main(line.split())


def end(line, **limits):
    """The status and output of a command in a fork with limits."""
    limits = {getattr(resource, f"RLIMIT_{name}"): limit for name, limit in limits.items()}
    reader, writer = os.pipe()
    process = FORK.Process(target=execute, args=(line, writer, {**LIMITS, **limits}))
    process.start()
    os.close(writer)
    with open(reader, errors="replace") as output:
        printed = output.read()
    process.join()
    return process.exitcode, printed


@pytest.mark.parametrize(
    "spoil, line, words", [case[1:] for case in ENDLESS], ids=[case[0] for case in ENDLESS]
)
def test_a_file_without_end_is_refused(spoil, line, words, copy):
    """No device is read, and no more memory is used than there is."""
    spoil()
    before = times(copy)
    status, output = end(line)
    check_line(output, words)
    assert status == 2 and times(copy) == before


@pytest.mark.parametrize("line", [*WRITERS, f"{PARALLEL} parallel"])
def test_a_full_disk_is_reported(line, copy):
    before, name = times(copy), re.search("made|own", line)
    status, output = end(line, FSIZE=100)
    check_line(output, f"{name and name[0]} cannot be written")
    assert status == 2 and times(copy) == before


INSERTED = [b"\xff\xfe", b"\0", b"\n", b"\r", b"9" * 400, b'"', b"-1 ", b"1e400", b"\xef\xbb\xbf"]
# By file: its reader, and whether the reader detects any change.
READERS = {
    "classifier.pt": (PREDICT, True),
    "translator.pt": (
        "translate words --path translator.pt --text lines --tokenized --beam 1 --cpu",
        True,
    ),
    "export/config.json": (EXPORTED, True),
    "export/model.safetensors": (EXPORTED, True),
    **{
        f"words/{part}/{name}": (PREDICT, False)
        for part in ("input0", "label")
        for name in ("test.idx", "test.bin", "dict.txt")
    },
    **{
        f"classes/{name}": ("report classes", False)
        for name in ("results.csv", "a-seed1/curve.csv")
    },
    "texts/b-seed1/checkpoint_best.test.csv": ("report texts", False),
    "recipe.yaml": ("compare recipe.yaml --dry-run", False),
    "tables.zip": (f"{TABLES} tables.zip", False),
}


def mutated(content, draw):
    """Bytes that are changed, truncated, removed, repeated or inserted, and never the same."""
    first, last = sorted(draw.sample(range(len(content) + 1), 2))
    flipped = bytearray(content)
    for _ in range(draw.choice([1, 20])):
        flipped[draw.randrange(len(content))] ^= draw.randrange(1, 256)
    left_out = content[:first] + content[last:]
    doubled, put_in = (
        content[:first] + more + content[first:]
        for more in (content[first:last], draw.choice(INSERTED))
    )
    return draw.choice([bytes(flipped), content[:first], left_out, doubled, put_in])


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))]
)
@pytest.mark.parametrize("path", READERS)
def test_a_damaged_file_is_refused_or_read(path, seed, copy):
    """A damaged file is refused or read as it is.

    A reader that knows a checksum must not differ.
    """
    line, checked = READERS[path]
    whole = end(line)
    assert whole[0] == 0, whole[1]
    write(path, mutated(Path(path).read_bytes(), random.Random(f"{path} {seed}")))
    status, output = end(line)
    if status == 0:
        assert not checked or output == whole[1]
    else:
        assert status == 2
        check_line(output)


@pytest.mark.parametrize("name", ["a,b", ".x", "a b", "zh.hans", "ü", "[", "*", "%j", "=", "'"])
def test_names_of_any_kind_are_accepted(name, copy):
    """Only names that fairseq would divide or take for an option are refused."""
    Path(name).mkdir()
    for kept in ("words", "classifier.pt"):
        Path(kept).rename(Path(name, kept))
    main(
        ["predict", f"{name}/words", "--path", f"{name}/classifier.pt", "--cpu", "--output", "made"]
    )
    assert Path("made").read_text()


@pytest.mark.parametrize("size", [1, 9])
def test_a_comparison_validates_on_any_number_of_texts(size, copy):
    """fairseq by default takes multiples of eight."""
    for part in ("valid.de-en.de", "valid.de-en.en"):
        write_rows(f"words/{part}", [[5, 6, EOS]] * size)
    assert end(COMPARE)[0] == 0
