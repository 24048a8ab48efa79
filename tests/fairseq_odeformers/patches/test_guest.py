"""fairseq's own models compute the same with the plugin as without it, to the bit."""

import json
import os
import re
import subprocess
import sys
from argparse import Namespace

import pytest
import torch
from fairseq import options
from fairseq.data import data_utils
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from helpers import make_model
from make_checkpoints import TRAINING, make_dictionary, write_data, write_splits
from script_helpers import IN_MAIN_THREAD, USER_DIR, command

# Several of fairseq's commands in one process.
RUN = """
import sys
from importlib import import_module

import fairseq_cli.train

for line in sys.argv[1:]:
    name, *sys.argv[1:] = line.split()
    import_module(f"fairseq_cli.{name}").cli_main()
"""
SIDE = "--{0}-embed-dim 8 --{0}-ffn-embed-dim 12 --{0}-attention-heads 2 --{0}-layers 2"
LOG = "--log-format json --log-interval 1"
TRAIN = f"--cpu --optimizer adam {LOG} {' '.join([*TRAINING, *IN_MAIN_THREAD])}"
# With what this package refuses for its own models: a --restore-file that is missing, and another
# number of classes than there are.
COMMANDS = [
    f"train words --arch transformer {SIDE.format('encoder')} {SIDE.format('decoder')} {TRAIN} "
    "--save-dir {0}/translator --restore-file absent.pt --seed 3",
    "generate words --path {0}/translator/checkpoint_last.pt --cpu --batch-size 4 --beam 2",
    f"train words --arch roberta_base {SIDE.format('encoder')} {TRAIN} --save-dir {{0}}/classifier "
    "--task sentence_prediction --criterion sentence_prediction --num-classes 4 "
    "--restore-file absent.pt --max-positions 40",
    f"train words --arch fconv --encoder-layers [(8,3)] --decoder-layers [(8,3)] {TRAIN} "
    "--encoder-embed-dim 8 --decoder-embed-dim 8 --decoder-out-embed-dim 8 "
    "--save-dir {0}/convolutions",
    f"train words --arch transformer_lm {SIDE.format('decoder')} {TRAIN} --save-dir {{0}}/lm "
    "--task language_modeling --tokens-per-sample 16",
]
MODELS = "translator", "classifier", "convolutions", "lm"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What the commands log and print, without and with the plugin, and the weights they save.

    In processes of their own.
    """
    folder = tmp_path_factory.mktemp("guest")
    write_data(folder)
    write_splits(folder, train=40, test=6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
        alone = subprocess.run(
            [sys.executable, "-c", RUN, *(line.format("alone") for line in COMMANDS)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert alone.returncode == 0, alone.stdout
        lines = (f"{line.format('guest')} --user-dir {USER_DIR}" for line in COMMANDS)
        guest = "".join(command(*line.split(), cwd=folder) for line in lines)
    return [
        (out, weights(folder / name)) for name, out in (("alone", alone.stdout), ("guest", guest))
    ]


def weights(folder):
    """Of each model."""
    paths = (folder / model / "checkpoint_last.pt" for model in MODELS)
    return [torch.load(path, weights_only=False)["model"] for path in paths]


def losses(log):
    """All numbers of a training but those of its speed."""
    rows = [json.loads(row) for row in re.findall(r"\{\"epoch\".*\}", log)]
    speed = re.compile("wall|ups|wpb|wps|gb_free")
    return [{k: v for k, v in row.items() if not speed.search(k)} for row in rows]


def test_losses_and_weights_are_the_same(results):
    (log, weights), (other_log, other_weights) = results
    assert losses(log) == losses(other_log) and len(losses(log)) >= len(MODELS)
    for model, other in zip(weights, other_weights):
        assert model.keys() == other.keys()
        assert all(torch.equal(model[name], other[name]) for name in model)


def test_translations_are_the_same(results):
    """With the scores of their tokens."""
    translations = [re.findall(r"^[SHDP]-.*", out, re.M) for out, _ in results]
    assert translations[0] == translations[1] and len(translations[0]) >= 16


def test_what_is_refused_of_own_models_is_warned_of(results):
    (alone, _), (guest, _) = results
    for warning in ("--restore-file absent.pt: no such file", "--num-classes 4: words has 3"):
        assert warning in guest and warning not in alone


@pytest.mark.parametrize(
    "pairs", ["de-en", "en-de", "de-en en-de", "fr-en de-fr en-fr", "a-b pt-br"]
)
def test_languages_that_fairseq_finds_stay(pairs, tmp_path):
    """If their dictionaries are there; also where other pairs are."""
    for pair in pairs.split():
        (tmp_path / f"train.{pair}.{pair.split('-')[0]}.idx").touch()
        for lang in pair.split("-"):
            make_dictionary(1).save(str(tmp_path / f"dict.{lang}.txt"))
    original = data_utils.infer_language_pair.__wrapped__
    assert [*data_utils.infer_language_pair(tmp_path)] == [*original(tmp_path)]


@pytest.mark.parametrize("arch, ours", [("transformer", False), ("vanilla_transformer", True)])
def test_sampling_is_as_fairseq_s(arch, ours, caplog):
    """From more than the whole probability; an error only for a model of this package."""
    words = make_dictionary(5)
    task = TranslationTask(TranslationConfig(), words, words)
    options = Namespace(sampling=True, sampling_topp=1.5)
    model = make_model(arch)
    if ours:
        with pytest.raises(ValueError, match="^sampling_topp 1.5: "):
            task.build_generator([model], options)
    else:
        assert task.build_generator([model], options).search.sampling_topp == 1.5
        assert caplog.messages[-1].startswith("sampling_topp 1.5: ")


@pytest.mark.parametrize(
    "line",
    [
        "a:b --arch transformer --save-dir c:d",  # names that are divided
        "words --arch roberta --task language_modeling",  # which sees later tokens
        "words --arch roberta --task sentence_prediction --criterion cross_entropy --num-classes 3",
    ],
)
def test_command_lines_of_fairseq_s_models_are_only_warned_of(line, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    for name in ("a:b", "a", "b"):
        (tmp_path / name).mkdir()
    args = options.parse_args_and_arch(options.get_training_parser(), line.split())
    assert args.arch in line and any(record.levelname == "WARNING" for record in caplog.records)
