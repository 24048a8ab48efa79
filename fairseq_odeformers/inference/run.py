#!/usr/bin/env python3
"""Translate, continue, score or classify lines of text with the model in this folder.

    python run.py < text                                    one result per line
    python run.py --beam 4 --lenpen 0.6 --nbest 2 < text    translator, language model
    python run.py --sampling --topp 0.9 --seed 1 < text     likewise
    python run.py --score < text                            language model

    from run import load
    model = load()
    model.translate("Ein Mann geht.", beam=5)    # a language model: sample, score
    model.classify(["A fine film.", "A bad film."])    # a list of results
    model.classify([("A fine film.", "A bad film.")])    # pairs

It needs numpy, and onnxruntime (for programs named .onnx) or torch (.pt2). Some data also need
sacremoses, subword-nmt or tokenizers. ``model.json`` describes the model and how text becomes
tokens. Comments show shapes: B texts or hypotheses, T tokens, V symbols.
"""

import argparse
import difflib
import functools
import hashlib
import importlib
import inspect
import io
import json
import logging
import math
import os
import re
import reprlib
import runpy
import sys
import unicodedata
from collections import namedtuple
from collections.abc import Iterable, Mapping, Set
from contextlib import contextmanager
from numbers import Real
from pathlib import Path

try:
    import numpy as np
except ImportError as error:
    missing = f"numpy cannot be imported ({error}); pip install numpy"
    if __name__ != "__main__":
        raise ImportError(missing) from error
    print(f"run.py: {missing}", file=sys.stderr)
    sys.exit(2)

FOLDER = Path(__file__).resolve().parent
AGAIN = "copy the folder again, or export the model again"
logger = logging.getLogger(__name__)
NOUNS = {
    "translation": "translator",
    "language model": "language model",
    "classification": "classifier",
}
# The smallest and the largest value of each option; results may overflow beyond.
BOUNDS = {
    **dict.fromkeys(("batch_size", "beam", "threads"), (1, math.inf)),
    **dict.fromkeys(("block", "min_len", "seed", "topk"), (0, math.inf)),
    "lenpen": (-50, 50),
    "max_len_a": (0, 1e6),
    "max_len_b": (-1e19, 1e19),
    "nbest": (1, 10_000),
    "temperature": (1e-6, 1e6),
    "topp": (1e-6, 1),
    "unkpen": (-1e6, 1e30),
}
# Types of the entries of model.json that are needed; of lists, also the type of their items.
ENTRIES = {
    **dict.fromkeys(("pad", "unk", "bos", "eos"), int),
    **{"symbols": [str], "longest": Real, "text": dict, "programs": dict},
}
GENERATES = {"start": int, "longest_target": Real}
ENTRIES_OF = {
    "translation": {**GENERATES, "left_pad": bool},
    "language model": {**GENERATES, "block": int},
    "classification": {"classes": [str], "towers": int, "start": [int], "end": [int]}
    | {"separator": (int, type(None))},
}
PROGRAMS_OF = {
    "translation": ("encoder", "begin", "step"),
    "language model": ("begin", "step", "score"),
    "classification": ("classify",),
}
PROGRAM = {"file": str, "inputs": dict, "outputs": [str]}

# Commands that convert other formats to UTF-8 text, by the first bytes of the input.
CONVERTERS = {
    b"\x1f\x8b": "gzip -dc",
    b"BZh": "bzip2 -dc",
    b"\xfd7zXZ": "xz -dc",
    b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"PK\x03\x04": "unzip -p",
    b"\xff\xfe": "iconv -f utf-16 -t utf-8",
    b"\xfe\xff": "iconv -f utf-16 -t utf-8",
}

Classification = namedtuple("Classification", ["label", "probabilities"])


def load(folder=FOLDER, threads=None):
    """Load the model in a folder.

    Args:
        threads: number of CPU threads for one operation, at most one per core (default: chosen by
            the library).
    """
    check_options({"threads": threads}, parameters(load))
    if not isinstance(folder, (str, os.PathLike)):
        raise TypeError(f"folder {reprlib.repr(folder)}: give the path of an exported folder")
    return Model(Path(folder), threads)


def for_texts(*kinds):
    """Check the arguments of a method of these kinds of models, and let it also map one text.

    The method itself maps a list of texts to a list of results.
    """

    def decorate(method):
        @functools.wraps(method)
        def wrapper(self, texts, *arguments, **options):
            self.check_kind(method.__name__, *kinds)
            declared = options_of(method)
            check_options({**dict(zip(declared, arguments)), **options}, declared)
            rows = [texts] if isinstance(texts, str) else texts
            rows = check_texts(rows, pairs=self.about["kind"] == "classification")
            results = method(self, rows, *arguments, **options)
            return results[0] if isinstance(texts, str) else results

        return wrapper

    return decorate


class Model:
    """A model; its methods return a result for a text, and a list for a list of texts.

    Attributes:
        about: content of ``model.json``.
        unit: the word for a text in messages.
    """

    unit = "text"

    def __init__(self, folder, threads):
        self.folder, self.threads, self.loaded, self.warned = folder, threads, {}, False
        check_exists(folder, ["model.json"])
        with naming_faults(folder / "model.json"):
            self.about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
            check_about(self.about)
            self.pad, self.eos = self.about["pad"], self.about["eos"]
            files = [program["file"] for program in self.about["programs"].values()]
            files += ["detokenize.py"] * ("moses" in self.about["text"])
        check_exists(folder, files)
        self.library = require("onnxruntime" if files[0].endswith(".onnx") else "torch")
        with naming_faults(folder / "model.json"):
            self.text = Text(folder, self.about)
            self.text.encode("a text")

    def check_kind(self, name, *kinds):
        """Check that a method, or an option of the command, is for this kind of model."""
        if (kind := self.about["kind"]) not in kinds:
            users = " and ".join(f"{NOUNS[each]}s" for each in kinds)
            raise ValueError(f"{name} is for {users}; this model is a {NOUNS[kind]}")

    def run(self, name, arrays):
        """Run a program with the arrays that it needs, and return its results by name."""
        program = self.about["programs"][name]
        if name not in self.loaded:
            path, digest = self.folder / program["file"], program.get("sha256")
            if digest not in (None, hashlib.sha256(path.read_bytes()).hexdigest()):
                raise ValueError(f"{path} is damaged; {AGAIN}")
            with naming_faults(path, f"cannot be loaded by {self.library.__name__}"):
                self.loaded[name] = load_program(self.library, path, self.threads)
        with naming_faults(self.folder / program["file"], "does not fit model.json"):
            results = self.loaded[name]({name: arrays[name] for name in program["inputs"]})
            if len(results) != len(program["outputs"]):
                raise ValueError(f"{len(results)} results")
        return dict(zip(program["outputs"], results))

    def collate(self, rows, left=False):
        """Collate the tokens of texts to an array (B, T), padded on the right or left."""
        length = max(map(len, rows))
        padding = [[self.pad] * (length - len(row)) for row in rows]
        pairs = ((pad, row) if left else (row, pad) for row, pad in zip(rows, padding))
        return np.array([[*first, *second] for first, second in pairs], dtype=np.int64)

    def encode_each(self, texts, encode):
        """Call *encode* with each text and its place in messages, such as ``line 3``."""
        return [encode(text, f"{self.unit} {number}") for number, text in enumerate(texts, 1)]

    def fit(self, tokens, place, truncate, ending=()):
        """Return the tokens of a text and its ending, truncated if they are too long.

        Raises:
            ValueError: there are too many tokens, and neither *truncate* nor the training options
                allow truncation.
        """
        count, longest = len(tokens) + len(ending), self.about["longest"]
        if count > longest and not truncate:
            if not self.about.get("truncates"):
                remedy = "shorten it, or give --truncate (Python: truncate=True)"
                fault = f"{place} has {count} tokens, more than the model's {longest}"
                raise ValueError(f"{fault}; {remedy}")
            if not self.warned:
                self.warned = True
                logger.warning(
                    f"{place} has {count:,} tokens, and the model takes {longest:,}: the others "
                    "are left out; later texts are not reported"
                )
        return [*tokens[: longest - len(ending)], *ending]

    # --- translators and language models -------------------------------------------------

    @for_texts("translation")
    def translate(self, texts, beam=5, **options):
        """Return the best translation of each text; for options, see :meth:`generate`."""
        return self.find_best(texts, beam=beam, **options)

    @for_texts("translation", "language model")
    def sample(self, texts, beam=1, **options):
        """Return each text with its best continuation; a text may be empty.

        A translator returns the best translation, as in fairseq.
        """
        return self.find_best(texts, beam=beam, **options)

    def find_best(self, texts, nbest=1, **options):
        """Return the best hypothesis for each text."""
        if nbest != 1:
            raise ValueError(f"nbest {nbest}: only the best is returned here; use generate")
        return [hypotheses[0][1] for hypotheses in self.generate(texts, **options)]

    @for_texts("translation", "language model")
    def generate(
        self,
        texts,
        tokenized=False,
        batch_size=32,
        truncate=False,
        max_len_a=0.0,
        max_len_b=200,
        min_len=1,
        **options,
    ):
        """Return scores and texts of the best hypotheses for each text, the best first.

        Args:
            tokenized: read and write tokens between spaces, before the split into subwords.
            batch_size: maximum number of texts per batch.
            truncate: truncate texts that are too long; otherwise, they are an error unless the
                training truncated its texts.
            max_len_a: a result has at most max_len_a n + max_len_b tokens, where n is the number of
                tokens of its text.
            max_len_b: see max_len_a.
            min_len: minimum number of tokens.
            options: see :meth:`search`.
        """
        translates, most = self.about["kind"] == "translation", self.about["longest_target"] - 1

        def encode(text, place):
            tokens = self.text.encode(text, tokenized)
            if translates and not tokens:
                return [], 0
            tokens = self.fit(tokens, place, truncate, [self.eos])
            limit = min(int(max_len_a * len(tokens) + max_len_b), most)
            start = 0 if translates else len(tokens) - 1
            if limit < max(min_len, start):
                fault = f" has {start} tokens" if start >= min_len else f": min_len {min_len}"
                raise ValueError(
                    f"{place}{fault}, more than {limit}, the limit by max_len_a, max_len_b and the "
                    "model; change these options, or shorten the text"
                )
            return tokens, limit

        rows, limits = zip(*self.encode_each(texts, encode)) if texts else ((), ())
        results = [[(0.0, "")] for _ in texts]
        options["seed"] = np.random.default_rng(options.get("seed"))  # one stream for all batches
        for batch in batches(rows, batch_size, alike=not translates):
            inputs, lengths = ([each[n] for n in batch] for each in (rows, limits))
            for n, best in zip(batch, self.search(inputs, lengths, min_len, **options)):
                results[n] = [(s, self.text.decode(words, tokenized)) for s, words in best]
        return results

    def search(
        self,
        inputs,
        limits,
        min_len,
        beam=5,
        nbest=1,
        lenpen=1.0,
        unkpen=0.0,
        temperature=1.0,
        sampling=False,
        topk=0,
        topp=1.0,
        seed=None,
    ):
        """Run fairseq's beam search from the tokens of texts, or draw samples.

        Args:
            inputs: tokens of each text.
            limits: maximum number of tokens of each result.
            min_len: minimum number of tokens of all results.
            beam: beam size; ignored when sampling.
            nbest: number of hypotheses or samples to return.
            lenpen: length penalty: scores are log-probabilities divided by length ** lenpen.
            unkpen: number to subtract from the log-probability of unknown symbols.
            temperature: number that divides the logits.
            sampling: sample tokens instead of running a beam search.
            topk: sample from this number of most probable tokens; 0: from all.
            topp: sample from the most probable tokens, up to this total probability.
            seed: seed of the random numbers.

        Returns:
            For each text, pairs of score and tokens. The tokens of a language model begin with the
            text.
        """
        if not sampling and (topk, topp) != (0, 1):
            raise ValueError("topk and topp are for sampling; add sampling=True (--sampling)")
        copies, draw = nbest if sampling else 1, np.random.default_rng(seed)
        beam = 1 if sampling else min(beam, len(self.text.symbols) - 1)
        inputs = [tokens for tokens in inputs for _ in range(copies)]
        prefix = np.array([[] if "encoder" in self.about["programs"] else t[:-1] for t in inputs])
        prefix, start = prefix.astype(np.int64), prefix.shape[1]
        limits = np.repeat(limits, copies)
        decoder, live = Decoder(self, inputs), np.arange(len(inputs))  # unfinished texts
        scores = np.zeros((len(live), 1), dtype=np.float32)  # live texts, hypotheses
        words, finished = prefix[:, :0], [[] for _ in live]
        for step in range(limits.max() + 1):
            log_probs = decoder.log_probs  # B, V
            if temperature != 1:
                log_probs = log_softmax(log_probs / temperature)
            log_probs[:, self.pad] = -np.inf
            log_probs[:, self.about["unk"]] -= unkpen
            if step < start:
                rows, new = live, prefix[:, step]
                scores += log_probs[rows, new, None]
            else:
                size, width = log_probs.shape[1], scores.shape[1]
                ends = log_probs[:, self.eos].copy() if step >= min_len else -np.inf
                log_probs[np.repeat(step >= limits[live], width)] = -np.inf
                log_probs[:, self.eos] = ends
                totals = log_probs.reshape(len(live), -1) + scores.repeat(size, axis=1)
                count = min(2 * beam, totals.shape[1] - 1)
                best = pick(log_probs, topk, topp, draw) if sampling else top(totals, count)
                chosen, stay = [], []
                for place, text in enumerate(live):
                    first, going = place * width, []
                    for rank, candidate in enumerate(best[place]):
                        score, row, word = totals[place, candidate], *divmod(candidate, size)
                        if word != self.eos or score == -np.inf:
                            going.append((first + row, word, score))
                        elif rank < beam and len(finished[text]) < beam:
                            tokens = words[first + row].tolist()
                            finished[text].append((float(score) / (step + 1) ** lenpen, tokens))
                    if len(finished[text]) < beam and step < limits[text]:
                        chosen += [*going, *[(first, self.pad, -np.inf)] * beam][:beam]
                        stay.append(text)
                if not stay:
                    break
                live = np.array(stay)
                rows, new, scores = map(np.array, zip(*chosen))
                scores = scores.reshape(-1, beam).astype(np.float32)
            words = np.c_[words[rows], new]
            decoder.step(new, rows)
        ranked = [sorted(pairs, key=lambda pair: -pair[0]) for pairs in finished]
        groups = [sum(ranked[n : n + copies], []) for n in range(0, len(ranked), copies)]
        return [group[:nbest] for group in groups]

    @for_texts("language model")
    def score(self, texts, block=0, batch_size=32, truncate=False):
        """Return the log-probability and the number of tokens of each text, with its ``</s>``.

        Args:
            block: score the joined texts in blocks of this number of tokens, as fairseq-eval-lm
                does; 0: score each text by itself; None: as in training.
            batch_size, truncate: see :meth:`generate`; blocks are never too long.
        """
        block = self.about["block"] if block is None else min(block, self.about["longest"])

        def encode(text, place):
            tokens = self.text.encode(text)
            return [*tokens, self.eos] if block else self.fit(tokens, place, truncate, [self.eos])

        texts = self.encode_each(texts, encode)
        joined = np.array([self.eos, *sum(texts, [])])  # each text follows the end of another
        ends = np.cumsum([*map(len, texts)])
        cuts = range(block, len(joined) - 1, block) if block else ends[:-1]
        tokens, targets = np.split(joined[:-1], cuts), np.split(joined[1:], cuts)
        scores = [np.zeros(0)] * len(targets)
        for batch in batches(targets, batch_size):
            both = (self.collate([rows[n] for n in batch]) for rows in (tokens, targets))
            log_probs = self.run("score", dict(zip(("tokens", "targets"), both)))["log_probs"]
            for n, row in zip(batch, log_probs):
                scores[n] = row[: len(targets[n])].astype(float)
        rows = np.split(np.concatenate(scores), ends[:-1])
        return [(float(row.sum()), len(row)) for row in rows[: len(texts)]]

    # --- classifiers -----------------------------------------------------------------------

    @for_texts("classification")
    def classify(self, texts, batch_size=32, truncate=False):
        """Return the class of each text or pair, and the probability of each class."""
        encode = functools.partial(self.encode_parts, truncate=truncate)
        inputs = self.encode_each(texts, encode)
        classes = self.about["classes"]
        names = self.about["programs"]["classify"]["inputs"]
        results = [Classification("", {}) for _ in texts]
        for batch in batches([parts[0] for parts in inputs], batch_size):
            towers = map(self.collate, zip(*(inputs[n] for n in batch)))
            probabilities = self.run("classify", dict(zip(names, towers)))["probabilities"]
            for n, row in zip(batch, probabilities):
                shares = dict(zip(classes, row.tolist()))
                results[n] = Classification(classes[row.argmax()], shares)
        return results

    def encode_parts(self, text, place, truncate):
        """Encode a text or joined pair, or each text of a pair; [[]] if a text is empty."""
        about, parts = self.about, [text] if isinstance(text, str) else [*text]
        rows = [self.text.encode(part) for part in parts]
        if not any(rows):  # a blank line may have any number of columns
            return [[]]
        most = 1 if about["towers"] == 1 and about["separator"] is None else 2
        if not about["towers"] <= len(parts) <= most:
            given = "1 text" if len(parts) == 1 else f"{len(parts)} texts"
            takes = " or ".join(map(str, range(about["towers"], most + 1)))
            fault = f"{place}: {given} instead of {takes}"
            if self.unit != "line":
                remedy = "give a str for each text" if most == 1 else "give pairs (first, second)"
                raise ValueError(f"{fault}; {remedy}")
            remedy = "give two texts with a tab between them"
            if most == 1:
                column = 2 if parts[0] in about["classes"] else "N"
                remedy = f"give only the column of texts (cut -f {column})"
            raise ValueError(f"{fault} (tabs separate texts); {remedy}")
        if not all(rows):
            return [[]]
        if len(rows) > about["towers"]:
            rows = [[*rows[0], *about["end"], about["separator"], *rows[1]]]
        rows = [[*about["start"], *row, *about["end"]] for row in rows]
        return [self.fit(row, place, truncate) for row in rows]


class Decoder:
    """The hypotheses of a batch, with the cached arrays of their tokens.

    Attributes:
        log_probs: log-probabilities of each hypothesis' next token (B, V).
    """

    def __init__(self, model, inputs):
        about, source = model.about, {}
        self.model, self.position = model, 0
        self.texts = np.arange(len(inputs))  # text of each hypothesis
        self.dims = about["programs"]["step"]["inputs"]  # dimensions that count hypotheses
        self.changing = about["programs"]["step"]["outputs"]
        if "encoder" in about["programs"]:
            tokens = model.collate(inputs, about["left_pad"])
            source = model.run("encoder", {"tokens": tokens}) | {"mask": tokens == model.pad}
        self.kept = source
        self.run("begin", {"tokens": np.full((len(inputs), 1), about["start"])})

    def step(self, tokens, rows):
        """Continue the hypotheses *rows* (B) by one token each (B); copy arrays only if needed."""
        ordered = np.array_equal(rows, np.arange(len(self.texts)))
        texts = self.texts[rows]
        same, self.texts = np.array_equal(texts, self.texts), texts
        for name, array in self.kept.items():
            dim = self.dims[name]
            if dim is not None and not (ordered if name in self.changing else same):
                self.kept[name] = np.take(array, rows, axis=dim)
        self.position += 1
        self.run("step", {"tokens": tokens[:, None], "position": np.array(self.position)})

    def run(self, name, arrays):
        """Run a program with *arrays* and those that are kept."""
        self.kept |= self.model.run(name, arrays | self.kept)
        self.log_probs = self.kept.pop("log_probs")


class Text:
    """The conversion of text to tokens and back, by the entry ``text`` of ``model.json``."""

    def __init__(self, folder, about):
        self.how, self.unk = about["text"], about["unk"]
        self.symbols, self.special = about["symbols"], (about["bos"], about["eos"])
        self.numbers = {s: n for n, s in enumerate(about.get("source_symbols", self.symbols))}
        if moses := self.how.get("moses"):
            self.moses = require("sacremoses").MosesTokenizer(moses["source"])
            code = runpy.run_path(str(folder / "detokenize.py"))
            self.detokenize = code["make_detokenizer"](moses["target"])
        if codes := self.how.get("bpe"):
            self.bpe = require("subword_nmt.apply_bpe").BPE(io.StringIO(codes))
        if pieces := self.how.get("tokenizer"):
            self.pieces = require("tokenizers").Tokenizer.from_str(pieces)

    def encode(self, text, tokenized=False):
        """Return the tokens of a text."""
        return [self.numbers.get(symbol, self.unk) for symbol in self.divide(text, tokenized)]

    def divide(self, text, tokenized):
        """Divide a text into symbols."""
        how = self.how
        if how.get("moses") and not tokenized:
            if all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text):
                return []
            hyphens = how["moses"]["aggressive_hyphens"]
            text = " ".join(self.moses.tokenize(text, hyphens, escape=True))
            text = re.sub(r"(?<=[^ .])\.$", " .", text)  # Moses splits it even after abbreviations
            text = text.lower() if how["moses"]["lowercase"] else text
        if how.get("tokenizer"):
            return self.pieces.encode(text).tokens
        if how.get("replace"):
            pattern, new = how["replace"]
            text = re.sub(pattern, new, text)
        if how.get("bytes"):
            return [how["bytes"][byte] for byte in text.encode()]
        if how.get("bpe"):
            text = self.bpe.process_line(text)
        return text.split()

    def decode(self, tokens, tokenized=False):
        """Return the text of tokens."""
        text = " ".join(self.symbols[token] for token in tokens if token not in self.special)
        if self.how.get("bpe"):
            text = f"{text} ".replace("@@ ", "").rstrip()
        return self.detokenize(text) if self.how.get("moses") and not tokenized else text


def batches(rows, size, alike=False):
    """Yield lists of up to *size* indices of nonempty rows with similar, or *alike*, lengths."""
    order = sorted((n for n, row in enumerate(rows) if len(row)), key=lambda n: len(rows[n]))
    while order:
        first = len(rows[order[0]])
        batch = [n for n in order[:size] if not alike or len(rows[n]) == first]
        yield batch
        order = order[len(batch) :]


def check_about(about):
    """Check that ``model.json`` has all entries, and that they have their types."""
    kind, programs = about["kind"], about["programs"]
    check_types(about, ENTRIES | ENTRIES_OF[kind])
    for name in PROGRAMS_OF[kind]:
        check_types(programs[name], PROGRAM)
    for name in ("pad", "unk", "bos", "eos"):
        if not 0 <= about[name] < len(about["symbols"]):
            last = len(about["symbols"]) - 1
            raise ValueError(f"{name} is {about[name]}, not the number of a symbol, 0 to {last}")


def check_types(entries, kinds):
    """Check that values have the types in *kinds*; ``[str]`` is a list of strings."""
    for name, kind in kinds.items():
        value = entries[name]
        if isinstance(kind, list):
            fits = isinstance(value, list) and all(isinstance(item, kind[0]) for item in value)
        else:
            fits = isinstance(value, kind)
        if not fits:
            raise TypeError(f"{name} is {reprlib.repr(value)}, not {describe_type(kind)}")


def describe_type(kind):
    """Return the name of a type in *kinds* of :func:`check_types`."""
    if isinstance(kind, list):
        return f"a list of {kind[0].__name__}"
    types = kind if isinstance(kind, tuple) else (kind,)
    return " or ".join("None" if each is type(None) else each.__name__ for each in types)


def check_exists(folder, names):
    """Check that a folder has files of these names."""
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise FileNotFoundError(f"{folder} lacks {' and '.join(missing)}; {AGAIN}")


@contextmanager
def naming_faults(path, fault="is damaged"):
    """Name a file in errors about its content."""
    try:
        yield
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # damaged bytes may cause any error
        reason = f"{type(error).__name__}: {error}".split("\n")[0]
        raise ValueError(f"{path} {fault} ({reason}); {AGAIN}") from error


def require(name):
    """Import a library, or name the package to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.split(".")[0].replace("_", "-")
        fault = f"{package} cannot be imported ({error}); pip install {package}"
        raise ImportError(f"{fault} (README.md lists all that the folder needs)") from error


def load_program(library, path, threads):
    """Load a program as a function of named arrays that returns a list of arrays."""
    threads = threads and min(threads, os.cpu_count() or threads)
    if path.suffix == ".onnx":
        options = library.SessionOptions()
        options.intra_op_num_threads = threads or 0
        session = library.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        names = [array.name for array in session.get_inputs()]
        return lambda arrays: session.run(None, {name: arrays[name] for name in names})
    torch = library
    if threads:
        torch.set_num_threads(threads)
    module = torch.export.load(path).module()

    @torch.no_grad()
    def run(arrays):
        out = module(*(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays.values()))
        return [tensor.numpy() for tensor in (out if isinstance(out, tuple) else (out,))]

    return run


def log_softmax(x):
    """Return the log-probabilities of logits (..., V)."""
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def top(totals, count):
    """Return the indices (B, count) of the largest numbers in each row (B, N), in falling order."""
    places = np.sort(np.argpartition(totals, -count, axis=1)[:, -count:], axis=1)
    order = np.argsort(-np.take_along_axis(totals, places, 1), axis=1, kind="stable")
    return np.take_along_axis(places, order, 1)


def pick(log_probs, topk, topp, draw):
    """Draw a symbol (B, 1) for each row (B, V) from the most probable ones."""
    order = np.argsort(-log_probs, axis=1, kind="stable")
    in_order = np.take_along_axis(log_probs, order, 1).astype(float)
    # At low temperatures, all symbols that are allowed may be less probable than exp can tell.
    shares = np.exp(in_order - np.maximum(in_order[:, :1], np.finfo(float).min))
    before = np.cumsum(shares, axis=1) - shares
    shares[before >= topp * shares.sum(1, keepdims=True)] = 0
    if topk:
        shares[:, topk:] = 0
    sums = np.cumsum(shares, axis=1)
    drawn = draw.random((len(sums), 1)) * sums[:, -1:]
    return np.take_along_axis(order, (sums <= drawn).sum(1, keepdims=True), 1)


def parameters(*functions):
    """Map the names of functions' options to their default and their text in the docstring."""
    options = {}
    for function in functions:
        text = inspect.getdoc(function) or ""
        texts = dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", text, re.M))
        for name, argument in inspect.signature(function).parameters.items():
            if argument.default is None or isinstance(argument.default, (int, float)):
                options.setdefault(name, (argument.default, " ".join(texts.get(name, "").split())))
    return options


def options_of(method):
    """Return the :func:`parameters` of a method and of those that take its other options."""
    others = "options" in inspect.signature(method).parameters
    return parameters(method, *([Model.generate, Model.search] if others else []))


def check_options(options, declared):
    """Check that options exist, and that each value has the type of the option's default.

    Args:
        declared: the options that exist, as :func:`parameters` returns them.
    """
    for name, value in options.items():
        if name not in declared:
            near = difflib.get_close_matches(name.replace("sampling_", ""), declared, 1)
            others = f"the options are {', '.join(declared)}"
            remedy = f"did you mean {near[0]}?" if near else others
            raise TypeError(f"there is no option {name}; {remedy}")
        default = declared[name][0]
        if isinstance(default, bool):
            fits, remedy = isinstance(value, bool), "True or False"
        else:
            real = isinstance(default, float)
            fits = isinstance(value, Real if real else (int, np.integer))
            fits = fits and is_in_bounds(name, value) and not isinstance(value, bool)
            fits = fits or (value is None and name in ("block", "seed", "threads"))
            remedy = f"a {'number' if real else 'whole number'} {describe_bounds(name)}"
        if not fits:
            raise ValueError(f"{name} {reprlib.repr(value)}: give {remedy}")


def is_in_bounds(name, value):
    """Return whether the value of an option is between its bounds; nan is not."""
    least, most = BOUNDS[name]
    return least <= value <= most


def describe_bounds(name):
    """Describe the bounds of an option, such as "from 0 to 1"."""
    least, most = BOUNDS[name]
    return f"from {least:g}" + ("" if most == math.inf else f" to {most:g}")


def check_texts(texts, pairs):
    """Check several texts, or with *pairs* also pairs of texts, and return them as a list."""
    columns = texts if isinstance(texts, Mapping) else getattr(texts, "columns", None)
    if columns is not None:
        names = reprlib.repr([*columns])[1:-1]
        remedy = "give the texts of one of its columns"
        raise TypeError(f"a {type(texts).__name__} of {names}: {remedy}")
    single = isinstance(texts, (bytes, Set)) or getattr(texts, "ndim", 1) == 0  # a 0-d array
    if single or not isinstance(texts, Iterable):
        raise TypeError(f"{reprlib.repr(texts)}: give a text or a list of texts")
    texts = [*texts]
    for number, text in enumerate(texts, 1):
        place = f"text {number} of {len(texts)}"
        for part in text if pairs and isinstance(text, (list, tuple, np.ndarray)) else [text]:
            if not isinstance(part, str):
                raise TypeError(f"{place}: {reprlib.repr(part)} is not a string; pass a str")
            if surrogate := re.search("[\ud800-\udfff]", part):
                remedy = "decode the text with its encoding, or with errors='replace'"
                raise ValueError(f"{place}: {surrogate[0]!r} is not a valid character; {remedy}")
    return texts


def read_lines():
    """Return the lines of standard input."""
    if sys.stdin is None:
        raise ValueError("standard input is closed; pass a text, as in run.py < text")
    content = sys.stdin.buffer.read()
    try:
        text = content.decode("utf-8").replace("\ufeff", "")  # byte order marks
        wrong = 0 if 3 * text.count("\0") > len(text) else None  # UTF-16 has zeros
    except UnicodeDecodeError as error:
        text, wrong = "", error.start
    place = "standard input"
    if wrong is not None:
        encoding = "utf-16le" if b"\0" in content else "windows-1252"
        commands = (CONVERTERS[start] for start in CONVERTERS if content.startswith(start))
        command = next(commands, f"iconv -f {encoding} -t utf-8")
        place += f", line {content.count(10, 0, wrong) + 1}"
        raise ValueError(f"{place}: not UTF-8 text; convert it, for example with {command}")
    if "\r" in text[:-1] and "\n" not in text:
        raise ValueError(
            f"{place}: lines end with carriage returns; convert it with tr '\\r' '\\n'"
        )
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")] if text else []


class Parser(argparse.ArgumentParser):
    """A parser with errors that are printed like all others."""

    def error(self, message):
        raise ValueError(f"{message} (see run.py --help)")


def main():
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    parser = Parser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    of_scores = parser.add_argument_group("options for language models")
    of_scores.add_argument("--score", action="store_true", help="score the texts")
    common = parameters(load, Model.classify)
    declared = parameters(load, Model.generate, Model.search, Model.score, Model.classify)
    text = declared["block"][1].replace("None: as in training", "default: as in training")
    declared["block"] = None, text
    of_search = parser.add_argument_group("options for translators and language models")
    for name, (default, text) in declared.items():
        flag = f"--{name.replace('_', '-')}"
        group = parser if name in common else of_scores if name == "block" else of_search
        if isinstance(default, bool):
            group.add_argument(flag, action="store_true", help=text)
        else:
            number = int if default is None else type(default)
            text += "" if default is None else f" (default: {default})"
            group.add_argument(flag, type=number, metavar="N", help=text)
    options = vars(parser.parse_args())  # options without a value on the command line are absent
    scores, model = options.pop("score", False), load(threads=options.pop("threads", None))
    model.unit, kind = "line", model.about["kind"]
    if scores:
        model.check_kind("--score", "language model")
    method = Model.classify if kind == "classification" else Model.generate
    if others := options.keys() - options_of(Model.score if scores else method):
        flags = " ".join(sorted(f"--{name.replace('_', '-')}" for name in others))
        raise ValueError(f"{flags}: not for {'--score' if scores else kind}; leave it out")
    lines = read_lines()
    if scores:
        results = model.score(lines, **{"block": None, **options})
        for score, _ in results:
            print(f"{score:.4f}")
        if results:
            total, count = map(sum, zip(*results))
            print(f"perplexity {np.exp(-total / count):.4f}")
    elif kind == "classification":
        for label, shares in model.classify([line.split("\t") for line in lines], **options):
            print(label, *(f"{share:.6f}" for share in shares.values()), sep="\t")
    else:
        for hypotheses in model.generate(lines, **options):
            for _, text in hypotheses:
                print(text)


if __name__ == "__main__":
    try:
        main()
        print(end="", flush=True)
    except KeyboardInterrupt:
        sys.exit(130)
    except (ImportError, MemoryError, OSError, ValueError) as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # drops what cannot be printed
        if isinstance(error, BrokenPipeError):  # the reader has ended, as in run.py | head
            sys.exit()
        fault = "not enough memory; give a smaller --batch-size"
        print(f"run.py: {str(error) or fault}", file=sys.stderr)
        sys.exit(2)
