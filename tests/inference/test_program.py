"""Programs of torch alone: they compute what the models do, for texts of any number and length."""

import gzip
import json
import subprocess
import sys

import pytest
import torch
from fairseq.models import FairseqEncoderDecoderModel
from helpers import EOS, HEAD, PAD
from make_checkpoints import PATHS, make_dictionary

from fairseq_odeformers import load_classifier
from fairseq_odeformers.cli import main
from fairseq_odeformers.inference import program
from fairseq_odeformers.inference.loading import load_model

GRID = {"ode_method": "rk4", "ode_steps": 3, "adaptivity": "batch"}
# A model of each family; all others, as slow tests.
QUICK = (
    "macaron_bert",
    "macaron_transformer",
    "node_transformer.grid",
    "transevolve_classifier",
    "transformer_classifier_orthogonal",
    "transject.pairs",
    "transject_random",
)
NAMES = [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)
    for name in PATHS
    if "_lm" not in name
]


@pytest.fixture
def load(data, tmp_path, monkeypatch):
    """Returns the path of a checkpoint, and what it holds with *overrides* of its options."""
    monkeypatch.chdir(data)

    def load(name, **overrides):
        path = tmp_path / "checkpoint.pt"
        path.write_bytes(gzip.decompress(PATHS[name].read_bytes()))
        model, _, task = load_model(str(path), overrides)
        return path, model.eval(), task

    return load


def texts(batch, length):
    """Tokens (B, T), with padding in all texts but the first; nothing else if T is 1."""
    tokens = torch.randint(4, 24, (batch, length))
    tokens[:, -1] = EOS
    tokens[1:, -1] = PAD
    return tokens


def expected(model, *tokens):
    """What fairseq makes of them."""
    lengths = [text.ne(PAD).sum(1) for text in tokens]
    if isinstance(model, FairseqEncoderDecoderModel):
        return model.encoder(tokens[0], lengths[0])["encoder_out"][0].transpose(0, 1)
    head = HEAD if HEAD in model.classification_heads else None
    pair = {"src_tokens1": tokens[1], "src_lengths1": lengths[1]} if len(tokens) > 1 else {}
    out, _ = model(
        tokens[0],
        src_lengths=lengths[0],
        features_only=True,
        classification_head_name=head,
        **pair,
    )
    return out if head is None else out.softmax(-1)


@pytest.mark.parametrize("name", NAMES)
def test_computes_what_the_model_does(name, load, tmp_path):
    """In operations that torch has, so that nothing else need be installed; of any size."""
    overrides = {} if not name.startswith("node_") or name.endswith(".grid") else GRID
    _, model, task = load(name, **overrides)
    program.write_program(model, task, tmp_path / "model.pt2")
    extra = {"description.json": ""}
    exported = torch.export.load(tmp_path / "model.pt2", extra_files=extra)
    longest = json.loads(extra["description.json"])["longest"]
    calls = [node.target for node in exported.graph.nodes if node.op == "call_function"]
    assert {getattr(call, "namespace", "aten") for call in calls} <= {"aten", "higher_order"}
    torch.manual_seed(0)
    with torch.no_grad():
        for batch, length in ((1, 1), (1, 3), (2, 1), (3, min(longest, 40))):
            tokens = [texts(batch, length) for _ in range(getattr(model, "towers", 1))]
            found = exported.module()(*tokens)
            assert torch.allclose(found, expected(model, *tokens), atol=1e-5)


USE = """
import json, sys
sys.modules.update(dict.fromkeys(("fairseq", "fairseq_odeformers", "omegaconf"), None))
import torch
extra = {"description.json": ""}
program = torch.export.load(sys.argv[1], extra_files=extra).module()
found = json.loads(extra["description.json"])
words = [found["vocabulary"].index(word) for word in sys.argv[2].split()]
tokens = torch.tensor([found["start"] + words + found["end"]])
print(json.dumps(dict(zip(found["classes"], program(tokens)[0].tolist()))))
"""


def test_without_fairseq(data, load, tmp_path, monkeypatch, capsys):
    """The command's file classifies a text in a process that cannot import fairseq."""
    path, *_ = load("transject")
    out = tmp_path / "model.pt2"
    main(["export", str(path), str(out), "--data", "words"])
    assert f"wrote {out}" in capsys.readouterr().out
    line = [sys.executable, "-c", USE, str(out), "3 1 2"]
    found = json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)
    assert found == pytest.approx(load_classifier(path, "words").classify("3 1 2").probabilities)


@pytest.mark.parametrize("name", ["node_transformer", "node_transformer_mt"])
def test_adaptive_steps_are_refused(name, load, tmp_path):
    _, model, task = load(name)
    with pytest.raises(ValueError, match="adaptive steps depend on the data.*'ode_steps': 8"):
        program.write_program(model, task, tmp_path / "model.pt2")


def test_language_models_are_refused(load, tmp_path):
    _, model, task = load("transject_lm")
    with pytest.raises(ValueError, match="a language model has no encoder"):
        program.write_program(model, task, tmp_path / "model.pt2")


def test_bad_options_are_named(data, load, tmp_path, monkeypatch, capsys):
    path, *_ = load("transject")
    for options, message in (
        (["--model-overrides", "{'a': "], "{'a':  is not a dictionary, such as"),
        (["--model-overrides", "{'ode_step': 3}"], "checkpoint.pt has no option ode_step"),
        (["--data", "absent"], "absent"),
    ):
        arguments = ["export", str(path), str(tmp_path / "m.pt2"), *options]
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert message in f"{stop.value.code} {capsys.readouterr().err}"
    arguments = ["export", str(path), str(tmp_path / "absent" / "m.pt2")]
    with pytest.raises(SystemExit, match="m.pt2: there is no folder"):
        main(arguments)


def test_other_classes_are_refused(load):
    """As ``predict`` refuses them."""
    path, *_ = load("transject")
    for name, size in (("dict.txt", 20), ("input0/dict.txt", 20), ("label/dict.txt", 4)):
        make_dictionary(size).save(f"others/{name}")
    with pytest.raises(ValueError, match="was trained on 3 classes, but others has"):
        program.load(str(path), "others", {"num_classes": 4})


def test_longer_texts_are_refused(load, tmp_path):
    _, model, task = load("transject")
    program.write_program(model, task, tmp_path / "model.pt2")
    exported = torch.export.load(tmp_path / "model.pt2").module()
    longest = model.max_positions()
    with pytest.raises((AssertionError, RuntimeError), match=f"<= {longest}"):
        exported(texts(1, longest + 1))
