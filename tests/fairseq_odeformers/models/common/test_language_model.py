"""Adaptive softmax in language models: its loss, and the commands that evaluate and generate."""

import math
import re

import pytest
import torch
from fairseq import options
from fairseq_cli import eval_lm
from helpers import EOS, make_model
from make_checkpoints import parsed, training_line
from script_helpers import IN_MAIN_THREAD, trainings

from fairseq_odeformers import load_language_model
from odeformers.check.command import check

LOSS = "--criterion adaptive_loss --ddp-backend legacy_ddp".split()
CUTOFFS = ["--adaptive-softmax-cutoff", "10,20"]
ARCHS = ["transject_lm", "transevolve_lm", "node_transformer_lm", "diffeq_transformer_lm"]
ADAPTIVE = [*ARCHS, "macaron_transformer_lm"]


@pytest.mark.parametrize("arch", ARCHS)
def test_adaptive_softmax_has_every_property_of_check(arch):
    assert [str(verdict) for verdict in check(arch, *CUTOFFS, *LOSS) if verdict.fault] == []


@pytest.mark.parametrize("arch", ADAPTIVE)
def test_probabilities_sum_to_one(arch):
    """The head has one score per symbol below the first cutoff and per tail."""
    model = make_model(arch, *CUTOFFS, *LOSS).eval()
    tokens = torch.randint(4, 50, (2, 7))
    probabilities = model.get_normalized_probs(model(tokens), log_probs=False)
    assert probabilities.shape == (2, 7, 50)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(2, 7))
    assert model.decoder.adaptive_softmax.head.weight.shape == (12, 16)
    assert getattr(model.decoder, "output_projection", None) is None


@pytest.fixture(scope="module")
def trained(training_data):
    """The folders of trained models, and the perplexities that ``fairseq-eval-lm`` logs."""
    folders = [training_data / "adaptive" / arch for arch in ADAPTIVE]
    lines = [
        [*training_line(arch), *CUTOFFS, *LOSS, "--save-dir", str(folder)]
        for arch, folder in zip(ADAPTIVE, folders)
    ]
    trainings([parsed(line) for line in lines], training_data)
    line = "words --cpu --task language_modeling --tokens-per-sample 16"
    line = [*line.split(), *IN_MAIN_THREAD, "--gen-subset", "valid", "--path"]
    configs = [
        parsed([*line, str(folder / "checkpoint_last.pt")], options.get_eval_lm_parser)
        for folder in folders
    ]
    logs = trainings(configs, training_data, main=eval_lm.main)
    perplexities = [float(re.search(r"Perplexity: ([\d.]+)", log)[1]) for log in logs]
    return dict(zip(ADAPTIVE, zip(folders, perplexities)))


@pytest.mark.parametrize("arch", ADAPTIVE)
def test_eval_lm_and_generation_use_all_probabilities(arch, trained, training_data):
    """The perplexity and the greedy continuation follow from the probabilities of all symbols."""
    folder, perplexity = trained[arch]
    hub = load_language_model(folder / "checkpoint_last.pt", training_data / "words")
    model = hub.models[0]

    def log_probs(tokens):
        with torch.no_grad():
            output = model(torch.tensor([tokens]))
        return model.get_normalized_probs(output, log_probs=True)[0]

    hub.task.load_dataset("valid")
    each = []
    for sample in hub.task.dataset("valid"):
        source, target = sample["source"].tolist(), sample["target"]
        each += log_probs(source).gather(1, target[:, None]).flatten().tolist()
    assert math.exp(-sum(each) / len(each)) == pytest.approx(perplexity, abs=0.006)

    expected = [EOS, *(hub.tgt_dict.index(word) for word in "3 5".split())]
    for _ in range(4):
        expected.append(int(log_probs(expected)[-1].argmax()))
        if expected[-1] == EOS:
            break
    words = [hub.tgt_dict[token] for token in expected[1:] if token != EOS]
    assert hub.sample("3 5", beam=1, max_len_b=6).split()[: len(words)] == words


@pytest.mark.parametrize("cutoffs", ["20,10", "0,10", "10,60", "ten"])
@pytest.mark.parametrize("arch", ["transject_lm", "macaron_transformer_lm"])
def test_cutoffs_beyond_the_dictionary_are_refused(arch, cutoffs):
    """The message names the cutoffs and the size of the dictionary."""
    with pytest.raises(ValueError, match=f"^--adaptive-softmax-cutoff {cutoffs}: .* to 50, "):
        make_model(arch, "--adaptive-softmax-cutoff", cutoffs, *LOSS)


@pytest.mark.parametrize(
    "words, message",
    [
        (CUTOFFS, "--criterion cross_entropy: .* --criterion adaptive_loss"),
        (LOSS, "--criterion adaptive_loss: it needs --adaptive-softmax-cutoff"),
        (
            [*CUTOFFS, *LOSS, "--share-decoder-input-output-embed"],
            "--adaptive-softmax-cutoff 10,20: .*--share-decoder-input-output-embed",
        ),
    ],
)
def test_adaptive_options_that_need_each_other_are_checked(words, message):
    with pytest.raises(ValueError, match=message):
        make_model("transevolve_lm", *words)
