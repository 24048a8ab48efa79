#!/usr/bin/env python3
"""Translate, continue, score or classify lines of text with the model in this folder.

    python run.py < text                                    one result per line
    python run.py --beam 4 --lenpen 0.6 --nbest 2 < text    translator, language model
    python run.py --sampling --topp 0.9 --seed 1 < text     likewise
    python run.py --score < text                            language model

    from run import load
    model = load()
    model.translate(["Ein Mann geht."], beam=5)    # a language model: sample, score
    model.classify(["A fine film."])

It needs numpy, and onnxruntime (programs named .onnx) or torch (.pt2). Some data need sacremoses,
subword-nmt or tokenizers as well. ``model.json`` tells what the model is and how text becomes
tokens. Shapes are in comments: B texts or hypotheses, T tokens, V symbols.
"""

import argparse
import io
import json
import re
import runpy
import sys
import unicodedata
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent


def load(folder=FOLDER, threads=None):
    """The model in a folder; *threads* of the CPU for one operation (default: the library's)."""
    return Model(Path(folder), threads)


class Model:
    """A model; its methods take a list of texts and return a list of results.

    Attributes:
        about: content of ``model.json``.
    """

    def __init__(self, folder, threads):
        self.folder, self.threads, self.loaded = folder, threads, {}
        self.about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        self.pad, self.eos, self.unk = (self.about[name] for name in ("pad", "eos", "unk"))
        self.text = Text(folder, self.about)

    def run(self, name, *arrays):
        """The results of a program, a list of arrays."""
        program = self.about["programs"][name]
        if name not in self.loaded:
            self.loaded[name] = load_program(self.folder / program["file"], self.threads)
        return self.loaded[name](dict(zip(program["inputs"], arrays)))

    # --- translators and language models -------------------------------------------------

    def translate(self, texts, tokenized=False, batch_size=32, **options):
        """The best translation of each text; for options see :meth:`generate`."""
        return [best[0][1] for best in self.generate(texts, tokenized, batch_size, **options)]

    def sample(self, texts, batch_size=32, **options):
        """The best continuation of each text, which may be empty, with the text itself."""
        return [best[0][1] for best in self.generate(texts, True, batch_size, **options)]

    def generate(self, texts, tokenized=False, batch_size=32, truncate=False, **options):
        """Scores and texts of the best hypotheses for each text, the best first.

        Args:
            tokenized: whether texts are tokens between spaces, before subwords; results as well.
            truncate: whether texts that are too long are cut; else they are a ValueError.
            options: see :meth:`search`.
        """
        translates = self.about["kind"] == "translation"
        inputs = [self.encode(text, tokenized, truncate) for text in texts]
        results = [[(0.0, "")] for _ in texts]
        wanted = [n for n, tokens in enumerate(inputs) if len(tokens) > 1 or not translates]
        wanted.sort(key=lambda n: len(inputs[n]))
        while wanted:
            alike = [n for n in wanted if translates or len(inputs[n]) == len(inputs[wanted[0]])]
            batch = alike[:batch_size]
            wanted = [n for n in wanted if n not in batch]
            for n, found in zip(batch, self.search([inputs[n] for n in batch], **options)):
                results[n] = [(s, self.text.decode(words, tokenized)) for s, words in found]
        return results

    def encode(self, text, tokenized=False, truncate=False):
        """The tokens of a text to translate or continue, which end with ``</s>``."""
        tokens = [self.text.index(symbol) for symbol in self.text.encode(text, tokenized)]
        longest = self.about["longest"] - 1
        if len(tokens) > longest and not truncate:
            raise ValueError(
                f"{text[:40]!r}... has {len(tokens) + 1} tokens, more than {longest + 1}"
            )
        return [*tokens[:longest], self.eos]

    def search(
        self,
        inputs,
        beam=5,
        nbest=1,
        lenpen=1.0,
        unkpen=0.0,
        min_len=1,
        max_len_a=0.0,
        max_len_b=200,
        temperature=1.0,
        sampling=False,
        topk=0,
        topp=1.0,
        seed=None,
    ):
        """fairseq's beam search for tokens of texts, or samples.

        Args:
            beam: hypotheses that are kept; not for samples.
            nbest: hypotheses, or samples, that are returned.
            lenpen: a score is the log-probability over the length to the power of this.
            unkpen: is subtracted from the log-probability of unknown symbols.
            min_len: fewest tokens.
            max_len_a, max_len_b: most tokens: *max_len_a* times the text's number, + *max_len_b*.
            temperature: divides the logits.
            sampling: draw tokens, from the *topk* most probable ones, or from the most probable
                ones whose probabilities sum to *topp*.
            seed: makes the draws repeatable.

        Returns:
            For each text pairs of score and tokens; a language model's begin with the text's.
        """
        copies = nbest if sampling else 1
        beam = 1 if sampling else min(beam, len(self.text.symbols) - 1)
        draw = np.random.default_rng(seed)
        decoder = Decoder(self, [tokens for tokens in inputs for _ in range(copies)])
        limits = [int(max_len_a * len(tokens) + max_len_b) for tokens in inputs]
        limits = np.minimum(limits, self.about["longest_target"] - 1).repeat(copies)
        live = np.arange(len(limits))  # texts that are not finished
        found = [[] for _ in live]

        def adjust(log_probs):  # B, V
            if temperature != 1:
                log_probs = log_softmax(log_probs / temperature)
            log_probs[..., self.pad] = -np.inf
            log_probs[..., self.unk] -= unkpen
            return log_probs

        scores = np.zeros((len(limits), 1), dtype=np.float32)
        words = np.zeros((len(limits), 0), dtype=np.int64)  # B, t
        for column in decoder.prefix.T:
            scores[:, 0] += adjust(decoder.log_probs)[live, column]
            words = np.c_[words, column]
            decoder.step(column, live)
        if (limits < max(min_len, words.shape[1])).any():
            raise ValueError(f"{words.shape[1]} tokens and min_len {min_len}: more than max_len")
        for step in range(words.shape[1], int(limits.max()) + 1):
            log_probs = adjust(decoder.log_probs).reshape(*scores.shape, -1)  # texts, beams, V
            if step < min_len:
                log_probs[..., self.eos] = -np.inf
            ends = log_probs[..., self.eos].copy()
            log_probs[step >= limits[live]] = -np.inf
            log_probs[..., self.eos] = ends
            size = log_probs.shape[-1]
            if sampling:
                best = pick(log_probs[:, 0], topk, topp, draw)
            totals = (log_probs + scores[..., None]).reshape(len(live), -1)
            if not sampling:
                best = top(totals, min(2 * beam, totals.shape[1] - 1))
            rows, stay = [], []
            for place, (text, candidates) in enumerate(zip(live, best)):
                first, kept = place * scores.shape[1], []
                for rank, candidate in enumerate(candidates):
                    score, row = totals[place, candidate], first + candidate // size
                    if candidate % size != self.eos or score == -np.inf:
                        kept.append((row, candidate % size, score))
                    elif rank < beam and len(found[text]) < beam:
                        found[text].append((score / (step + 1) ** lenpen, words[row].tolist()))
                if len(found[text]) < beam and step < limits[text]:
                    rows += [*kept, *[(first, self.pad, -np.inf)] * beam][:beam]
                    stay.append(place)
            if not stay:
                break
            live = live[stay]
            parents, new, scores = (np.array(column) for column in zip(*rows))
            scores = scores.reshape(-1, beam).astype(np.float32)
            words = np.concatenate([words[parents], new[:, None]], axis=1)
            decoder.step(new, parents)
        each = [sorted(one, key=lambda pair: -pair[0]) for one in found]
        groups = [sum(each[n : n + copies], []) for n in range(0, len(each), copies)]
        return [[(float(score), words) for score, words in group[:nbest]] for group in groups]

    def score(self, texts, block=None, batch_size=32):
        """Log-probability and number of tokens of each text, with its ``</s>``.

        Args:
            block: read the texts as one, in blocks of so many tokens, as ``fairseq-eval-lm`` does;
                0: each text by itself. By default as in the training.
        """
        block = self.about["block"] if block is None else block
        texts = [self.encode(text, True, truncate=bool(block)) for text in texts]
        joined = np.array(sum(texts, []), dtype=np.int64)
        lengths = [len(text) for text in texts]
        starts = np.cumsum([0, *lengths])
        cuts = range(0, len(joined), block) if block else starts[:-1]
        pieces = np.split(joined, cuts[1:])
        before = [self.eos, *(joined[cut - 1] if block else self.eos for cut in cuts[1:])]
        inputs = [np.r_[first, piece[:-1]] for first, piece in zip(before, pieces)]
        scores = [np.zeros(0)] * len(pieces)
        order = sorted(range(len(pieces)), key=lambda n: len(pieces[n]))
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            both = (self.collate([rows[n] for n in batch]) for rows in (inputs, pieces))
            for n, row in zip(batch, self.run("score", *both)[0]):
                scores[n] = row[: len(pieces[n])].astype(float)
        each = np.split(np.concatenate([*scores, []]), starts[1:-1])
        return [(float(row.sum()), len(row)) for row in each[: len(texts)]]

    def collate(self, rows, left=False):
        """Tokens (B, T) of texts, padded on the right or left."""
        length = max(map(len, rows))
        padding = [[self.pad] * (length - len(row)) for row in rows]
        pairs = ((pad, row) if left else (row, pad) for row, pad in zip(rows, padding))
        return np.array([[*first, *second] for first, second in pairs], dtype=np.int64)

    # --- classifiers -----------------------------------------------------------------------

    def classify(self, texts, batch_size=32):
        """The most probable class of each text or pair, and the probability of each class."""
        inputs = [self.encode_parts(text) for text in texts]
        results = [("", {}) for _ in texts]
        wanted = [n for n, parts in enumerate(inputs) if parts]
        wanted.sort(key=lambda n: len(inputs[n][0]))
        for start in range(0, len(wanted), batch_size):
            batch = wanted[start : start + batch_size]
            towers = zip(*(inputs[n] for n in batch))
            for n, row in zip(batch, self.run("classify", *map(self.collate, towers))[0]):
                shares = dict(zip(self.about["classes"], row.tolist()))
                results[n] = max(shares, key=lambda name: shares[name]), shares
        return results

    def encode_parts(self, text):
        """The tokens of a text or joined pair, or of each text of a pair; none if one is empty."""
        about, parts = self.about, [text] if isinstance(text, str) else [*text]
        joins = about["towers"] == 1 and about["separator"] is not None
        if len(parts) != about["towers"] and not (joins and len(parts) == 2):
            raise ValueError(f"{text!r}: the model takes {about['towers']} texts")
        rows = [[self.text.index(s) for s in self.text.encode(part)] for part in parts]
        if not all(rows):
            return []
        if len(rows) > about["towers"]:
            rows = [[*rows[0], *about["end"], about["separator"], *rows[1]]]
        rows = [[*about["start"], *row, *about["end"]] for row in rows]
        for row in rows:
            if len(row) > about["longest"] and not about["truncates"]:
                raise ValueError(f"{str(text)[:40]!r}... has {len(row)} tokens, "
                                 f"more than {about['longest']}")  # fmt: skip
        return [row[: about["longest"]] for row in rows]


class Decoder:
    """The hypotheses of a batch, and what the programs keep of their tokens.

    Attributes:
        log_probs: log-probabilities of each hypothesis' next token (B, V).
        prefix: tokens (B, t) with which a language model begins; none of a translator.
    """

    def __init__(self, model, inputs):
        self.model, self.position, self.source = model, 0, {}
        self.texts = np.arange(len(inputs))  # text of each hypothesis
        self.entries, first = model.about["cache"], np.full((len(inputs), 1), model.about["start"])
        translates = model.about["kind"] == "translation"
        prefix = [[] if translates else tokens[:-1] for tokens in inputs]
        self.prefix = np.array(prefix, dtype=np.int64)
        if translates:
            tokens = model.collate(inputs, model.about["left_pad"])
            self.source = {"states": model.run("encoder", tokens)[0], "mask": tokens == model.pad}
        self.log_probs, *self.cache = model.run("begin", first, *self.source.values())
        taken = model.about["programs"]["step"]["inputs"]
        self.source = {name: array for name, array in self.source.items() if name in taken}

    def step(self, tokens, rows):
        """Continue hypotheses *rows* by a token each (B)."""
        ordered = np.array_equal(rows, np.arange(len(self.texts)))
        texts = self.texts[rows]
        same, self.texts = np.array_equal(texts, self.texts), texts  # nothing is copied if so
        if not same:
            self.source = {name: array[rows] for name, array in self.source.items()}
        for n, (array, entry) in enumerate(zip(self.cache, self.entries)):
            if entry["batch"] is not None and not (same if entry["constant"] else ordered):
                self.cache[n] = np.take(array, rows, axis=entry["batch"])
        self.position += 1
        arrays = (np.array(self.position), *self.source.values(), *self.cache)
        self.log_probs, *new = self.model.run("step", tokens[:, None], *arrays)
        changing = (n for n, entry in enumerate(self.entries) if not entry["constant"])
        for n, array in zip(changing, new):
            self.cache[n] = array


class Text:
    """How text becomes symbols, and symbols text; see ``text`` of ``model.json``."""

    def __init__(self, folder, about):
        self.folder, self.how = folder, about["text"]
        self.symbols, self.special = about["symbols"], (about["bos"], about["eos"])
        self.numbers = {s: n for n, s in enumerate(about.get("source_symbols", self.symbols))}
        self.unk = about["unk"]
        if moses := self.how.get("moses"):
            from sacremoses import MosesTokenizer

            self.moses = MosesTokenizer(moses["source"])
            code = runpy.run_path(str(folder / "detokenize.py"))
            self.detokenize = code["make_detokenizer"](moses["target"])
        if codes := self.how.get("bpe"):
            from subword_nmt.apply_bpe import BPE

            self.bpe = BPE(io.StringIO(codes))
        if pieces := self.how.get("tokenizer"):
            from tokenizers import Tokenizer

            self.pieces = Tokenizer.from_str(pieces)

    def index(self, symbol):
        return self.numbers.get(symbol, self.unk)

    def encode(self, text, tokenized=False):
        """The symbols of a text."""
        how = self.how
        blank = all(one.isspace() or unicodedata.category(one) in ("Cc", "Cf") for one in text)
        if how.get("moses") and blank:
            return []
        if how.get("moses") and not tokenized:
            hyphens = how["moses"]["aggressive_hyphens"]
            text = " ".join(self.moses.tokenize(text, hyphens, escape=True))
            if text.endswith(".") and text[-2:-1] not in ("", " ", "."):
                text = text[:-1] + " ."  # as Moses, also after abbreviations
            text = text.lower() if how["moses"]["lowercase"] else text
        if how.get("tokenizer"):
            return self.pieces.encode(text).tokens
        if how.get("characters"):
            return list("".join(text.split()))
        if table := how.get("bytes"):
            return [table[byte] for byte in re.sub(r"\s+", " ", text).encode()]
        if longest := how.get("longest_word"):
            text = re.sub(rf"\S{{{longest}}}(?=\S)", r"\g<0> ", text)
        if how.get("bpe"):
            text = self.bpe.process_line(text)
        return [symbol for symbol in text.split() if symbol not in how.get("dropped", ())]

    def decode(self, tokens, tokenized=False):
        """The text of tokens."""
        text = " ".join(self.symbols[token] for token in tokens if token not in self.special)
        if self.how.get("bpe"):
            text = f"{text} ".replace("@@ ", "").rstrip()
        return self.detokenize(text) if self.how.get("moses") and not tokenized else text


def load_program(path, threads):
    """A function of named arrays that returns a list of arrays."""
    if path.suffix == ".onnx":
        import onnxruntime  # pyright: ignore[reportMissingImports]

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or 0
        session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        names = [one.name for one in session.get_inputs()]
        return lambda arrays: session.run(None, {name: arrays[name] for name in names})
    import torch

    if threads:
        torch.set_num_threads(threads)
    module = torch.export.load(path).module()

    @torch.no_grad()
    def run(arrays):
        out = module(*(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays.values()))
        return [one.numpy() for one in (out if isinstance(out, tuple) else (out,))]

    return run


def log_softmax(x):
    """Log-probabilities of logits (..., V)."""
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def top(totals, count):
    """The places (B, count) of the largest numbers in each row (B, N), the largest first."""
    places = np.sort(np.argpartition(totals, -count, axis=1)[:, -count:], axis=1)
    order = np.argsort(-np.take_along_axis(totals, places, 1), axis=1, kind="stable")
    return np.take_along_axis(places, order, 1)


def pick(log_probs, topk, topp, draw):
    """A symbol (B, 1) for each row (B, V), drawn from the most probable ones."""
    order = np.argsort(-log_probs, axis=1, kind="stable")
    shares = np.exp(np.take_along_axis(log_probs, order, 1).astype(float))
    before = np.cumsum(shares, axis=1) - shares
    shares[before >= topp * shares.sum(1, keepdims=True)] = 0
    shares[:, topk or None :] = 0
    sums = np.cumsum(shares, axis=1)
    drawn = draw.random((len(sums), 1)) * sums[:, -1:]
    return np.take_along_axis(order, (sums <= drawn).sum(1, keepdims=True), 1)


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    number = {"beam": 5, "nbest": 1, "min-len": 1, "max-len-b": 200, "topk": 0, "batch-size": 32}
    number |= {"lenpen": 1.0, "unkpen": 0.0, "max-len-a": 0.0, "temperature": 1.0, "topp": 1.0}
    for name, default in number.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, metavar="N")
    for name in ("seed", "threads", "block"):
        parser.add_argument(f"--{name}", type=int, metavar="N")
    for name in ("sampling", "score", "tokenized", "truncate"):
        parser.add_argument(f"--{name}", action="store_true")
    options = vars(parser.parse_args())
    scores, block = options.pop("score"), options.pop("block")
    model = load(threads=options.pop("threads"))
    lines = [
        line.rstrip("\r\n") for line in io.TextIOWrapper(sys.stdin.buffer, "utf-8", newline="\n")
    ]
    if scores:
        results = model.score(lines, block, options["batch_size"])
        total, count = (sum(column) for column in zip(*results, (0.0, 0)))
        print(*(f"{score:.4f}" for score, _ in results), sep="\n")
        print(f"perplexity {np.exp(-total / max(count, 1)):.4f}")
    elif model.about["kind"] == "classification":
        texts = [line if model.about["towers"] == 1 else line.split("\t") for line in lines]
        for label, shares in model.classify(texts, options["batch_size"]):
            print(label, *(f"{share:.6f}" for share in shares.values()), sep="\t")
    else:
        for hypotheses in model.generate(lines, **options):
            for _, text in hypotheses:
                print(text)


if __name__ == "__main__":
    try:
        main()
    except (ImportError, ValueError) as error:
        sys.exit(f"run.py: {error}")
