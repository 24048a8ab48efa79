"""Programs of torch alone: they compute what the models do, for texts of any number and length."""

import json
import shutil
import sys
from multiprocessing import Pipe
from pathlib import Path

import pytest
import torch
from fairseq.models import FairseqEncoderDecoderModel
from helpers import EOS, HEAD, PAD
from make_checkpoints import PATHS
from tokenizers import Tokenizer

from fairseq_odeformers import load_classifier
from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.inference import program
from fairseq_odeformers.text.word_pieces import SPECIAL
from odeformers.__main__ import main
from odeformers.processes import FORK

OVERRIDES = {  # by family
    "node": {"ode_method": "euler", "ode_steps": 2, "adaptivity": "batch"},
    "diffeq": {"eval_steps": 1},
}
# A model of each kind; all others, as slow tests, since torch takes seconds for each.
QUICK = ("node_transformer", "macaron_classifier.pairs", "ode_transformer")
NAMES = [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)
    for name in PATHS
    if "_lm" not in name
]


@pytest.fixture
def load(data, checkpoint, monkeypatch):
    """Returns the model and the task of a checkpoint, with *overrides* of its options."""
    monkeypatch.chdir(data)

    def load(name, **overrides):
        model, task, _ = Checkpoint.read(str(checkpoint(name))).build(**overrides)
        return model.eval(), task

    return load


def texts(batch, length):
    """Tokens (B, T), with padding in all texts but the first; nothing else if T is 1."""
    tokens = torch.randint(4, 24, (batch, length))
    tokens[:, -1] = EOS
    tokens[1:, -1] = PAD
    return tokens


def expected(model, *tokens):
    """The output of fairseq's model for these texts."""
    lengths = [text.ne(PAD).sum(1) for text in tokens]
    if isinstance(model, FairseqEncoderDecoderModel):
        return model.encoder(tokens[0], lengths[0])["encoder_out"][0].transpose(0, 1)
    head = HEAD if HEAD in model.classification_heads else None
    pair = {"src_tokens1": tokens[1], "src_lengths1": lengths[1]} if len(tokens) > 1 else {}
    out, _ = model(
        tokens[0], src_lengths=lengths[0], features_only=True, classification_head_name=head, **pair
    )
    return out if head is None else out.softmax(-1)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_computes_what_its_model_computes(name, load, tmp_path):
    """The program consists of torch's operations and takes texts of any number and length.

    Texts longer than the model's limit are refused.
    """
    model, task = load(name, **OVERRIDES.get(name.partition("_")[0], {}))
    stack = getattr(model.encoder, "sentence_encoder", model.encoder)
    stack.layers = stack.layers[:1]  # torch's time grows with the number of operations
    program.write_program(model, task, tmp_path / "model.pt2")
    extra = {"description.json": ""}
    exported = torch.export.load(tmp_path / "model.pt2", extra_files=extra)
    longest = json.loads(extra["description.json"])["longest"]
    calls = [node.target for node in exported.graph.nodes if node.op == "call_function"]
    assert {getattr(call, "namespace", "aten") for call in calls} <= {"aten", "higher_order"}
    run = exported.module()
    torch.manual_seed(0)
    with torch.no_grad():
        for batch, length in ((1, 1), (1, 3), (2, 1), (3, min(longest, 40))):
            tokens = [texts(batch, length) for _ in range(getattr(model, "towers", 1))]
            actual = run(*tokens)
            assert torch.allclose(actual, expected(model, *tokens), atol=1e-5)
    too_long = [texts(1, longest + 1) for _ in tokens]
    with pytest.raises((AssertionError, RuntimeError), match=f"<= {longest}"):
        run(*too_long)


PACKAGES = ("fairseq", "fairseq_cli", "fairseq_odeformers", "odeformers", "omegaconf")


def classify(path, texts, sender):
    """Classify texts by a program where fairseq cannot be imported, and send the output."""
    for name in [*sys.modules, *PACKAGES]:
        if name.partition(".")[0] in PACKAGES:
            sys.modules[name] = None
    extra = {"description.json": ""}
    exported = torch.export.load(path, extra_files=extra).module()
    description = json.loads(extra["description.json"])
    tokenizer = Tokenizer.from_str(description["tokenizer"])
    numbers = {symbol: number for number, symbol in enumerate(description["vocabulary"])}
    for text in texts:
        first, *second = (
            [numbers.get(piece, description["unknown"]) for piece in tokenizer.encode(part).tokens]
            for part in ([text] if isinstance(text, str) else text)
        )
        for other in second:
            first += [*description["end"], description["separator"], *other]
        tokens = torch.tensor([description["start"] + first + description["end"]])
        sender.send(dict(zip(description["classes"], exported(tokens)[0].tolist())))


def test_a_program_classifies_without_fairseq(data, checkpoint, tmp_path, monkeypatch):
    """The file suffices for word pieces, unknown pieces and pairs joined by special tokens."""
    monkeypatch.chdir(shutil.copytree(data, tmp_path / "data"))
    pieces = [*SPECIAL, "!", *map(str, range(20)), *(f"##{digit}" for digit in range(10))]
    Path("words", "vocab.txt").write_text("\n".join(pieces) + "\n")
    texts = ["3 1 2", "12! 3", ("3 1", "4 123"), ("4 123", "3 1")]
    path, out = str(checkpoint("transject")), str(tmp_path / "model.pt2")
    tokens = {"init_token": 5, "separator_token": 6}
    main(["export", path, out, "--data", "words", "--model-overrides", str(tokens)])
    receiver, sender = Pipe(duplex=False)
    child = FORK.Process(target=classify, args=(out, texts, sender))
    child.start()
    sender.close()
    expected = load_classifier(path, "words", **tokens).classify(texts)
    assert len({result.probabilities["0"] for result in expected}) == len(texts)
    for result in expected:
        assert receiver.recv() == pytest.approx(result.probabilities)


@pytest.mark.parametrize(
    "name, message",
    [
        ("node_transformer", "adaptive steps depend on the data.*'ode_steps': 8"),
        ("node_transformer_mt", "adaptive steps depend on the data.*'ode_steps': 8"),
        ("transject_lm", "model.pt2: a language model has no encoder .* --to onnx"),
    ],
)
def test_models_that_cannot_be_exported_are_refused(name, message, load, tmp_path):
    model, task = load(name)
    with pytest.raises(ValueError, match=message):
        program.write_program(model, task, tmp_path / "model.pt2")
