"""Hostile inputs: damaged files, devices, options of no sense, and what tries to run code.

:func:`write_folder` makes whole files of every kind that the package reads. A :class:`Case` spoils
one of them, or an option, and says by which command it is read. :func:`outcome` tells, in a process
of its own, what has come of it.
"""

import gzip
import math
import os
import random
import resource
import shutil
import signal
import struct
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import Pipe
from pathlib import Path

import published
import torch
import warm
import yaml
from fairseq import tasks
from fairseq.data.indexed_dataset import MMapIndexedDataset
from helpers import EOS
from make_checkpoints import PATHS, parsed, training_line, write_data, write_rows, write_splits

from fairseq_odeformers import load_language_model, load_translator
from fairseq_odeformers.checkpoints import Checkpoint
from odeformers.__main__ import main
from odeformers.commands import parse_words
from odeformers.compare.command import make_parser
from odeformers.compare.experiment import read_experiments
from odeformers.compare.report.sections import make_sections
from odeformers.compare.results.comparison import read_comparison
from tests.odeformers.compare.comparisons import write_comparison, write_run

CPU_SECONDS, SECONDS = 60, 300  # after which a reader hangs; the machine may be busy
BYTES = 12 << 30  # of address space
CODE = "__import__('pathlib').Path('trace').touch()"
ARCHS = {
    "classifier.pt": "macaron_classifier",
    "translator.pt": "macaron_transformer",
    "lm.pt": "transject_lm",
}
PARTS = ("input0", "label")  # of a data set
RUNS = {  # predictions of a run, by the folder of a comparison
    "classes": "classes/b-seed1/checkpoint_best.test.csv",
    "texts": "texts/b-seed1/checkpoint_best.test.csv",
}


@dataclass
class Case:
    """
    Attributes:
        name: what is spoilt, and how.
        spoil: does it, in a copy of the folder, which is the current one.
        use: reads it; returns what may be compared.
        words: what the line of a refusal has: the file, or the option and its value.
        must: ``refused`` or ``accepted`` if anything else would be wrong; ``same`` if what is
            accepted must be what the whole folder has; else empty.
    """

    name: str
    spoil: Callable[[], object]
    use: Callable[[], object]
    must: str = ""
    words: str = ""


# --- whole files ------------------------------------------------------------


def write_folder(folder: Path) -> None:
    """Data, checkpoints, an export, runs to report on, texts, archives, a recipe and a table."""
    write_data(folder)
    write_splits(folder, train=12, valid=4, test=8)
    for name, arch in ARCHS.items():
        (folder / name).write_bytes(gzip.decompress(PATHS[arch].read_bytes()))
    Checkpoint.read(str(folder / "classifier.pt")).export(folder / "export")
    (folder / "lines").write_text("1 2 3\n\n4 5\n")
    (folder / "kept").write_text("precious")
    (folder / "precious").mkdir()
    (folder / "precious/kept").write_text("precious")
    for kind, task in (("classes", "sentence_prediction"), ("texts", "translation")):
        write_runs(folder / kind, task)
    parallel, tables, words = {}, {}, random.Random(1)
    for split, size in (("train", 40), ("valid", 4), ("test", 4)):
        rows = [" ".join(words.choices(["ab", "abc", "bc"], k=4)) for _ in range(size)]
        text = "\n".join(rows) + "\n"
        parallel |= {f"{split}.de": text.encode(), f"{split}.en": text.encode()}
        table = (f"{'yn'[n % 2]}\t{row}\n" for n, row in enumerate(rows))
        tables[f"{split}.tsv"] = "".join(table).encode()
    published.write_folder(folder / "parallel", parallel)
    corpus = {f"{split}.txt": parallel[f"{split}.de"] for split in ("train", "valid", "test")}
    published.write_folder(folder / "corpus", corpus)
    published.write_folder(folder / "tables", tables)
    for name in ("tables.tar.gz", "tables.zip"):
        published.write_archive(folder / name, tables)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))


RECIPE = {
    "data": "words",
    "train": {"task": "translation", "source-lang": "de", "target-lang": "en", "lr": 0.1}
    | {"optimizer": "adam", "max-tokens": 100, "max-epoch": 1, "cpu": True},
    "sizes": {"embed-dim": 16, "ffn-embed-dim": 16, "attention-heads": 2, "layers": 1},
    "architectures": {"macaron_transformer": {}},
    "seeds": [1],
    "score": {"test": "odeformers score-wmt14 en-de {output}"},
    "paper": {"macaron_transformer": {"BLEU": 1.5}},
}


def write_runs(folder, task):
    """Two runs of a comparison that have ended."""
    classes = task == "sentence_prediction"
    references = ["y"] * 6 if classes else ["a cat"] * 6
    outputs = (
        {"a": ["y", "n"] * 3, "b": ["y"] * 6} if classes else {"a": ["a a"] * 6, "b": ["a"] * 6}
    )
    metric = {"metric": "accuracy"} if classes else {"metric": "BLEU", "score": 3.0}
    runs = (
        write_run(folder, name, outputs=outputs[name], references=references, task=task, **metric)
        for name in "ab"
    )
    write_comparison(folder, *runs)


# --- readers ----------------------------------------------------------------


@cache
def command(line: str):
    """A reader that runs ``odeformers`` and returns the table that it has written."""

    def use():
        main(line.split())
        return Path("made.tsv").read_text() if Path("made.tsv").exists() else None

    return use


def predict(path="classifier.pt", more=""):
    return command(f"predict words --path {path} --cpu --output made.tsv {more}")


def translate():
    return load_translator("translator.pt", "words").translate("1 2 3", beam=1, max_len_b=5)


def score():
    return load_language_model("lm.pt", "words").score("1 2 3")["score"].item()


@cache
def reporting(kind: str):
    """A reader that makes the tables of a report, and writes none of its figures."""
    return lambda: [section.table for section in make_sections(read_comparison(Path(kind)))]


def set_up(arch, task, options):
    """Read a command line of fairseq-train, and build what it asks for."""

    def use():
        line = training_line(arch)
        line[line.index("--task") + 1] = task
        line[line.index("--criterion") + 1] = "sequence_classification"
        cfg = parsed([*line, *options])
        ready = tasks.setup_task(cfg.task)
        model = ready.build_model(cfg.model)
        ready.build_criterion(cfg.criterion)
        ready.load_dataset("test")
        model.eval()(**ready.dataset("test").collater([ready.dataset("test")[0]])["net_input"])

    return use


def load_lra():
    cfg = parsed([*training_line("macaron_classifier"), "--task", "long_range_arena"])
    task = tasks.setup_task(cfg.task)
    dataset = task.load_dataset("test")
    return [dataset.collater([dataset[index]]) for index in range(len(dataset))] and None


# --- ways to spoil ----------------------------------------------------------

INSERTED = [b"\xff\xfe", b"\0", b"\n", b"\r", b"9" * 400, b'"', b"-1 ", b"1e400", b"\xef\xbb\xbf"]


def mutated(content: bytes, drawn: random.Random) -> bytes:
    """Bytes that are changed, cut off, left out, doubled or put in; never the same."""
    first, last = sorted(drawn.sample(range(len(content) + 1), 2))
    flipped = bytearray(content)
    for _ in range(drawn.choice([1, 20])):
        flipped[drawn.randrange(len(content))] ^= drawn.randrange(1, 256)
    return drawn.choice(
        [
            bytes(flipped),
            content[:first],
            content[:first] + content[last:],
            content[:last] + content[first:],
            content[:first] + drawn.choice(INSERTED) + content[first:],
        ]
    )


def mutate(path: str, seed: int):
    content = Path(path).read_bytes()
    Path(path).write_bytes(mutated(content, random.Random(f"{path} {seed}")))


def write(path: str, content: bytes | str):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content.encode() if isinstance(content, str) else content)


DEVICES = {
    "a FIFO": os.mkfifo,
    "/dev/zero": lambda target: target.symlink_to("/dev/zero"),
    "/dev/null": lambda target: target.symlink_to("/dev/null"),
    "a folder": Path.mkdir,
    "a loop": lambda target: target.symlink_to(target.name),
}


def replace(path: str, device: str):
    """Put a device, or what has no content, in the place of a file or folder."""
    target = Path(path)
    shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
    DEVICES[device](target)


def add(items):
    """Save a checkpoint again, with these items."""
    state = torch.load("classifier.pt", weights_only=True)
    state.update(items)
    torch.save(state, "classifier.pt")


def set_option(name: str, value):
    cfg = torch.load("classifier.pt", weights_only=True)["cfg"]
    add({"cfg": {**cfg, "model": {**cfg["model"], name: value}}})


def mutations(path: str, use, count: int, must=""):
    """Cases of a file whose bytes are spoilt at random, the same each time."""
    for seed in range(count):
        yield Case(f"{path}, mutation {seed}", partial(mutate, path, seed), use, must)


def files(path: str, use, contents, must="refused"):
    for number, content in enumerate(contents):
        yield Case(f"{path}, content {number}", partial(write, path, content), use, must)


def devices(path: str, use, accepted=()):
    """A pipe that nobody writes to, a device without an end, an empty one, a folder, and a loop."""
    for name in DEVICES:
        must = "" if name in accepted else "refused"
        yield Case(f"{path} is {name}", partial(replace, path, name), use, must)


# --- checkpoints ------------------------------------------------------------

WEIGHTS = command("export classifier.pt made")
PROGRAM = command("export classifier.pt made.pt2 --data words")
AVERAGE = command("average --inputs classifier.pt --output made.pt")
STATES = command("analyse states classifier.pt --data words --out made --cpu")


class CreatesFolder:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("trace",)


def code():
    """What would run code of a file."""
    for number, use in enumerate((predict(), WEIGHTS, PROGRAM, AVERAGE, STATES)):
        for key in ("foreign", "model", "cfg"):
            spoil = partial(add, {key: CreatesFolder()})
            yield Case(f"reader {number} of a pickle in {key}", spoil, use, "refused")
    for value in (CODE, "[].append", "{1: (2}", "9**9**9", "'a' * 10 ** 30", "{'a': " * 200):
        line = ["export", "classifier.pt", "made.pt2", "--model-overrides", value]
        yield Case(f"--model-overrides {value[:20]}", int, partial(main, line), "refused")


def checkpoints():
    """Checkpoints and exports that are damaged, or whole and of no sense."""
    two = command("average --inputs classifier.pt translator.pt --output made.pt")
    yield Case("an average of two models", int, two, "refused")
    for path, use, count, must in (
        ("classifier.pt", predict(), 16, "same"),
        ("translator.pt", translate, 8, "same"),
        ("lm.pt", score, 6, "same"),
        ("export/config.json", predict("export"), 12, "same"),
        ("export/model.safetensors", predict("export"), 8, "same"),
        ("translator.pt", two, 6, "refused"),
    ):
        yield from mutations(path, use, count, must)
    for path in ("classifier.pt", "export", "export/config.json", "export/model.safetensors"):
        yield from devices(path, predict(path.split("/")[0]))
    others = [[1], 3, "text", {}, {"model": {}}, {"model": 3, "cfg": 4}, {"cfg": None}]
    for number, state in enumerate([*others, {"model": {"x": torch.zeros(1)}}]):
        spoil = partial(torch.save, state, "classifier.pt")
        for use in (predict(), AVERAGE):
            yield Case(f"another file of torch {number}", spoil, use, "refused")
    for key in ("model", "cfg", "task_state", "optimizer_history", "extra_state"):
        for value in (None, 3, [1], {"a": {"b": 1}}):
            item = {key: value}
            yield Case(f"classifier.pt, {item}", partial(add, item), predict())
    sizes = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "max_positions")
    for name in (*sizes, "classifier_hidden_layers", "encoder_attention_heads", "pooling"):
        for value in (10**6, 10**30, -1, "x", [1], math.nan):
            spoil = partial(set_option, name, value)
            yield Case(f"classifier.pt, {name} {value}", spoil, predict(), "same")

    def zip_bomb():
        with zipfile.ZipFile("classifier.pt", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("archive/data.pkl", bytes(300 << 20))

    yield Case("a zip bomb", zip_bomb, predict(), "refused")
    huge = struct.pack("<Q", 2**62) + b"{}"
    yield from files("export/model.safetensors", predict("export"), [huge], "")


# --- data, reports, recipes, preparations -----------------------------------

TEXT = predict(more="--text lines")
LOADING = (predict(), load_lra)
LINE = "compare words --task translation --archs macaron_transformer --dry-run --epochs 1 --cpu"
COMPARE = command(LINE)
OWN = "--workers 1 --out data/own --from"
PARALLEL = f"prepare parallel -s de -t en --bpe-operations 20 {OWN}"
TABLES = f"prepare text-classification tsv --vocab-size 60 {OWN}"


def load_recipe():
    args, others = make_parser().parse_known_args(["recipe.yaml", "--dry-run"])
    read_experiments(args, parse_words(others))


HEADER = b"MMIDIDX\0\0" + struct.pack("<QB", 1, 8)
INDICES = [b"", b"MMIDIDX", HEADER, HEADER + struct.pack("<Q", 2**60)]
INDICES += [HEADER + struct.pack("<Qiq", 1, size, place) for size, place in ((-3, 0), (9, 2**50))]
CODES = [b"#version: 0.2\na\n", b"\xff", b"#version: 9\n", b"a b c\n"]
DICTIONARIES = [b"", b"a b c", b"\xff 1", b"a 1\na 1\n", b"a 9" + b"9" * 5000, b"<pad> 1\n"]
TEXTS = [b"\xff\n", b"1\t2\n", b"\0\n", b"", b"\n\n", b"\r\n1\r\n", b"\xef\xbb\xbf1 2\n", b"1 \xc2"]
TEXTS += ["\u202e1 2\n", "1 2\n".encode("utf-16"), b"1 " * 10**6, b"1" * 2**20]
RESULTS = ["", "1", "schema\n1\n", "\0", "[" * 9999, "a,b\n" * 3, ",".join(map(str, range(50)))]
CURVES = ["", "updates\n1\n", "updates,seconds,loss,metric,train_loss,best\n1,1,x,1,1,True\n"]
LAUGHS = "".join(f"a{n}: &a{n} [{f'*a{n - 1},' * 9}]\n" for n in range(1, 40))
RECIPES = ["", f"a0: &a0 [1]\n{LAUGHS}", "[" * 5000, "? [a]\n: 1"]
for bad in ({"base": "recipe.yaml"}, {"base": "absent"}, {"parts": {"x": 3}}, {"parts": [1]}):
    RECIPES.append(yaml.safe_dump({**RECIPE, **bad}))
TABLE = [b"", b"y", b"y\n", b"\xff\ta\n", b"\ty\n", b"y\ta\nz", b"a b\tx\n", b"\0\tx\n"]
PAIRS = ["", "a\n", "1\t" * 3]
SENTENCES = [b"", b"\xff\n", b"one line\n", b"\n" * 40, b"ab" * 2**19 + b"\n"]

# A file and its reader; how many mutations there are, whether devices take its place, and contents
# that are refused.
ARTEFACTS = [
    *((f"words/{part}/test.idx", predict(), 5, False, INDICES) for part in PARTS),
    *((f"words/{part}/test.idx", load_lra, 5, True, []) for part in PARTS),
    *((f"words/{part}/test.bin", use, 4, False, []) for part in PARTS for use in LOADING),
    *((f"words/{part}/dict.txt", predict(), 6, True, []) for part in PARTS),
    *((f"words/dict.{lang}.txt", translate, 5, False, []) for lang in ("de", "en")),
    ("words/train.de-en.en.idx", COMPARE, 3, False, INDICES[:3]),
    ("words/vocab.txt", TEXT, 0, False, [b"", b"a\na\n", b"\xff", b"a b\n", b"x\n"]),
    ("words/code", TEXT, 0, True, CODES),
    *((f"{kind}/results.csv", reporting(kind), 8, True, RESULTS) for kind in RUNS),
    *((f"{kind}/b-seed1/curve.csv", reporting(kind), 6, True, CURVES) for kind in RUNS),
    *((table, reporting(kind), 8, True, []) for kind, table in RUNS.items()),
    ("recipe.yaml", load_recipe, 12, True, RECIPES),
    ("tables.tar.gz", command(f"{TABLES} tables.tar.gz"), 6, True, []),
    ("tables.zip", command(f"{TABLES} tables.zip"), 6, True, []),
    ("tables/train.tsv", command(f"{TABLES} tables"), 0, True, TABLE),
    ("parallel/train.de", command(f"{PARALLEL} parallel"), 0, True, SENTENCES),
    ("parallel/train.tsv", command(f"{PARALLEL} parallel/train.tsv"), 0, False, PAIRS),
]


def texts():
    """Data sets, texts, reports, tables, recipes and archives."""
    for path, use, count, replaced, contents in ARTEFACTS:
        yield from mutations(path, use, count)
        yield from devices(path, use) if replaced else ()
        yield from files(path, use, contents)
    yield from files("words/dict.de.txt", translate, DICTIONARIES, "")
    yield from files("lines", TEXT, TEXTS, "")

    def long_word():
        pairs = "".join(f"{a} {b}\n" for a in "abcdefghij" for b in "abcdefghij")
        write("words/code", f"#version: 0.2\n{pairs}")
        write("lines", "".join(random.Random(1).choices("abcdefghij", k=2**20)) + "\n")

    yield Case("a word of a megabyte in subwords", long_word, TEXT)
    for device, must in (("/dev/zero", "refused"), ("/dev/null", "")):
        yield Case(f"--text {device}", int, predict(more=f"--text {device}"), must)


MODELS = {"translation": "macaron_transformer", "language_modeling": "macaron_transformer_lm"}
MODELS["sentence_prediction"] = "macaron_classifier --shorten-method none"


# --- silently wrong -----------------------------------------------------------


def prepared(line: str):
    """A preparation, and the files that it makes for fairseq."""

    def prepare():
        main(line.split())
        made = sorted(Path("data/own/data-bin").iterdir())
        data = (path for path in made if path.suffix in (".bin", ".idx", ".txt"))
        return {path.name: path.read_bytes() for path in data}

    return prepare


CORPUS = prepared(f"prepare lm {OWN} corpus")
PAIRED = prepared(f"{PARALLEL} parallel")
READ = [("corpus/{}.txt", CORPUS), ("parallel/{}.de", PAIRED), ("parallel/{}.en", PAIRED)]


def edit(path: str, change: Callable[[str], str]):
    text = Path(path).read_text(encoding="utf-8")
    Path(path).write_text(change(text), encoding="utf-8", newline="")


def join_files(text: str) -> str:
    """Lines of files that begin with a byte order mark, joined by ``cat``."""
    lines = text.splitlines(keepends=True)
    return "".join(f"\ufeff{line}" if n % 3 == 0 else line for n, line in enumerate(lines))


def label_by_two(split: str):
    write_rows(f"words/label/{split}", [[4, 5 + n % 2, EOS] for n in range(8)])


def validate_on(size: int):
    for part in ("valid.de-en.de", "valid.de-en.en", "valid", "input0/valid"):
        write_rows(f"words/{part}", [[5, 6, EOS]] * size)
    write_rows("words/label/valid", [[4 + n % 3, EOS] for n in range(size)])


def silent():
    """What was trained on, or scored, without a word: marks, symbols and labels that look right."""
    for split in ("train", "valid", "test"):
        for pattern, use in READ:
            path = pattern.format(split)
            yield Case(f"{path}, marks", partial(edit, path, join_files), use, "same")
            yield Case(f"{path}, CRLF", partial(edit, path, to_crlf), use, "same")
        path = f"corpus/{split}.txt"
        for symbol in ("<pad>", "<s>", "</s>"):
            spoil = partial(edit, path, lambda text, symbol=symbol: f"{symbol} {text}")
            yield Case(f"{path}, {symbol}", spoil, CORPUS, "refused", f"{split}.txt {symbol}")
        spoil = partial(edit, path, lambda text: text.replace(" ", "\r", 1))
        yield Case(f"{path}, a lone carriage return", spoil, CORPUS, "refused", f"{split}.txt")
    for task, arch in MODELS.items():
        line = f"compare words --task {task} --archs {arch} --dry-run --epochs 1 --cpu"
        for size in (1, 5, 9):
            case = f"{task}, {size} examples to validate with"  # fairseq would take eights
            yield Case(case, partial(validate_on, size), command(line), "accepted")
    lines = partial(edit, "lines", join_files)
    yield Case("typed text, marks", lines, TEXT, "same")
    spoil = partial(label_by_two, "test")
    for use in LOADING:
        yield Case("labels of two words", spoil, use, "refused", "words/label")
    for task in ("sentence_prediction", "long_range_arena"):
        line = f"compare words --task {task} --archs macaron_classifier --dry-run --epochs 1 --cpu"
        for split in ("train", "valid", "test"):
            spoil, case = partial(label_by_two, split), f"{task}, labels of two words in {split}"
            yield Case(case, spoil, command(line), "refused", f"words/label/{split}")


def to_crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


# --- options, results -------------------------------------------------------

OPTIONS = {
    "init-token": "-7 1000000000 x nan",
    "num-classes": "-2 0 1000000000 1e30",
    "num-batch-buckets": "-1 1000000000 1e30",
    "classification-head-name": "a.b .",
    "max-positions": "-1 0 1e30",
    "arclength-weight": "inf nan -1",
    "reconstruction-weight": "inf nan -1",
    "label-smoothing": "2 nan inf -1",
    "dropout": "1 nan inf -1",
    "encoder-layerdrop": "1.5 nan inf",
    "encoder-embed-dim": f"0 -1 {10**9} {10**30} 1e30",
    "encoder-layers": f"0 -1 {10**9} {10**30}",
    "encoder-attention-heads": f"0 -1 3 {10**30}",
    "classifier-hidden-layers": f"-1 {10**9}",
    "pooling": "sum",
}
IN_RECIPE = {
    "lr": [1e30, "nan"],
    "max-tokens": [-1, 0],
    "max-epoch": [10**30],
    "dropout": [2],
    "task": ["absent"],
    "arch": ["x"],
    "no-such-option": [1],
    "label-smoothing": [2],
    "clip-norm": ["x"],
    "source-lang": ["xx"],
}


def options():
    """Options of fairseq-train, of recipes and of commands."""
    for name, values in OPTIONS.items():
        for value in values.split():
            use = set_up("macaron_classifier", "long_range_arena", [f"--{name}", value])
            yield Case(f"--{name} {value}", int, use, "refused", f"--{name} {value}")
    for name, values in IN_RECIPE.items():
        recipes = [{**RECIPE, "train": {**RECIPE["train"], name: value}} for value in values]
        use = command("compare recipe.yaml --dry-run")
        yield from files("recipe.yaml", use, map(yaml.safe_dump, recipes), "")
    for key in RECIPE:
        for value in (3, "x", [3], {"a": [{}]}):
            must = "" if (key, value) in (("data", "x"), ("seeds", [3])) else "refused"
            content = yaml.safe_dump({**RECIPE, key: value})
            yield from files("recipe.yaml", load_recipe, [content], must)
    for source in ("/dev/zero", "/dev/null", "absent", "kept"):
        yield Case(f"--from {source}", int, command(f"{PARALLEL} {source}"), "refused")
    for value in ("1000000000", "1e30", "0", "-1", "nan", "x", str(10**30)):
        line = f"prepare listops --out data/own --train 2 --workers {value}"
        yield Case(f"--workers {value}", int, command(line), "refused", f"--workers {value}")
        must = "" if value == "1000000000" else "refused"
        use = predict(more=f"--batch-size {value}")
        yield Case(f"--batch-size {value}", int, use, must, f"--batch-size {value}")


LONG = 1100  # tokens, more than the models take
NAMES = ("a:b", "a,b", "-", ".", "a b", "pt-br", "zh.hans", "a/b", "ü", "[", "*", "%j", "=", "'")


def lengthen(split: str):
    """Make the third example of a split a long one, of one class or another."""
    for part in (f"{split}.de-en.de", f"{split}.de-en.en", split, f"input0/{split}"):
        dataset = MMapIndexedDataset(f"words/{part}")
        rows = [row.tolist() for row in dataset]
        rows[2] = [*[5] * (LONG - 1), EOS]
        write_rows(f"words/{part}", rows)


def link(path: str, target: str):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    os.symlink(os.path.abspath(target), path)


def names():
    """Examples that are too long for a model; names that are divided, or taken already."""
    for task, arch in MODELS.items():
        line = f"compare words --task {task} --epochs 1 --cpu --dry-run --out made"
        use = command(f"{line} --match none --archs {arch} --sample-break-mode eos")
        use = use if task == "language_modeling" else command(f"{line} --match none --archs {arch}")
        for split in ("valid", "test"):
            case = f"{task}, a long example in {split}"
            yield Case(case, partial(lengthen, split), use, "refused", f"words, {split}: 3 {LONG}")
    for name in NAMES:
        must = "refused" if ":" in name else ""
        data, path = f"{name}/words", f"{name}/classifier.pt"
        lines = {
            f"--data {data}": ["predict", data, "--path", "classifier.pt", "--cpu"],
            f"--path {path}": ["predict", "words", "--path", path, "--cpu"],
            f"compare {data}": ["compare", data, *LINE.split()[2:]],
        }
        for case, line in lines.items():
            target = "classifier.pt" if line[3] == path else "words"
            spoil = partial(link, path if line[3] == path else data, target)
            yield Case(case, spoil, partial(main, line), must, name if must else "")
        must = "refused" if {*name} & {*":-"} and name != "pt-br" else ""
        line = ["compare", "words", *LINE.split()[2:], "--out", name]
        yield Case(f"compare --out {name}", int, partial(main, line), must, name if must else "")
        must = "refused" if {*name} & {*":,-"} and name != "pt-br" else ""
        line = [*PARALLEL.replace("data/own", "OUT").split(), "parallel"]
        line = [name if word == "OUT" else word for word in line]
        yield Case(f"prepare --out {name}", int, partial(main, line), must, f"--out {name}")
        line = ["en", *PARALLEL.split()[4:], "parallel"]
        line = ["prepare", "parallel", "-s", name, "-t", *line]
        must = "refused" if {*name} & {*":,/ "} or name == "-" else ""
        spoil = partial(rename_language, name) if not must else int
        yield Case(f"prepare -s {name}", spoil, partial(main, line), must, name if must else "")
    for folder in ("clone/fairseq_odeformers", "clone/json"):
        words = f"--user-dir {folder}"
        for line in ("list", "predict words --path classifier.pt", LINE):
            spoil = partial(write, f"{folder}/__init__.py", "")
            yield Case(f"{line} {words}", spoil, command(f"{line} {words}"), "refused", words)
    yield Case("no Slurm", int, command(f"{LINE} --cluster slurm".replace("--dry-run ", "")))


def rename_language(name: str):
    for split in ("train", "valid", "test"):
        Path(f"parallel/{split}.de").rename(f"parallel/{split}.{name}")


def full():
    """A full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def results():
    """Results that would take the place of something else, or have none."""
    for name, use in (
        ("made.tsv", predict()),
        ("made.pt", AVERAGE),
        ("made", WEIGHTS),
        ("made.pt2", PROGRAM),
    ):
        for target in ("precious", "/dev/full", "/dev/null", "kept/below"):
            must = "" if target in ("/dev/null", "precious") else "refused"
            spoil = partial(os.symlink, target, name)
            yield Case(f"{name} leads to {target}", spoil, use, must)
        yield Case(f"{name} on a full disk", full, use, "refused")


KINDS = {
    kind.__name__: list(kind())
    for kind in (code, checkpoints, texts, silent, options, names, results)
}


# --- outcomes ---------------------------------------------------------------


def outcome(case: Case, folder: Path, whole: object = None) -> tuple[str, object]:
    """What comes of a case, and the line of the error, or the result.

    Args:
        folder: that :func:`write_folder` has filled; it is copied.
        whole: the result of the reader in the whole folder.

    Returns:
        ``refused`` by a line, ``accepted``; or ``traceback``, ``hang``, ``wrong``, ``unnamed``,
        ``code`` or ``destroyed``.
    """
    receiver, sender = Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as parent, tempfile.TemporaryFile() as output:
        work = Path(parent, "work")
        kept = work / "kept", work / "precious/kept"
        shutil.copytree(folder, work, symlinks=True)
        child = warm.FORK.Process(target=attempt, args=(case, work, output, sender))
        child.start()
        sender.close()
        try:
            found, said = receiver.recv()
        except EOFError:
            child.join()
            ended = child.exitcode in (-signal.SIGALRM, -signal.SIGXCPU, -signal.SIGKILL)
            found, said = ("hang" if ended else "traceback"), f"exit status {child.exitcode}"
        child.join()
        if (work / "trace").exists():
            found = "code"
        elif not all(path.exists() and path.read_text() == "precious" for path in kept):
            found = "destroyed"
        output.seek(0)
        printed = output.read().decode(errors="replace").strip().split("\n")[-1]
    if found in ("accepted", "refused") and case.must not in ("", "same", found):
        found = "wrong"
    elif found == "accepted" and case.must == "same" and said != whole:
        found = "wrong"
    said = said if said else printed
    if found == "refused" and not all(word in str(said) for word in case.words.split()):
        found = "unnamed"
    return found, said


def attempt(case: Case, work: Path, output, sender) -> None:
    """Spoil and read, in a fork, and send the outcome."""
    warm.write_to(output)
    os.chdir(work)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    signal.alarm(SECONDS)
    try:
        case.spoil()
        answer = ("accepted", case.use())
    except (ValueError, OSError) as error:
        answer = ("refused", str(error))
    except SystemExit as stop:
        answer = ("accepted" if stop.code in (0, None) else "refused", None)
    except BaseException as error:  # what a user would see as a traceback
        answer = ("traceback", f"{type(error).__name__}: {error}")
    sender.send(answer)
