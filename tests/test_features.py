"""What users of fairseq switch on works for a model of each family."""

import copy
import re

import pytest
import torch
from fairseq import options
from fairseq_cli import eval_lm, generate, interactive, validate
from helpers import (
    CLASSIFIERS,
    COPY,
    make_classifier,
    make_lm,
    make_model,
    model_config,
)
from make_checkpoints import parsed, task_of, training_config
from omegaconf import OmegaConf
from script_helpers import IN_MAIN_THREAD, trainings

ALIGNED = ["macaron_transformer", "transformer_prenorm"]
TRANSLATION = [*ALIGNED, "transevolve", "node_transformer_mt"]
LANGUAGE_MODELS = ["macaron_transformer_lm", "transject_lm", "transformer_lm_orthogonal"]
FAMILIES = [*TRANSLATION, *LANGUAGE_MODELS]
CHECKPOINTING = ["macaron_transformer", "transevolve", "transformer_lm_orthogonal"]


@pytest.fixture(scope="module")
def folder(training_data):
    return training_data


@pytest.fixture(scope="module")
def trained(folder):
    """The checkpoint and the log of each model and feature."""
    still = {"lr_scheduler": {"lr": [0.0]}, "optimization": {"lr": [0.0]}}
    names, configs = [], []
    for arch in FAMILIES:
        features = {
            "plain": {},
            "ema": {"ema": {"store_ema": True}},
            "finetuned": {
                "checkpoint": {"finetune_from_model": str(path(folder, "plain", arch))},
                **still,
            },
        }
        if arch == FAMILIES[0]:
            features["patience"] = {
                "checkpoint": {"patience": 2},
                "dataset": {"disable_validation": False},
                **still,
                "optimization": {"lr": [0.0], "max_update": 0, "max_epoch": 9},
            }
        if arch in CHECKPOINTING:
            features["checkpointing"] = {"model": {"checkpoint_activations": True}}
        for feature, parts in features.items():
            saving = {"save_dir": str(path(folder, feature, arch).parent)}
            saving.update(parts.pop("checkpoint", {}))
            names.append((feature, arch))
            # A gradient that is zero but for rounding moves nothing.
            smooth = {"adam_eps": 0.01}
            config = training_config(arch, checkpoint=saving, optimizer=smooth, **parts)
            configs.append(config)
    logs = trainings(configs, folder)
    return {name: (torch.load(path(folder, *name)), log) for name, log in zip(names, logs)}


def path(folder, feature, arch):
    return folder / feature / arch / "checkpoint_last.pt"


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name in filter(lambda name: not COPY.search(name), ours):
        torch.testing.assert_close(ours[name], theirs[name], msg=name)


@pytest.mark.parametrize("arch", CHECKPOINTING)
def test_checkpointed_activations_change_nothing(arch, trained):
    assert_same(trained["checkpointing", arch][0]["model"], trained["plain", arch][0]["model"])


@pytest.mark.parametrize("arch", FAMILIES)
def test_moving_average_of_the_weights_is_saved(arch, trained):
    """--store-ema; after three updates it is still near the start, and the weights are not."""
    state = trained["ema", arch][0]
    assert_same(state["model"], trained["plain", arch][0]["model"])
    average = state["extra_state"]["ema"]
    names = average.keys() & state["model"].keys()
    assert any(not torch.equal(average[name], state["model"][name]) for name in names)


@pytest.mark.parametrize("arch", FAMILIES)
def test_finetuning_starts_from_a_checkpoint(arch, trained):
    assert_same(trained["finetuned", arch][0]["model"], trained["plain", arch][0]["model"])


@pytest.mark.parametrize("arch", FAMILIES[:1])
def test_patience_ends_a_training(arch, trained):
    assert (
        "early stop since valid performance hasn't improved for last 2"
        in (trained["patience", arch][1])
    )


@pytest.mark.parametrize(
    "package, option, files",
    [
        ("tensorboardX", {"tensorboard_logdir": "board"}, "board/train_inner/events.*"),
        ("wandb", {"wandb_project": "odeformers"}, "wandb/offline-run-*"),
    ],
)
def test_statistics_go_where_they_are_asked_for(package, option, files, folder):
    pytest.importorskip(package)
    logging = {"log_interval": 1, **option}
    config = training_config(FAMILIES[0], common=logging, checkpoint={"no_save": True})
    trainings([config], folder, WANDB_MODE="offline")
    assert list(folder.glob(files))


def configuration(folder, arch, get_parser, *extra):
    line = ["words", "--cpu", "--batch-size", "4", "--required-batch-size-multiple", "1"]
    line += [*IN_MAIN_THREAD, "--path", str(path(folder, "plain", arch))]
    return parsed([*line, *extra], get_parser)


@pytest.fixture(scope="module")
def validated(folder, trained):
    """What fairseq-validate prints for each model."""
    parser = options.get_validation_parser
    first = configuration(folder, FAMILIES[0], parser, "--task", "translation")  # not asked for
    logs = trainings(each(first, folder, FAMILIES), folder, main=validate.main)
    return dict(zip(FAMILIES, logs))


@pytest.mark.parametrize("arch", FAMILIES)
def test_validation(arch, validated):
    assert re.search(r"valid on 'valid' subset \| loss [\d.]+", validated[arch])


@pytest.fixture(scope="module")
def perplexities(folder, trained):
    sizes = ["--tokens-per-sample", "16", "--task", "language_modeling", "--gen-subset", "valid"]
    first = configuration(folder, LANGUAGE_MODELS[0], options.get_eval_lm_parser, *sizes)
    logs = trainings(each(first, folder, LANGUAGE_MODELS), folder, main=eval_lm.main)
    return dict(zip(LANGUAGE_MODELS, logs))


def each(config, folder, archs):
    for arch in archs:
        config = copy.deepcopy(config)
        config.common_eval.path = str(path(folder, "plain", arch))
        yield config


@pytest.mark.parametrize("arch", LANGUAGE_MODELS)
def test_perplexity(arch, perplexities):
    assert re.search(r"Loss \(base 2\): [0-9.]+, Perplexity: [0-9.]+", perplexities[arch])


KINDS = {
    "beams": {},
    "sampling": {"sampling": True, "sampling_topk": 3, "nbest": 1, "beam": 1},
    "prefix": {"prefix_size": 1},
    "reference": {"score_reference": True, "beam": 1},
}


@pytest.fixture(scope="module")
def generated(folder, trained):
    """What fairseq-generate prints, of each model and way to generate."""
    languages = ["--source-lang", "de", "--target-lang", "en", "--gen-subset", "valid"]
    beams = ["--beam", "2", "--max-len-b", "5"]
    first = configuration(folder, TRANSLATION[0], options.get_generation_parser, *languages, *beams)
    names, configs = [], []
    for kind, changes in KINDS.items():
        for arch, config in zip(TRANSLATION, each(first, folder, TRANSLATION)):
            for name, value in changes.items():
                config.generation[name] = value
            names.append((kind, arch))
            configs.append(config)
    return dict(zip(names, trainings(configs, folder, main=generate.main)))


@pytest.mark.parametrize("arch", TRANSLATION)
def test_interactive(arch, answers):
    """Two lines, one of them with a word that the dictionary has not."""
    assert len(words(answers[arch], "H")) == 2
    if arch in ALIGNED:
        assert len(re.findall(r"^A-\d+\t(\d+-\d+ ?)*$", answers[arch], re.M)) == 2


@pytest.fixture(scope="module")
def answers(folder, trained):
    """What fairseq-interactive prints for each model."""
    (folder / "asked.de").write_text("1 2 3\n4 unheard 6\n")
    asking = ["--input", "asked.de", "--buffer-size", "4", "--max-len-b", "5"]
    languages = ["--source-lang", "de", "--target-lang", "en"]
    parser = options.get_interactive_generation_parser
    first = configuration(folder, TRANSLATION[0], parser, *languages, *asking)
    configs = dict(zip(TRANSLATION, each(first, folder, TRANSLATION)))
    for arch in ALIGNED:
        configs[arch].generation.update(print_alignment="hard", replace_unk="")
    return dict(zip(configs, trainings(configs.values(), folder, main=interactive.main)))


def words(log, letter):
    """The sentences of the lines T- or H-."""
    lines = re.findall(rf"^{letter}-(\d+)\t(?:.*\t)?(.*)$", log, re.M)
    return {int(number): sentence.split() for number, sentence in lines}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arch", TRANSLATION)
def test_generation(arch, kind, generated):
    log = generated[kind, arch]
    targets, found = words(log, "T"), words(log, "H")
    assert len(found) == len(targets) == 8
    if kind == "prefix":
        assert all(found[n][0] == sentence[0] for n, sentence in targets.items())
    if kind == "reference":
        assert found == targets


@pytest.mark.parametrize("arch", ["transformer_lm_orthogonal", "transformer_classifier_orthogonal"])
def test_noise_does_not_reach_orthogonal_matrices(arch):
    """fairseq's quantization noise changes a weight, which these layers do not have."""
    noise = ["--quant-noise-pq", "0.5"]
    with pytest.raises(ValueError, match="--quant-noise-pq 0.5: noise would not reach"):
        if arch in CLASSIFIERS:
            make_classifier(arch, *noise)
        else:
            make_lm(arch, *noise)


@pytest.mark.parametrize(
    "arch, option",
    [
        ("transevolve", "--quant-noise-pq 0.5"),
        ("node_transformer_mt", "--quant-noise-pq 0.5"),
        ("transject", "--quant-noise-pq 0.5"),
        ("transject", "--checkpoint-activations"),
    ],
)
def test_what_a_family_has_not_is_refused(arch, option, capsys):
    with pytest.raises(SystemExit):
        model_config(arch, *option.split(), task=task_of(arch))
    assert f"unrecognized arguments: {option}" in capsys.readouterr().err


@pytest.mark.parametrize("option, value", [("print_alignment", "hard"), ("replace_unk", "")])
@pytest.mark.parametrize("arch", ["transevolve", "node_transformer_mt"])
def test_alignments_that_a_model_has_not_are_refused(arch, option, value):
    config = OmegaConf.create({"generation": {option: value}})
    with pytest.raises(ValueError, match=f"--{option.replace('_', '-')} {value}: this model has"):
        make_model(arch).prepare_for_inference_(config)
