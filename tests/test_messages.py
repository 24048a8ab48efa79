"""Options that do not go together are refused by a message, before anything is read or built."""

import re
from argparse import Namespace

import pytest
from fairseq import options
from fairseq.trainer import _catalog_shared_params
from helpers import CLASSIFIERS, Task, make_any, make_model
from make_checkpoints import PATHS

from fairseq_odeformers.patches.command_line import check_head
from fairseq_odeformers.registry import check_kind
from fairseq_odeformers.tasks.parity import ParityTask


def parse(*line):
    return options.parse_args_and_arch(options.get_training_parser(), line)


@pytest.mark.parametrize("task", ["sentence_prediction", "long_range_arena", "parity"])
def test_classifier_with_a_criterion_of_tokens(task):
    data = [] if task == "parity" else ["data"]
    with pytest.raises(ValueError, match="--criterion cross_entropy: .* sequence_classification"):
        parse(*data, "--task", task, "--arch", "transject", "--criterion", "cross_entropy")


@pytest.mark.parametrize("value", ["2", "-0.1", "nan"])
@pytest.mark.parametrize(
    "arch, criterion",
    [
        ("macaron_transformer", "label_smoothed_cross_entropy"),
        ("transevolve_fullff_2", "label_smoothed_cross_entropy_with_regularizers"),
        ("transject", "sequence_classification"),
    ],
)
def test_a_share_that_is_none_is_refused_whose_ever_the_criterion(arch, criterion, value):
    task = "sentence_prediction" if arch == "transject" else "translation"
    line = ["data", "--arch", arch, "--criterion", criterion, "--task", task, "--label-smoothing"]
    with pytest.raises(ValueError, match="--label-smoothing .*: give at least 0 and below 1"):
        parse(*line, value)
    parse(*line, "0.1")


@pytest.mark.parametrize("arch", ["node_transformer_mt", "transevolve_fullff_2"])
def test_options_that_follow_others_are_left_to_the_model(arch):
    parse(
        *("data", "--arch", arch, "--encoder-attention-heads", "2", "--decoder-embed-dim", "64"),
        *("--criterion", "label_smoothed_cross_entropy"),
    )


def test_validation_without_a_task():
    with pytest.raises(SystemExit, match="--task"):
        options.parse_args_and_arch(options.get_validation_parser(), ["data", "--path", "best.pt"])


@pytest.mark.parametrize("arch", ["transevolve_fullff_1", "transformer"])
def test_task_of_classification_with_a_translator(arch):
    with pytest.raises(ValueError, match=f"--task parity: it does not train --arch {arch}"):
        parse("--task", "parity", "--arch", arch)


@pytest.mark.parametrize(
    "option, value, meant",
    [
        ("--arch", "transevolve_fulff_2", "transevolve_fullff_2"),
        ("--task", "paritty", "parity"),
        ("--criterion", "sequence_clasification", "sequence_classification"),
    ],
)
def test_a_misspelt_name_is_asked_for(option, value, meant, capsys):
    line = {"--task": "parity", "--arch": "node_transformer", option: value}
    with pytest.raises(SystemExit):
        parse(*(word for pair in line.items() for word in pair))
    assert re.search(rf"{option}.*{value}: did you mean {meant}\b", capsys.readouterr().err)


def test_parity_with_a_translator_of_fairseq():
    task = ParityTask(Namespace(parity_max_length=3))
    with pytest.raises(ValueError, match="--task parity: .* --arch transformer, .*translation"):
        task.build_model(Namespace(_name="transformer"))


@pytest.mark.parametrize("name", ["translation", "language_modeling", "masked_lm"])
def test_classifier_as_a_translator(name):
    """Hydra makes no command line, so that the model itself checks."""
    task = Task()
    task.cfg = Namespace(_name=name)
    with pytest.raises(ValueError, match=f"--task {name}: .* --arch transject, .* parity"):
        make_model("transject", task=task)


@pytest.mark.parametrize("arch", ["transevolve_lm", "transject_lm", "transformer_lm_prenorm"])
def test_language_model_as_a_translator(arch):
    """As fairseq-generate would take a checkpoint, without --task language_modeling."""
    task = Task()
    task.cfg = Namespace(_name="translation", tokens_per_sample=64)
    with pytest.raises(ValueError, match=f"--task translation: .* --arch {arch}, .*modeling"):
        make_model(arch, task=task)


@pytest.mark.parametrize("arch", ["transevolve", "node_transformer_mt", "macaron_transformer"])
@pytest.mark.parametrize("name", ["language_modeling", "sentence_prediction"])
def test_translator_as_another_model(arch, name):
    task = Task()
    task.cfg = Namespace(_name=name)
    with pytest.raises(ValueError, match=f"--task {name}: .* --arch {arch}, .*for translation"):
        make_model(arch, task=task)


def test_what_fits_is_not_refused():
    for arch in CLASSIFIERS:
        check_kind(arch, "sentence_prediction")
    for criterion in ("sequence_classification", "sentence_prediction"):
        check_head("sentence_prediction", criterion)


@pytest.mark.parametrize("arch", [name for name in PATHS if "." not in name])
def test_a_training_starts_without_lines_of_our_own(arch, caplog):
    """Of a bias that is not there the trainer would print a line, as of a shared parameter."""
    if "bert" in arch:
        pytest.skip("fairseq's own layers around")
    with caplog.at_level("INFO"):
        model = make_any(arch)
    ours = [record for record in caplog.records if record.name.startswith("fairseq_odeformers")]
    assert all(record.levelname == "WARNING" for record in ours)
    for paths in _catalog_shared_params(model):
        first = model
        for name in paths[0].split("."):
            first = getattr(first, name)
        assert first is not None, paths
