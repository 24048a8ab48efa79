"""Exported folders do what the loaders do, where neither fairseq nor this package is installed."""

import gzip
import json
import math
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from make_checkpoints import PATHS

from fairseq_odeformers import load_classifier, load_language_model, load_translator
from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.inference import deploy, description, run
from fairseq_odeformers.registry import BASELINES, OWN
from odeformers.export import main

GRID = {"ode_method": "rk4", "ode_steps": 2}
ADAPTIVE = ("node_transformer", "node_transformer.residual", "node_transformer_mt")
JOINED = "macaron_classifier that joins pairs"
# By name: the checkpoint and the options that change.
MODELS = {
    **{name: (name, GRID if name in ADAPTIVE else {}) for name in PATHS},
    JOINED: ("macaron_classifier", {"separator_token": 6}),
}
# One of each kind of model; all others, as slow tests, since torch takes seconds for each.
QUICK = [
    ("macaron_transformer", "torch"),
    ("macaron_transformer_lm", "onnx"),
    ("macaron_classifier", "torch"),
    (JOINED, "torch"),
]
EXPORTS = [
    pytest.param(name, form, marks=[] if (name, form) in QUICK else pytest.mark.slow)
    for name in MODELS
    if name != "macaron_bert"  # it has no classes
    for form in ("torch", "onnx")
]
TABS = r"\(tabs separate texts\)"
TEXTS = ["3 1 2", "7", "", "2 5 5 19 4 0 11 3", "30 3"]
SEARCHES = [  # options of fairseq-generate
    {"beam": 4, "max_len_b": 8},
    {"beam": 1, "max_len_b": 6, "temperature": 1.7},
    {"beam": 3, "max_len_b": 9, "lenpen": 0.2, "min_len": 4},
    {"beam": 23, "max_len_b": 5, "lenpen": 1.6, "unkpen": 1.0},  # nearly all symbols
]
# Modules that neither form needs, made unavailable before a file runs as a program.
BLOCK = """
import runpy, sys
for name in {blocked}:
    sys.modules[name] = None
sys.argv = {line}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
PACKAGES = ["fairseq", "fairseq_cli", "fairseq_odeformers", "odeformers", "omegaconf", "hydra"]


@pytest.fixture(scope="module")
def prepared(training_data, tmp_path_factory):
    """The folder of data sets; sentences to translate were in Moses' tokens and lower case."""
    folder = shutil.copytree(training_data, tmp_path_factory.mktemp("prepared") / "data")
    recipe = {"langs": ["de", "en"], "lowercase": True, "aggressive_hyphens": False}
    (folder / "words/recipe.json").write_text(json.dumps(recipe))
    return folder


@pytest.fixture(scope="module")
def exported():
    """The paths that ``export`` has returned, by its arguments."""
    return {}


@pytest.fixture
def export(prepared, exported, tmp_path_factory, monkeypatch):
    """Exports a checkpoint by the command, once; returns the paths of checkpoint and folder."""
    monkeypatch.chdir(prepared)

    def export(name, form):
        if form == "onnx":
            pytest.importorskip("onnxscript")
            pytest.importorskip("onnxruntime")
        if (name, form) not in exported:
            saved, options = MODELS[name]
            path = tmp_path_factory.mktemp("export") / "checkpoint.pt"
            path.write_bytes(gzip.decompress(PATHS[saved].read_bytes()))
            words = ["--to", form, "--model-overrides", str(options)]
            main([str(path), str(path.parent / "out"), *words])
            exported[name, form] = path, path.parent / "out"
        return exported[name, form]

    return export


def run_outside(out, *words, text="", refused=False):
    """The lines that ``run.py`` prints in a process without fairseq and this package.

    Its warnings go to this process's standard error.

    Args:
        refused: whether it ends with status 2 and an error; the lines of the error are returned.
    """
    blocked = [*PACKAGES, *(["torch"] if list(out.glob("*.onnx")) else [])]
    program = BLOCK.format(blocked=blocked, line=[str(out / "run.py"), *map(str, words)])
    environment = {name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}
    result = subprocess.run(
        [sys.executable, "-c", program],
        input=text if isinstance(text, bytes) else text.encode(),
        capture_output=True,
        env=environment,
    )
    assert result.returncode == (2 if refused else 0), result.stderr.decode()
    if refused:
        assert not result.stdout
        return result.stderr.decode().splitlines()
    sys.stderr.write(result.stderr.decode())
    return result.stdout.decode().split("\n")[:-1]


def test_classes_are_printed_as_utf8_in_any_locale(export, tmp_path, monkeypatch):
    _, out = export("macaron_classifier", "torch")
    out = shutil.copytree(out, tmp_path / "out")
    about = json.loads((out / "model.json").read_text())
    about["classes"] = [f"ü{name}" for name in about["classes"]]
    (out / "model.json").write_text(json.dumps(about))
    for name, value in {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    [line] = run_outside(out, text="3 1 2\n")
    assert line.split("\t")[0] in about["classes"]


def assert_same_hypotheses(model, product, options):
    """All hypotheses of a beam, with their scores, are fairseq's; equal scores in any order."""
    found = product.generate(TEXTS, tokenized=True, nbest=options["beam"], **options)
    for text, hypotheses in zip(TEXTS, found):
        if not text and product.about["kind"] == "translation":
            assert hypotheses == [(0.0, "")]
            continue
        expected = model.generate([model.encode(text)], **options)[0]
        scores = np.array([float(each["score"]) for each in expected])
        assert scores == pytest.approx(np.array([score for score, _ in hypotheses]), abs=1e-4)
        for score, each, (_, found) in zip(scores, expected, hypotheses):
            if (abs(scores - score) < 1e-4).sum() == 1:
                assert model.decode(each["tokens"]) == found


@pytest.mark.parametrize("name, form", EXPORTS)
def test_an_export_computes_what_the_loader_computes(name, form, export):
    path, out = export(name, form)
    product = run.load(out)
    kind, options = product.about["kind"], MODELS[name][1]
    if kind == "translation":
        translator = load_translator(path, **options)
        for search in SEARCHES:
            assert_same_hypotheses(translator, product, search)
    elif kind == "language model":
        model = load_language_model(path, **options)
        for search in SEARCHES:
            assert_same_hypotheses(model, product, {**search, "max_len_b": 12})
        expected = [float(result["positional_scores"].sum()) for result in model.score(TEXTS[:2])]
        ends = [end_of(model, text) for text in TEXTS[:2]]
        short = {"max_len_b": 12}
        assert product.sample(TEXTS[:2], **short) == model.sample(TEXTS[:2], **short)
        cold = product.sample(TEXTS[:2], sampling=True, temperature=1e-6, **short)
        assert cold == product.sample(TEXTS[:2], **short), "the most probable tokens"
        actual = [score for score, _ in product.score(TEXTS[:2])]
        assert actual == pytest.approx([sum(pair) for pair in zip(expected, ends)], abs=1e-4)
    else:
        classifier = load_classifier(path, **options)
        texts: list = [] if classifier.towers == 2 else [*TEXTS]
        if name == JOINED or not texts:
            texts += zip(TEXTS, TEXTS[1:] + TEXTS[:1])
        expected = classifier.classify(texts)
        for found, result in zip(product.classify(texts), expected):
            assert found.label == result.label
            assert found.probabilities == pytest.approx(result.probabilities, abs=1e-4)
        rows = [text if isinstance(text, str) else "\t".join(text) for text in texts]
        printed = run_outside(out, text="".join(f"{row}\n" for row in rows))
        for line, (label, shares) in zip(printed, expected, strict=True):
            actual, *numbers = line.split("\t")
            assert (actual, [*map(float, numbers)]) == (
                label,
                pytest.approx([*shares.values()], abs=1e-4),
            )


@torch.no_grad()
def end_of(model, text):
    """The log-probability of the end of sentence after a text, which fairseq's score() omits."""
    tokens = torch.cat([model.encode(text)[-1:], model.encode(text)[:-1]]).unsqueeze(0)
    (lm,) = model.models
    return float(lm.get_normalized_probs(lm(tokens), log_probs=True)[0, -1, model.tgt_dict.eos()])


def test_methods_take_a_text_or_a_list_of_texts(export):
    """Every method of an exported model takes both, as the loaders' methods do."""
    translator, lm, classifier = (run.load(export(*each)[1]) for each in QUICK[:3])
    short = {"max_len_b": 6}
    for method, options in (
        (partial(translator.translate, tokenized=True), short),
        (partial(translator.generate, tokenized=True, nbest=2), short),
        (lm.sample, short),
        (lm.score, {}),
        (classifier.classify, {}),
    ):
        assert [method("3 1 2", **options)] == method(["3 1 2"], **options)
        assert method(iter(["3 1 2", "7"]), **options) == method(["3 1 2", "7"], **options)
        assert method([]) == []
    with pytest.raises(ValueError, match="^nbest 2: .* use generate"):
        translator.translate("3 1 2", nbest=2)


class Frame:
    """A table, like pandas': its iteration yields the names of columns."""

    columns = ("a", "b")

    def __iter__(self):
        return iter(self.columns)


NO_TEXTS = [
    ({"a": ["1"]}, "^a dict of 'a': give the texts of one of its columns$"),
    (Frame(), "^a Frame of 'a', 'b': give the texts of one of its columns$"),
    ({"1"}, "^{'1'}: give a text or a list of texts$"),
    (None, "^None: give a text or a list of texts$"),
    (b"1", "^b'1': give a text or a list of texts$"),
    (np.array("1"), r"^array\('1', .*: give a text or a list of texts$"),
    (["1", None], "^text 2 of 2: None is not a string; pass a str$"),
    ([5], "^text 1 of 1: 5 is not a string; pass a str$"),
    ([b"1"], "^text 1 of 1: b'1' is not a string; pass a str$"),
    ([{"a": "1"}], "^text 1 of 1: {'a': '1'} is not a string; pass a str$"),
    (["1", "\ud800"], r"^text 2 of 2: '\\ud800' is not a valid character; decode the text with"),
    ("\ud800", "^text 1 of 1: .* is not a valid character; decode the text with"),
]
METHODS = [(0, "translate"), (0, "generate"), (1, "score"), (1, "sample"), (2, "classify")]
NO_OPTIONS = [
    (0, "translate", {"beam": "x"}, "^beam 'x': give a whole number from 1$"),
    (0, "translate", {"beam": 2.0}, "^beam 2.0: give a whole number from 1$"),
    (0, "generate", {"nbest": True}, "^nbest True: give a whole number from 1 to 10000$"),
    (0, "generate", {"sampling": True, "nbest": 10**12}, "^nbest 10{12}: give .* from 1 to 10000$"),
    (0, "translate", {"lenpn": 1}, r"^there is no option lenpn; did you mean lenpen\?$"),
    (0, "translate", {"num_beams": 1}, r"^there is no option num_beams; did you mean beam\?$"),
    (0, "translate", {"xyz": 1}, "^there is no option xyz; the options are beam, tokenized, "),
    (0, "translate", {"lenpen": math.nan}, "^lenpen nan: give a number from -50 to 50$"),
    (0, "translate", {"max_len_b": None}, "^max_len_b None: give a whole number from "),
    (0, "translate", {"max_len_b": 0}, "^text 1: min_len 1, more than 0, the limit by max_len_a"),
    (0, "translate", {"tokenized": "no"}, "^tokenized 'no': give True or False$"),
    (1, "sample", {"sampling_topk": 5}, r"^there is no option sampling_topk; .* topk\?$"),
    (1, "sample", {"sampling": True, "topk": -1}, "^topk -1: give a whole number from 0$"),
    (1, "sample", {"sampling": True, "topp": 0}, "^topp 0: give a number from 1e-06 to 1$"),
    (1, "sample", {"sampling": True, "topp": 1.5}, "^topp 1.5: give a number from 1e-06 to 1$"),
    *(
        (1, "sample", {"temperature": value}, f"^temperature {value}: give a number from 1e-06 ")
        for value in (0, -1, 1e-40, math.inf, math.nan)
    ),
    (1, "sample", {"topk": 5}, "^topk and topp are for sampling; add sampling=True "),
    (1, "sample", {"seed": -1}, "^seed -1: give a whole number from 0$"),
    (1, "score", {"block": -1}, "^block -1: give a whole number from 0$"),
    (1, "score", {"beam": 2}, "^there is no option beam; the options are block, batch_size, "),
    (2, "classify", {"batch_size": 0}, "^batch_size 0: give a whole number from 1$"),
]


@pytest.mark.parametrize("model, method", METHODS)
@pytest.mark.parametrize("texts, message", NO_TEXTS)
def test_what_is_no_text_is_named(model, method, texts, message, export):
    with pytest.raises((TypeError, ValueError), match=message):
        getattr(run.load(export(*QUICK[model])[1]), method)(texts)


@pytest.mark.parametrize("model, method, options, message", NO_OPTIONS)
def test_a_wrong_option_in_python_is_named(model, method, options, message, export):
    with pytest.raises((TypeError, ValueError), match=message):
        getattr(run.load(export(*QUICK[model])[1]), method)(["1 2"], **options)


def test_a_number_of_threads_is_whole(export):
    with pytest.raises(ValueError, match="^threads 'x': give a whole number from 1$"):
        run.load(export(*QUICK[0])[1], threads="x")


@pytest.mark.parametrize(
    "model, method, message",
    [
        (0, "score", "score is for language models; this model is a translator"),
        (0, "classify", "classify is for classifiers; this model is a translator"),
        (1, "translate", "translate is for translators; this model is a language model"),
        (2, "sample", "sample is for translators and language models; this .* a classifier"),
        (2, "generate", "generate is for translators and language models; this .* a classifier"),
    ],
)
def test_a_method_of_another_kind_of_model_is_refused(model, method, message, export):
    with pytest.raises(ValueError, match=f"^{message}$"):
        getattr(run.load(export(*QUICK[model])[1]), method)("1")


def test_pairs_are_for_classifiers_of_pairs(export):
    pair = [("1", "2")]
    translator, lm, single, joined = (run.load(export(*each)[1]) for each in QUICK)
    for method in (translator.translate, lm.score, lm.sample):
        with pytest.raises(TypeError, match=r"^text 1 of 1: \('1', '2'\) is not a string; pass"):
            method(pair)
    with pytest.raises(ValueError, match="^text 1: 2 texts instead of 1; give a str for each text"):
        single.classify(pair)
    with pytest.raises(ValueError, match="^text 1: 3 texts instead of 1 or 2; give pairs "):
        joined.classify([("1", "2", "3")])
    with pytest.raises(TypeError, match="^text 1 of 1: None is not a string"):
        joined.classify([("1", None)])
    assert joined.classify(np.array(pair)) == joined.classify(pair)


@pytest.mark.parametrize(
    "model, words, text, message",
    [
        (2, "--beam 9 --sampling", "1", "--beam --sampling: not for classification; leave it out"),
        (2, "--score", "1", "--score is for language models; this model is a classifier"),
        (0, "--lenpen x", "1", "argument --lenpen: invalid float value: 'x' .see run.py --help"),
        (0, "--lenpn 1", "1", "unrecognized arguments: --lenpn 1 .see run.py --help"),
        (0, "--beam 0", "1", "beam 0: give a whole number from 1"),
        (0, "--block 3", "1", "--block: not for translation; leave it out"),
        (1, "--score --beam 3", "1", "--beam: not for --score; leave it out"),
        (
            0,
            "",
            "1\n\n" + "1 " * 2000,
            "line 3 has 2001 tokens, more than the model.s 1.*--truncate ",
        ),
        (1, "", "1\n" + "1 " * 2000, "line 2 has 2001 tokens, more than the model.s .*--truncate "),
        (2, "", "1\n" + "1 " * 2000, "line 2 has 2001 tokens, more than the model.s .*--truncate "),
        (2, "", "1\n1\t2", f"line 2: 2 texts instead of 1 {TABS}; give only the column "),
        (2, "", "1\n1\t", f"line 2: 2 texts instead of 1 {TABS}; give only the column "),
        (3, "", "1\n1\t\t2", f"line 2: 3 texts instead of 1 or 2 {TABS}; give two texts "),
        (
            1,
            "--max-len-b 2",
            "1\n1 2 3",
            "line 2 has 3 tokens, more than 2, the limit by max_len_a",
        ),
        (0, "", b"1\n\xf6 2\n", "standard input, line 2: not UTF-8 text; .* iconv -f windows-1252"),
        (
            2,
            "",
            gzip.compress(b"1\n", mtime=0),
            "standard input, line 1: not UTF-8 text; .* gzip -dc$",
        ),
        (
            2,
            "",
            "1\n".encode("utf-16"),
            "standard input, line 1: not UTF-8 text; .* iconv -f utf-16 ",
        ),
        (
            2,
            "",
            "1\n".encode("utf-16le"),
            "standard input, line 1: not UTF-8 .* iconv -f utf-16le ",
        ),
        (2, "", "1\r2\r", "standard input: lines end with carriage returns; convert it with tr "),
    ],
)
def test_bad_input_of_an_export_is_refused(model, words, text, message, export):
    """``run.py`` ends with an error of one line before it prints anything."""
    _, out = export(*QUICK[model])
    (line,) = run_outside(out, *words.split(), text=text, refused=True)
    assert re.match(f"run.py: {message}", line)


LACKS = "out lacks {}; copy the folder again, or export the model again"


@pytest.mark.parametrize(
    "model, name, content, message",
    [
        (0, "step.pt2", None, LACKS.format("step.pt2")),
        (2, "model.json", None, LACKS.format("model.json")),
        (0, "step.pt2", b"", "step.pt2 is damaged; copy the folder again"),
        (1, "begin.onnx", b"", "begin.onnx is damaged; copy the folder again"),
        *(
            (2, "model.json", text, "model.json is damaged .*; copy")
            for text in (b"{", b"{}", b"\xff")
        ),
    ],
)
def test_a_faulty_file_of_an_export_is_named(model, name, content, message, export, tmp_path):
    out = shutil.copytree(export(*QUICK[model])[1], tmp_path / "out")
    (out / name).unlink()
    if content is not None:
        (out / name).write_bytes(content)
    (line,) = run_outside(out, text="1\n", refused=True)
    assert re.match(f"run.py: .*{message}", line)


@pytest.mark.parametrize(
    "model, change, message",
    [
        (0, {"pad": "x"}, "pad is 'x', not int"),
        (0, {"pad": 10**6}, "pad is 1000000, not the number of a symbol, 0 to "),
        (0, {"kind": "x"}, "'x'"),
        (0, {"symbols": ["a", 3]}, r"symbols is \['a', 3\], not a list of str"),
        (0, {"programs": {}}, "'encoder'"),
        (0, {"longest_target": None}, "longest_target is None, not Real"),
        (2, {"text": {"replace": 3}}, "cannot unpack"),
        (2, {"classes": "012"}, "classes is '012'"),
        (2, {"separator": "x"}, "separator is 'x', not int or None"),
    ],
)
def test_an_entry_of_a_wrong_type_is_named(model, change, message, export, tmp_path):
    """``model.json`` may have been edited by hand."""
    out = shutil.copytree(export(*QUICK[model])[1], tmp_path / "out")
    about = json.loads((out / "model.json").read_text())
    (out / "model.json").write_text(json.dumps(about | change))
    (line,) = run_outside(out, text="1\n", refused=True)
    assert re.match(rf"run.py: .*model.json is damaged \(\w+: .*{message}.*\); copy the", line)


def test_a_program_that_does_not_fit_is_named(export, tmp_path):
    """It may have been replaced by another one, without a digest to recognise it by."""
    out = shutil.copytree(export(*QUICK[0])[1], tmp_path / "out")
    about = json.loads((out / "model.json").read_text())
    del about["programs"]["step"]["sha256"]
    (out / "model.json").write_text(json.dumps(about))
    shutil.copy(out / "encoder.pt2", out / "step.pt2")
    (line,) = run_outside(out, text="1\n", refused=True)
    assert re.match(r"run.py: .*step.pt2 does not fit model.json \(.*\); copy the folder", line)


def test_closed_standard_input_is_named(export):
    program = [sys.executable, str(export(*QUICK[2])[1] / "run.py")]
    result = subprocess.run(["sh", "-c", '"$0" "$@" <&-', *program], capture_output=True, text=True)
    assert result.returncode == 2 and not result.stdout
    assert re.fullmatch("run.py: standard input is closed; pass a text, .*\n", result.stderr)


@pytest.mark.parametrize("model, name", [(1, "numpy"), (1, "onnxruntime"), (0, "torch")])
def test_a_missing_library_is_named(model, name, export, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGES", [*PACKAGES, name])
    (line,) = run_outside(export(*QUICK[model])[1], text="1\n", refused=True)
    assert re.match(f"run.py: {name} cannot be imported .*; pip install {name}", line)


def test_an_export_ends_quietly_when_its_reader_does(export):
    out = export("macaron_classifier", "torch")[1]
    command = [sys.executable, str(out / "run.py")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        process.stdout.close()
        process.stdin.write(b"1 2\n" * 5000)
        process.stdin.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


@pytest.mark.parametrize("model", [0, 1, 2])
def test_a_long_line_is_truncated_on_request(model, export):
    _, out = export(*QUICK[model])
    few = ["--max-len-b", 6] * (model == 0)
    assert len(run_outside(out, "--truncate", *few, text="1\n" + "1 " * 2000)) == 2


def test_a_truncating_classifier_warns_once(export, tmp_path, capsys):
    _, out = export("macaron_classifier", "torch")
    out = shutil.copytree(out, tmp_path / "out")
    about = json.loads((out / "model.json").read_text())
    (out / "model.json").write_text(json.dumps({**about, "truncates": True}))
    text = "1\n" + ("1 " * 2000 + "\n") * 2
    assert len(run_outside(out, text=text)) == 3
    (line,) = capsys.readouterr().err.splitlines()
    fault = rf"line 2 has 2,001 tokens, and the model takes {about['longest']:,}: the others are"
    assert re.fullmatch(f"{fault} left out; later texts are not reported", line)
    run_outside(out, "--truncate", text=text)
    assert not capsys.readouterr().err


def test_no_text_has_no_perplexity(export):
    assert run_outside(export(*QUICK[1])[1], "--score") == []


def test_each_option_of_an_export_has_a_help(export):
    shown = "\n".join(run_outside(export(*QUICK[0])[1], "--help"))
    options = re.findall(r"^  (--[\w-]+)(?: N)?(.*(?:\n {8,}.*)?)", shown, re.M)
    assert {"--beam", "--seed", "--truncate", "--threads"} <= {name for name, _ in options}
    assert all(text.strip() for _, text in options)


def test_the_readme_names_a_paper(tmp_path, monkeypatch):
    """The README of an export names the model's paper, and none for baselines and plugins."""
    monkeypatch.setattr(description, "README", "{parameters}{source}.")
    about = {"kind": "classification", "parameters": 5, "text": {}, "symbols": []}
    (tmp_path / "classify.onnx").touch()
    about["programs"] = {"classify": {"file": "classify.onnx"}}
    for paper, expected in {
        BASELINES: "5.",
        OWN: "5.",
        "Model (A 2021)": "5: Model (A 2021).",
    }.items():
        description.write_files({**about, "paper": paper}, tmp_path)
        assert (tmp_path / "README.md").read_text() == expected


def test_an_export_translates_raw_text(export, prepared):
    """Raw text is tokenised and lowercased as the data were, and the output is detokenised."""
    path, out = export("macaron_transformer", "torch")
    texts = ["3, 1!", "", "7 2 5 Dr.", "\u200b", "12-3 'x'"]
    expected = load_translator(path, prepared / "words").translate(texts, beam=3, max_len_b=6)
    expected[3] = ""  # a blank text; fairseq translates its end of sentence
    lines = "".join(f"{text}\r\n" for text in texts)
    assert run_outside(out, "--beam", 3, "--max-len-b", 6, text=lines) == expected
    programs = {"encoder.pt2", "begin.pt2", "step.pt2"}
    files = {file.name for file in out.iterdir()}
    assert files == programs | {"run.py", "detokenize.py", "model.json", "README.md"}


@pytest.mark.parametrize("kept", [{"topk": 3}, {"topp": 0.5}, {}])
def test_samples_are_reproducible_by_seed(kept, export):
    _, out = export("macaron_transformer_lm", "onnx")
    (hypotheses,) = run.load(out).generate(["1 2"], sampling=True, seed=1, nbest=3, **kept)
    words = [word for name, value in kept.items() for word in (f"--{name}", value)]
    printed = run_outside(out, *"--sampling --seed 1 --nbest 3".split(), *words, text="1 2\n")
    assert printed == [text for _, text in hypotheses]
    assert all(text.startswith("1 2 ") for text in printed)
    assert len({*printed}) == 3
    samples = run.load(out).sample(["1 2"] * 6, sampling=True, seed=1, batch_size=1)
    assert len({*samples}) > 1, "batches do not repeat each other's random numbers"


@pytest.mark.parametrize(
    "topk, topp, allowed", [(0, 1.0, 4), (2, 1.0, 2), (0, 0.6, 2), (1, 1.0, 1)]
)
def test_samples_are_drawn_from_the_most_probable_symbols(topk, topp, allowed):
    shares = np.array([0.1, 0.4, 0.2, 0.3])
    logs = np.log(np.tile(shares, (4000, 1)))
    drawn = run.pick(logs, topk, topp, np.random.default_rng(0))[:, 0]
    best = np.argsort(-shares)[:allowed]
    expected = np.where(np.isin(np.arange(4), best), shares, 0)
    actual = np.bincount(drawn, minlength=4) / len(drawn)
    assert actual == pytest.approx(expected / expected.sum(), abs=0.03)


@pytest.mark.parametrize("form", ["torch", pytest.param("onnx", marks=pytest.mark.slow)])
def test_two_exports_have_identical_files(form, export, exported):
    name = "macaron_classifier"
    _, first = export(name, form)
    del exported[name, form]
    _, second = export(name, form)
    contents = ({file.name: file.read_bytes() for file in out.iterdir()} for out in (first, second))
    assert next(contents) == next(contents)


@pytest.mark.parametrize(
    "name, words, message",
    [
        ("node_transformer_mt", "--to torch", "adaptive steps depend on the data.*'ode_steps': 8"),
        ("macaron_bert", "--to torch", "takes models for translation, language model"),
        ("macaron_transformer", "--to torch --data nowhere", "nowhere: no such folder"),
        ("macaron_transformer", "--to weights --data words", "leave --data and"),
    ],
)
def test_a_refused_export_writes_nothing(
    name, words, message, checkpoint, data, tmp_path, monkeypatch
):
    monkeypatch.chdir(data)
    path = checkpoint(name)
    before = sorted(tmp_path.iterdir())
    with pytest.raises((ValueError, OSError), match=message):
        main([str(path), str(tmp_path / "out"), *words.split()])
    assert sorted(tmp_path.iterdir()) == before


def test_an_export_with_other_outputs_is_not_written(checkpoint, data, tmp_path, monkeypatch):
    """If the program's outputs differ from the model's, the export fails and leaves no folder."""
    monkeypatch.chdir(data)
    path, write = checkpoint("macaron_classifier"), deploy.write_function

    def write_other(function, file):
        torch.nn.init.normal_(next(function.module.parameters()))
        return write(function, file)

    monkeypatch.setattr(deploy, "write_function", write_other)
    with pytest.raises(ValueError, match="differ from the model by .*nothing was written"):
        main([str(path), str(tmp_path / "out"), "--to", "torch"])
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="in the way"):
        main([str(path), str(tmp_path), "--to", "torch"])


def test_perplexity_equals_fairseqs(export):
    """The text is divided into blocks as fairseq-eval-lm divides it."""
    path, out = export("macaron_transformer_lm", "onnx")
    model, task, _ = Checkpoint.read(str(path)).build()
    task.load_dataset("valid")
    data = task.dataset("valid")
    scores, lines, words = [], [], []
    for sample in (data.collater([data[index]]) for index in range(len(data))):
        probs = model.eval().get_normalized_probs(model(**sample["net_input"]), log_probs=True)
        target = sample["target"]
        scores += probs.gather(-1, target.unsqueeze(-1)).flatten().tolist()
        words += target.flatten().tolist()
    for word in words:
        if word == task.dictionary.eos():
            lines.append("\n")
        else:
            lines.append(f"{task.dictionary[word]} ")
    *each, last = run_outside(out, "--score", text="".join(lines))
    assert json.loads(Path(out, "model.json").read_text())["block"] == 16
    expected = math.exp(-sum(scores) / len(scores))
    assert float(last.split()[1]) == pytest.approx(expected, rel=1e-4)
    assert len(each) == words.count(task.dictionary.eos())
