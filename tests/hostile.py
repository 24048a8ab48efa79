"""Hostile inputs: damaged files, devices, options of no sense, and what tries to run code.

:func:`write_folder` makes whole files of every kind that the package reads. A :class:`Case` spoils
one of them, or an option, and says by which command it is read. :func:`outcome` tells, in a process
of its own, what has come of it.
"""

import copy
import gzip
import json
import os
import random
import resource
import shutil
import signal
import struct
import tarfile
import tempfile
import zipfile
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import Pipe
from pathlib import Path

import torch
import warm
import yaml
from fairseq import tasks
from make_checkpoints import PATHS, parsed, training_line, write_data, write_splits

from fairseq_odeformers import load_language_model, load_translator
from fairseq_odeformers.cli import main
from fairseq_odeformers.compare.plan import Entry, Plan, save_plan
from fairseq_odeformers.compare.recipe import Recipe, read_recipe
from fairseq_odeformers.compare.report import sections
from fairseq_odeformers.compare.results import read_results
from fairseq_odeformers.inference.loading import read_checkpoint
from fairseq_odeformers.inference.weights import OWN_SUM, checksum, write_export

CPU_SECONDS, SECONDS = 60, 300  # after which a reader hangs; the machine may be busy
BYTES = 12 << 30  # of address space
CODE = "__import__('pathlib').Path('trace').touch()"
ARCHS = {
    "classifier.pt": "macaron_classifier",
    "translator.pt": "macaron_transformer",
    "lm.pt": "transject_lm",
}
WRITTEN = ("made", "data")  # what names of results begin with


@dataclass
class Case:
    """
    Attributes:
        name: what is spoilt, and how.
        spoil: does it, in a copy of the folder, which is the current one.
        use: reads it; returns what may be compared.
        must: ``refused`` if to accept it would be wrong; ``same`` if what is accepted must be what
            the whole folder has; else empty.
    """

    name: str
    spoil: Callable[[], object]
    use: Callable[[], object]
    must: str = ""


# --- whole files ------------------------------------------------------------


def write_folder(folder: Path) -> None:
    """Data, checkpoints, an export, runs to report on, texts, archives, a recipe and a table."""
    write_data(folder)
    write_splits(folder, train=12, valid=4, test=8)
    for name, arch in ARCHS.items():
        (folder / name).write_bytes(gzip.decompress(PATHS[arch].read_bytes()))
    write_export(read_checkpoint(str(folder / "classifier.pt")), folder / "export")
    (folder / "lines").write_text("1 2 3\n\n4 5\n")
    (folder / "kept").write_text("precious")
    (folder / "precious").mkdir()
    (folder / "precious/kept").write_text("precious")
    for kind, task in (("classes", "sentence_prediction"), ("texts", "translation")):
        write_runs(folder / kind, task)
    (folder / "parallel").mkdir()
    (folder / "tables").mkdir()
    words = random.Random(1)
    for split, size in (("train", 40), ("valid", 4), ("test", 4)):
        rows = [" ".join(words.choices(["ab", "abc", "bc"], k=4)) for _ in range(size)]
        for lang in ("de", "en"):
            (folder / f"parallel/{split}.{lang}").write_text("\n".join(rows) + "\n")
        table = "".join(f"{'yn'[n % 2]}\t{row}\n" for n, row in enumerate(rows))
        (folder / f"tables/{split}.tsv").write_text(table)
    with tarfile.open(folder / "tables.tar.gz", "w:gz") as archive:
        archive.add(folder / "tables", "tables")
    with zipfile.ZipFile(folder / "tables.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (folder / "tables").iterdir():
            archive.write(path, path.name)
    row = {"what": "train", "unit": "ms", "length": 8, "layers": 1, "model": "a", "value": 2.0}
    rows = [{**row, "length": length, "ratio": 1.0} for length in (8, 16)]
    (folder / "table.json").write_text(json.dumps({"rows": rows}))
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
    recipe = Recipe("absent", {"task": task, "target-lang": "en"}, {"a": {}, "b": {}})
    recipe.splits = ["test"]
    entries = tuple(Entry(name, {"arch": "transformer"}, 5) for name in "ab")
    save_plan(Plan(recipe, entries, ""), folder)
    for name in "ab":
        run = folder / f"{name}-seed1"
        run.mkdir()
        log = "x | INFO | train | num. shared model params: 1,234 (num.\n"
        for kind in ("valid", "train"):
            stats = {"valid_loss": 2, "valid_num_updates": 9, "train_train_wall": 1}
            stats |= {"train_num_updates": 9, "train_loss": 2}
            log += f"x | INFO | {kind} | {json.dumps({k: str(v) for k, v in stats.items()})}\n"
        (run / "train.log").write_text(log)
        rows = "".join(f"{n}\ty\t{'yn'[n % 2]}\t0.5\t0.5\n" for n in range(6))
        (run / "checkpoint_best.test.tsv").write_text(f"id\ttarget\tprediction\tp(y)\tp(n)\n{rows}")
        rows = "".join(f"S-{n}\tein\nT-{n}\ta cat\nH-{n}\t-0.1\ta {name}\n" for n in range(6))
        (run / "checkpoint_best.test.out").write_text(rows)


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


def reporting(kind: str):
    """A reader that makes the tables of a report, and writes none of its figures."""
    return lambda: [section.table for section in sections(read_results(Path(kind)))]


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


# --- spoilt bytes -----------------------------------------------------------

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


def mutations(path: str, use, count: int, must=""):
    """Cases of a file whose bytes are spoilt at random, the same each time."""
    for seed in range(count):

        def spoil(seed=seed):
            content = Path(path).read_bytes()
            Path(path).write_bytes(mutated(content, random.Random(f"{path} {seed}")))

        yield Case(f"{path}, mutation {seed}", spoil, use, must)


def writing(path: str, content: bytes | str):
    """Spoils a file by giving it another content."""
    data = content.encode() if isinstance(content, str) else content

    def spoil():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(data)

    return spoil


def files(path: str, use, contents, must="refused"):
    for number, content in enumerate(contents):
        yield Case(f"{path}, content {number}", writing(path, content), use, must)


def devices(path: str, use):
    """A pipe that nobody writes to, a device without an end, an empty one, a folder, and a loop."""

    def replaced(make):
        def spoil():
            target = Path(path)
            shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
            make(target)

        return spoil

    makers = {
        "a FIFO": os.mkfifo,
        "/dev/zero": lambda target: target.symlink_to("/dev/zero"),
        "/dev/null": lambda target: target.symlink_to("/dev/null"),
        "a folder": Path.mkdir,
        "a loop": lambda target: target.symlink_to(target.name),
    }
    for name, make in makers.items():
        yield Case(f"{path} is {name}", replaced(make), use, "refused")


# --- checkpoints ------------------------------------------------------------


def edited(path: str, edit):
    """Spoils a checkpoint by a change of its content."""

    def spoil():
        state = torch.load(path, weights_only=True)
        changed = edit(state)
        torch.save(state if changed is None else changed, path)

    return spoil


def edit_export(edit):
    """Spoils the configuration of an export, with a check sum that fits."""
    path = Path("export/config.json")
    saved = json.loads(path.read_text())
    saved.pop(OWN_SUM)
    edit(saved)
    saved[OWN_SUM] = checksum(saved)
    path.write_text(json.dumps(saved))


class CreatesFolder:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("trace",)


FOREIGN = (
    "fconv fconv_self_att fconv_lm lightconv multilingual_transformer hf_gpt2 wav2vec2 hubert "
    "data2vec_text s2t_transformer convtransformer nacrf_transformer lstm masked_lm".split()
)
FOREIGN_TASKS = (
    "audio_pretraining speech_to_text legacy_masked_lm multilingual_translation cross_lingual_lm "
    "denoising translation_lev hubert_pretraining semisupervised_translation absent".split()
)


def code():
    """What would run code of a file."""
    for arch in FOREIGN:
        model = {"_name": arch, "encoder_layers": CODE, "decoder_layers": CODE}
        edit = edited("translator.pt", lambda state, m=model: state["cfg"].update(model=m))
        yield Case(f"a checkpoint of {arch}", edit, translate, "refused")
    for task in FOREIGN_TASKS:
        edit = edited("translator.pt", lambda s, t=task: s["cfg"]["task"].update(_name=t, task=t))
        yield Case(f"a checkpoint of the task {task}", edit, translate, "refused")
    args = Namespace(arch="fconv", encoder_layers=CODE, task="translation", data="words")
    edit = edited("translator.pt", lambda state: {**state, "args": args, "cfg": None})
    yield Case("a checkpoint with args of fconv", edit, translate, "refused")
    for name in ("encoder_xformers_att_config", "encoder_layers", "adaptive_softmax_cutoff"):
        edit = edited("translator.pt", lambda s, n=name: s["cfg"]["model"].update({n: CODE}))
        yield Case(f"a checkpoint with code in {name}", edit, translate)
    uses = {"predict": predict(), "weights": command("export classifier.pt made")}
    uses["program"] = command("export classifier.pt made.pt2 --data words")
    uses["average"] = command("average --inputs classifier.pt --output made.pt")
    uses["attention"] = command("analyse states classifier.pt --data words --out made --cpu")
    for name, use in uses.items():
        for key in ("foreign", "model", "cfg"):

            def spoil(key=key):
                state = torch.load("classifier.pt", weights_only=True)
                torch.save({**state, key: CreatesFolder()}, "classifier.pt")

            yield Case(f"{name} of a pickle in {key}", spoil, use, "refused")
    for arch in FOREIGN[:4]:
        model = {"_name": arch, "encoder_layers": CODE}

        def spoil(model=model):
            edit_export(lambda saved: saved["config"].update(model=model))

        yield Case(f"an export of {arch}", spoil, predict("export"), "refused")
    for value in (CODE, "[].append", "{1: (2}", "9**9**9", "'a' * 10 ** 30", "{'a': " * 200):
        line = ["export", "classifier.pt", "made.pt2", "--model-overrides", value]
        yield Case(f"--model-overrides {value[:20]}", int, lambda v=line: main(v), "refused")


def checkpoints():
    """Checkpoints and exports that are damaged, or whole and of no sense."""
    yield from mutations("classifier.pt", predict(), 16, "same")
    yield from mutations("translator.pt", translate, 8, "same")
    yield from mutations("lm.pt", score, 6, "same")
    yield from mutations("export/config.json", predict("export"), 12, "same")
    yield from mutations("export/model.safetensors", predict("export"), 8, "same")
    averaging = command("average --inputs classifier.pt translator.pt --output made.pt")
    yield from mutations("translator.pt", averaging, 6, "refused")
    yield Case("an average of two models", int, averaging, "refused")
    for path in ("classifier.pt", "export", "export/config.json", "export/model.safetensors"):
        yield from devices(path, predict(path.split("/")[0]))
    bomb = {"model": {"x": torch.zeros(1)}}
    torch_of = [[1], 3, "text", {}, {"model": {}}, {"model": 3, "cfg": 4}, {"cfg": None}, bomb]
    for number, state in enumerate(torch_of):
        spoil = edited("classifier.pt", lambda _, state=state: copy.deepcopy(state))
        yield Case(f"classifier.pt, another file of torch {number}", spoil, predict(), "refused")
        average = command("average --inputs classifier.pt --output made.pt")
        yield Case(f"average, another file of torch {number}", spoil, average, "refused")
    for key in ("model", "cfg", "task_state", "optimizer_history", "extra_state"):
        for value in (None, 3, [1], {"a": {"b": 1}}):
            spoil = edited("classifier.pt", lambda state, k=key, v=value: {**state, k: v})
            yield Case(f"classifier.pt, {key} {value}", spoil, predict())
    sizes = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "max_positions")
    for name in (*sizes, "classifier_hidden_layers", "encoder_attention_heads", "pooling"):
        for value in (10**6, 10**30, -1, "x", [1], float("nan")):
            spoil = edited(
                "classifier.pt", lambda s, n=name, v=value: s["cfg"]["model"].update({n: v})
            )
            yield Case(f"classifier.pt, {name} {value}", spoil, predict(), "same")
    for value in (float("nan"), float("inf")):

        def spoil(state, value=value):
            next(iter(state["model"].values())).view(-1)[0] = value

        for name, use in (
            ("classifier", predict()),
            ("classifier", command("export classifier.pt made")),
            ("classifier", command("export classifier.pt made.pt2 --data words")),
            ("classifier", command("average --inputs classifier.pt --output made.pt")),
            ("classifier", command("analyse states classifier.pt --data words --out made --cpu")),
            ("translator", translate),
            ("lm", score),
        ):
            yield Case(f"{name}.pt has {value}", edited(f"{name}.pt", spoil), use, "refused")

    def zip_bomb():
        with zipfile.ZipFile("classifier.pt", "w", zipfile.ZIP_DEFLATED) as archive:
            with archive.open("archive/data.pkl", "w", force_zip64=True) as file:
                for _ in range(300):
                    file.write(bytes(1 << 20))

    yield Case("a zip bomb", zip_bomb, predict(), "refused")
    huge = struct.pack("<Q", 2**62) + b"{}"
    yield Case(
        "a header of 2^62 bytes", writing("export/model.safetensors", huge), predict("export")
    )


def data():
    """Data sets for fairseq, and texts to classify."""
    header = b"MMIDIDX\0\0" + struct.pack("<QB", 1, 8)
    indices = [b"", b"MMIDIDX", header, header + struct.pack("<Q", 2**60)]
    indices += [header + struct.pack("<Qiq", 1, -3, 0), header + struct.pack("<Qiq", 1, 9, 2**50)]
    for part in ("input0", "label"):
        for use in (predict(), load_lra):
            yield from mutations(f"words/{part}/test.idx", use, 5)
            yield from mutations(f"words/{part}/test.bin", use, 4)
        yield from mutations(f"words/{part}/dict.txt", predict(), 6)
        yield from devices(f"words/{part}/dict.txt", predict())
        yield from devices(f"words/{part}/test.idx", load_lra)
        yield from files(f"words/{part}/test.idx", predict(), indices)
    for name in ("dict.de.txt", "dict.en.txt"):
        yield from mutations(f"words/{name}", translate, 5)
    for content in (b"", b"a b c", b"\xff 1", b"a 1\na 1\n", b"a 9" + b"9" * 5000, b"<pad> 1\n"):
        yield Case(
            f"a dictionary of {content[:9]!r}", writing("words/dict.de.txt", content), translate
        )
    line = "compare words --task translation --archs macaron_transformer --dry-run --epochs 1 --cpu"
    compare = command(line)
    yield from mutations("words/train.de-en.en.idx", compare, 3)
    yield from files("words/train.de-en.en.idx", compare, indices[:3])
    text = predict(more="--text lines")
    texts = [
        b"\xff\n",
        b"1\t2\n",
        b"\0\n",
        b"",
        b"\n\n",
        b"\r\n1\r\n",
        b"\xef\xbb\xbf1 2\n",
        b"1 \xc2",
    ]
    texts += ["\u202e1 2\n", "1 2\n".encode("utf-16"), b"1 " * 10**6, b"1" * 2**20]
    yield from files("lines", text, texts, "")
    yield from files("words/vocab.txt", text, [b"", b"a\na\n", b"\xff", b"a b\n", b"x\n"])
    yield from files(
        "words/code", text, [b"#version: 0.2\na\n", b"\xff", b"#version: 9\n", b"a b c\n"]
    )
    yield from devices("words/code", text)
    letters = "".join(random.Random(1).choices("abcdefghij", k=2**20))
    codes = "#version: 0.2\n" + "".join(f"{a} {b}\n" for a in "abcdefghij" for b in "abcdefghij")

    def long_word():
        writing("words/code", codes)()
        writing("lines", letters + "\n")()

    yield Case("a word of a megabyte in byte pairs", long_word, text)
    zero = predict(more="--text /dev/zero")
    yield Case("--text /dev/zero", int, zero, "refused")
    yield Case("--text /dev/null", int, predict(more="--text /dev/null"))


# --- reports, tables, recipes -----------------------------------------------


def reports():
    for kind, name in (("classes", "tsv"), ("texts", "out")):
        use = reporting(kind)
        yield from mutations(f"{kind}/plan.yaml", use, 6)
        yield from mutations(f"{kind}/b-seed1/train.log", use, 4)
        yield from mutations(f"{kind}/b-seed1/checkpoint_best.test.{name}", use, 8)
        for path in ("plan.yaml", "b-seed1/train.log", f"b-seed1/checkpoint_best.test.{name}"):
            for case in devices(f"{kind}/{path}", use):
                case.must = "" if "null" in case.name and "train" in case.name else case.must
                yield case
    head, rows = "id\ttarget\tprediction\tp(y)\tp(n)\n", "0\ty\ty\t0.5\t0.5\n" * 5
    bad = ["5\t\ty\t0.5\t0.5", "5\ty", "5\ty\ty\t0.5\t0.5\t1", "5\ty\tz\t0.5\t0.5", "5\ty\ty\tx\t0"]
    tables = ["", head, *(f"{head}{rows}{row}\n" for row in bad), rows]
    table = "classes/b-seed1/checkpoint_best.test.tsv"
    yield from files(table, reporting("classes"), tables)
    plan = {"recipe": asdict(Recipe("absent", {"a": 1}, {"a": {}})), "entries": [], "user_dir": ""}
    plans = ["", "1", "[]", "{}", "entries: []", "a: &a [*a]", "\0", "!!python/name:os.system x"]
    for key, value in (("entries", 3), ("entries", [3]), ("recipe", []), ("recipe", {"seeds": 3})):
        plans.append(yaml.safe_dump({**plan, key: value}))
    yield from files("classes/plan.yaml", reporting("classes"), plans)
    growth = command("benchmark growth made.png table.json")
    yield from mutations("table.json", growth, 6)
    yield from devices("table.json", growth)
    row = {
        "what": "a",
        "unit": "ms",
        "length": 8,
        "layers": 1,
        "model": "a",
        "value": 2,
        "ratio": 1,
    }
    rows = [
        3,
        [],
        [3],
        [{}],
        [{**row, "ratio": "x"}],
        [{**row, "length": [1]}],
        [{**row, "value": None}],
    ]
    wrong = [json.dumps({"rows": row}) for row in rows]
    yield from files("table.json", growth, ["", "[" * 10**5, "null", "{}", *wrong])


def recipes():
    def use():
        read_recipe(Path("recipe.yaml"))

    yield from mutations("recipe.yaml", use, 12)
    yield from devices("recipe.yaml", use)
    for key in RECIPE:
        for value in (3, "x", [3], {"a": [{}]}):
            spoil = writing("recipe.yaml", yaml.safe_dump({**RECIPE, key: value}))
            must = "" if (key, value) in (("data", "x"), ("seeds", [3])) else "refused"
            yield Case(f"recipe.yaml, {key}: {value}", spoil, use, must)
    layers = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1},' * 9}]\n" for n in range(1, 40))
    others = [{"base": "recipe.yaml"}, {"base": "absent"}, {"parts": {"x": 3}}, {"parts": [1]}]
    texts = [yaml.safe_dump({**RECIPE, **other}) for other in others]
    yield from files("recipe.yaml", use, [layers, "[" * 5000, "? [a]\n: 1", *texts, ""])
    for name, value in (
        *(("lr", 1e30), ("lr", "nan"), ("max-tokens", -1), ("max-epoch", 10**30)),
        *(("dropout", 2), ("task", "absent"), ("arch", "x"), ("no-such-option", 1)),
        *(("label-smoothing", 2), ("clip-norm", "x"), ("source-lang", "xx"), ("max-tokens", 0)),
    ):
        content = yaml.safe_dump({**RECIPE, "train": {**RECIPE["train"], name: value}})
        spoil = writing("recipe.yaml", content)
        yield Case(
            f"recipe.yaml, --{name} {value}", spoil, command("compare recipe.yaml --dry-run")
        )


# --- preparations, options, results -----------------------------------------


def preparations():
    prepare = "prepare parallel -s de -t en --out data/own --bpe-operations 20 --workers 1 --from"
    tables = "prepare text-classification tsv --vocab-size 60 --workers 1 --out data/own --from"
    for name in ("tables.tar.gz", "tables.zip"):
        yield from mutations(name, command(f"{tables} {name}"), 6)
        yield from devices(name, command(f"{tables} {name}"))
    bad = [b"", b"y", b"y\n", b"\xff\ta\n", b"\ty\n", b"y\ta\nz", b"a b\tx\n", b"\0\tx\n"]
    yield from files("tables/train.tsv", command(f"{tables} tables"), bad)
    yield from devices("tables/train.tsv", command(f"{tables} tables"))
    bad = [b"", b"\xff\n", b"one line\n", b"\n" * 40, b"ab" * 2**19 + b"\n"]
    yield from files("parallel/train.de", command(f"{prepare} parallel"), bad)
    yield from files(
        "parallel/train.tsv", command(f"{prepare} parallel/train.tsv"), [b"", b"a\n", b"a\tb\tc"]
    )
    yield from devices("parallel/train.de", command(f"{prepare} parallel"))
    for source in ("/dev/zero", "/dev/null", "absent", "kept"):
        yield Case(f"--from {source}", int, command(f"{prepare} {source}"), "refused")
    for text in ("1000000000", "1e30", "0", "-1", "nan", "x", str(10**30)):
        line = command(f"prepare listops --out data/own --train 2 --workers {text}")
        yield Case(f"--workers {text}", int, line, "refused")
        line = predict(more=f"--batch-size {text}")
        must = "" if text == "1000000000" else "refused"
        yield Case(f"--batch-size {text}", int, line, must)


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


def options():
    for name, values in OPTIONS.items():
        for value in values.split():
            use = set_up("macaron_classifier", "long_range_arena", [f"--{name}", value])
            yield Case(f"--{name} {value}", int, use, "refused")


def results():
    """Results that would take the place of something else, or have none."""
    uses = {
        "made.tsv": predict(),
        "made.pt": command("average --inputs classifier.pt --output made.pt"),
        "made": command("export classifier.pt made"),
        "made.pt2": command("export classifier.pt made.pt2 --data words"),
        "made.png": command("benchmark growth made.png table.json"),
    }
    for name, use in uses.items():
        for target in ("precious", "/dev/full", "/dev/null", "kept/below"):

            def spoil(name=name, target=target):
                Path(name).symlink_to(target)

            must = "" if target in ("/dev/null", "precious") else "refused"
            yield Case(f"{name} leads to {target}", spoil, use, must)

        def full():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        yield Case(f"{name} on a full disk", full, use, "refused")


KINDS = {
    kind.__name__: list(kind())
    for kind in (code, checkpoints, data, reports, recipes, preparations, options, results)
}


# --- outcomes ---------------------------------------------------------------


def outcome(case: Case, folder: Path, whole: object = None) -> tuple[str, object]:
    """What comes of a case, and the line of the error, or the result.

    Args:
        folder: that :func:`write_folder` has filled; it is copied.
        whole: the result of the reader in the whole folder.

    Returns:
        ``refused`` by a line, ``accepted``; or ``traceback``, ``hang``, ``wrong``, ``code`` or
        ``destroyed``.
    """
    receiver, sender = Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as parent, tempfile.TemporaryFile() as output:
        work = Path(parent, "work")
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
        elif [(work / name).exists() and (work / name).read_text() for name in KEPT] != PRECIOUS:
            found = "destroyed"
        output.seek(0)
        printed = output.read().decode(errors="replace").strip().split("\n")[-1]
    if found == "accepted" and case.must:
        if case.must == "refused" or said != whole:
            found = "wrong"
    return found, said if said else printed


KEPT = ("kept", "precious/kept")
PRECIOUS = ["precious", "precious"]


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
