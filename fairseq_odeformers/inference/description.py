"""The files of an exported folder besides its programs: ``model.json``, ``run.py`` and a README.

``model.json`` contains

- ``kind``, ``architecture``, ``family``, ``paper``, ``parameters`` and ``versions``;
- ``score``: the validation score of the checkpoint, if it is saved;
- ``programs``: for each name, the ``file`` and its ``sha256``, the dimension of each of the
  ``inputs`` that indexes texts, and the ``outputs``; an output with the name of an input replaces
  it in the next call;
- ``symbols``, and ``source_symbols`` if a translator's source has others: a token is the number of
  a symbol;
- ``pad``, ``unk``, ``bos`` and ``eos``: the special tokens; ``start``: the first tokens;
- ``longest`` and ``longest_target``: the maximum number of tokens of a text;
- ``text``: how text becomes symbols, see :func:`describe_text`;
- for a language model, ``block``: the number of tokens that are scored together;
- for a classifier, ``classes``, ``towers`` and ``separator`` of pairs, ``end`` and ``truncates``.
"""

import json
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fairseq import utils
from fairseq.data.encoders.byte_utils import BYTE_TO_BCHAR, SPACE, SPACE_ESCAPE

from fairseq_odeformers.checkpoints import Trained
from fairseq_odeformers.data.classification import classes_of
from fairseq_odeformers.files import MADE_FROM
from fairseq_odeformers.registry import BASELINES, OWN, Kind, family_of, paper_of
from fairseq_odeformers.text import detokenize
from fairseq_odeformers.text.moses import read_raw_pairs
from fairseq_odeformers.text.raw_text import (
    LONG_WORD,
    add_special_tokens,
    appends_eos,
    tokenize,
)
from fairseq_odeformers.text.word_pieces import load_tokenizer

from . import run
from .hub import find_codes
from .texts import allows_truncation

NAMES = {  # kinds of models that can be exported
    Kind.TRANSLATION: "translation",
    Kind.LANGUAGE_MODEL: "language model",
    Kind.CLASSIFICATION: "classification",
}
MAKERS = ("torch", "onnx", "fairseq-odeformers")  # packages listed in ``versions``
NEEDED = {"moses": "sacremoses", "bpe": "subword-nmt", "tokenizer": "tokenizers"}
COMMANDS = {  # kind: command, call in Python, output of both, and options
    NAMES[Kind.TRANSLATION]: (
        "python run.py --beam 5 < text",
        'model.translate(["..."], beam=5)  # a list of translations',
        "`run.py` prints one translation per line (with `--nbest N`, up to N lines for each text; "
        "an empty line for an empty text).",
        "`--beam`, `--lenpen`, `--max-len-a`, `--max-len-b`; `--sampling` with `--topk`, `--topp`, "
        "`--temperature` and `--seed`; `--tokenized` reads and writes tokens between spaces",
    ),
    NAMES[Kind.LANGUAGE_MODEL]: (
        "python run.py --sampling --topp 0.9 < text\npython run.py --score < text",
        'model.sample(["..."], sampling=True, topp=0.9)  # a list of texts with continuations\n'
        'model.score(["..."])  # a list of (log-probability, number of tokens)',
        "`run.py` prints each text with its continuation, one per line (with `--nbest N`, up to "
        "N lines for each text). With `--score`, it prints the natural log-probability of each "
        "line, and `perplexity` with its value at the end.",
        "`--beam`, `--lenpen`, `--max-len-b` (which counts the tokens of the text too); "
        "`--sampling` with `--topk`, `--topp`, `--temperature` and `--seed`; `--score` with "
        "`--block`",
    ),
    NAMES[Kind.CLASSIFICATION]: (
        "python run.py < text",
        "model.classify([{example}])  # a list of (label, probabilities)",
        "`run.py` prints one line for each line of the input, without a header. Its columns are "
        "separated by tabs: the most probable class, and the probability of each class, in this "
        "order: {classes}. The line of an empty text is empty.",
        "`--batch-size`",
    ),
}
README = """# {architecture}

A {noun} with {parameters:,} parameters{source}. {size:.1f} MB, {symbols:,} symbols.

```bash
pip install {packages}
{commands}
```

{input} in UTF-8. The model takes up to {longest:,} tokens; {longer}.
{output}

Options: {options}; `--threads`. `python run.py --help` explains all of them.

In Python, from this folder:

```python
from run import load

model = load()
{call}
```

The programs compute in float32 on a CPU. They were exported with {versions}; other versions
usually run them too. `model.json` describes the model and how its text is tokenised. Check the
licence of the training data, and pass it on.
"""


def describe(trained: Trained, arch: str, kind: Kind) -> dict[str, Any]:
    """Return the content of ``model.json``, except the programs and the score.

    Raises:
        FileNotFoundError: a file of the data's preparation is missing.
    """
    model, task, cfg = trained
    words, options = task.source_dictionary, cfg.task
    about: dict[str, Any] = {
        "kind": NAMES[kind],
        "architecture": arch,
        "family": family_of(arch),
        "paper": paper_of(arch),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "versions": {name: number for name in MAKERS if (number := find_version(name))},
        "pad": words.pad(),
        "unk": words.unk(),
        "bos": words.bos(),
        "eos": words.eos(),
        "symbols": words.symbols,
        "text": describe_text(task, options, kind),
    }
    if kind is Kind.CLASSIFICATION:
        return about | {
            "classes": classes_of(task),
            "towers": getattr(task, "towers", 1),
            "separator": getattr(options, "separator_token", None),
            "start": add_special_tokens(task, [], False).tolist(),
            "end": [words.eos()] if appends_eos(task) else [],
            "longest": min(task.max_positions(), model.max_positions()),
            "truncates": hasattr(task, "towers") or allows_truncation(options),
        }
    positions: Any = utils.resolve_max_positions(task.max_positions(), model.max_positions())
    about["start"] = words.bos() if getattr(options, "add_bos_token", False) else words.eos()
    about["longest_target"] = model.max_decoder_positions()
    if kind is Kind.LANGUAGE_MODEL:
        separate = options.sample_break_mode in ("eos", "complete", "complete_doc")
        block = 0 if separate else options.tokens_per_sample
        return about | {"longest": positions, "block": block}
    about |= {"longest": positions[0], "left_pad": bool(options.left_pad_source)}
    if words.symbols != task.target_dictionary.symbols:
        about |= {"symbols": task.target_dictionary.symbols, "source_symbols": words.symbols}
    return about


def describe_text(task, options: Any, kind: Kind) -> dict[str, Any]:
    """Describe how a text becomes symbols.

    The result lists the steps that apply, in this order: ``moses``, the languages and options of
    Moses' tokeniser; ``tokenizer``, a tokeniser of the library tokenizers; ``replace``, a regular
    expression and the replacement of its matches; ``bytes``, the symbol of each byte; ``bpe``,
    codes of subword-nmt. Afterwards, text between spaces is a symbol.

    Raises:
        FileNotFoundError: a file of the data's preparation is missing.
    """
    data = getattr(options, "data", None)
    if kind is Kind.CLASSIFICATION:
        tokenize(task, "")  # raises an error if a file is missing
        vocabulary, codes = Path(data or "", "vocab.txt"), Path(data or "", "code")
        if not data:
            return {"replace": ["", " "]}  # each character is a symbol
        if vocabulary.exists():
            return {"tokenizer": load_tokenizer(vocabulary).to_str()}
        if codes.exists():
            cut = [LONG_WORD.pattern, r"\g<0> "]
            return {"replace": cut, "bpe": codes.read_text(encoding="utf-8")}
        if SPACE_ESCAPE in task.source_dictionary:
            table = (BYTE_TO_BCHAR[byte] for byte in range(256))
            escaped = [SPACE_ESCAPE if symbol == SPACE else symbol for symbol in table]
            return {"replace": [r"\s+", " "], "bytes": escaped}
        if getattr(options, "lra_task", "") == "listops" and "(" not in task.source_dictionary:
            return {"replace": [r"(?<!\S)[()](?!\S)", ""]}
        return {}
    text: dict[str, Any] = {}
    recipe = Path(data or "", MADE_FROM)
    if kind is Kind.TRANSLATION and recipe.exists():
        # This call raises an error if the recipe is faulty.
        read_raw_pairs(str(data), options.source_lang, options.target_lang)
        preparation = json.loads(recipe.read_text(encoding="utf-8"))
        text["moses"] = {
            "source": options.source_lang,
            "target": options.target_lang,
            **{name: preparation[name] for name in ("aggressive_hyphens", "lowercase")},
        }
    if codes := find_codes(data or "").get("bpe_codes"):
        text["bpe"] = Path(codes).read_text(encoding="utf-8")
    return text


def find_version(name: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def write_files(about: dict[str, Any], folder: Path) -> None:
    """Write all files except the programs."""
    shutil.copyfile(run.__file__, folder / "run.py")
    if "moses" in about["text"]:
        shutil.copyfile(detokenize.__file__, folder / "detokenize.py")
    files = [folder / program["file"] for program in about["programs"].values()]
    content = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
    (folder / "model.json").write_text(content, encoding="utf-8")
    packages = ["torch" if files[0].suffix == ".pt2" else "onnxruntime", "numpy"]
    packages += [package for key, package in NEEDED.items() if key in about["text"]]
    commands, call, output, options = COMMANDS[about["kind"]]
    text, example = "Give one text per line", '"..."'
    if about.get("towers") == 2 or about.get("separator") is not None:
        either = "" if about.get("towers") == 2 else "one text per line, or "
        text = f"Give {either}two texts per line, with a tab between them,"
        example = '("...", "...")'
    versions = about.get("versions", {})
    sizes = {
        "input": text,
        "call": call.format(example=example),
        "output": output.format(
            classes=", ".join(f"`{name}`" for name in about.get("classes", []))
        ),
        "options": options,
        "longest": about.get("longest", 0),
        "longer": "it truncates longer texts"
        if about.get("truncates")
        else "`--truncate` truncates longer texts",
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "source": "" if about["paper"] in (BASELINES, OWN) else f": {about['paper']}",
        "size": sum(file.stat().st_size for file in files) / 1e6,
        "symbols": len(about["symbols"]),
    }
    readme = README.format(
        **{**about, **sizes},
        noun=run.NOUNS[about["kind"]],
        packages=" ".join(packages),
        commands=commands,
    )
    (folder / "README.md").write_text(readme, encoding="utf-8")
