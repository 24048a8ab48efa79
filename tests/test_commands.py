"""fairseq's commands run end to end over the plugin, on a small generated corpus."""

import os
import random
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import torch
from composing import AS_FAIRSEQ, compose, initialize_config_dir
from documents import draw_documents, write_documents
from fairseq.dataclass.initialize import add_defaults, hydra_init
from fairseq.tasks import setup_task
from fairseq.trainer import Trainer
from make_checkpoints import parsed
from omegaconf import OmegaConf
from script_helpers import (
    IN_MAIN_THREAD,
    ROOT,
    USER_DIR,
    command,
    failing_command,
    module,
    trainings,
)

from fairseq_odeformers import load_classifier
from odeformers.hydra_train import make_absolute


@pytest.fixture(scope="module")
def data(training_data):
    """Sentence pairs, sentences, and sentences of three classes."""
    return training_data / "words"


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """Documents of the same words."""
    splits = {"train": draw_documents(4, 10), "valid": draw_documents(4, 3, seed=1)}
    return write_documents(tmp_path_factory.mktemp("documents"), **splits)


def last(folder):
    return folder / "checkpoint_last.pt"


def state(path):
    return torch.load(path)["model"]


SIDES = {"encoder": 6, "decoder": 4}
NAME = r"(encoder|decoder)\.layers\.(\d)\."


@pytest.mark.parametrize(
    "model, pattern, expected",
    [
        (
            "transevolve, encoder_depth: 1",
            rf"{NAME}depths\.(\d)",
            [(side, str(block), "0") for side in SIDES for block in range(2)],
        ),
        (  # a preset, unlike its model of two blocks of depth three
            "transevolve_randomff_1, decoder_depth: 4",
            rf"{NAME}depths\.(\d)",
            [(side, "0", str(n)) for side, depth in SIDES.items() for n in range(depth)],
        ),
        (
            "macaron_transformer, encoder_layers: 2, decoder_layers: 1",
            rf"{NAME}macaron_fc1",
            [("encoder", "0"), ("encoder", "1"), ("decoder", "0")],
        ),
        (
            "node_transformer_mt, encoder_layers: 1, decoder_layers: 1, ode_max_steps: 99",
            rf"{NAME}field\.fc1\.time",
            [("encoder", "0"), ("decoder", "0")],
        ),
    ],
)
def test_hydra_builds_models_and_presets(model, pattern, expected, data, tmp_path):
    """In the YAML file options of the encoder are set, and those of the decoder follow."""
    (tmp_path / "train.yaml").write_text(f"""
task: {{_name: translation, data: {data}, source_lang: de, target_lang: en}}
model: {{_name: {model}, encoder_embed_dim: 16, encoder_ffn_embed_dim: 32,
        encoder_attention_heads: 2, share_all_embeddings: true}}
""")
    hydra_init("train")
    with initialize_config_dir(str(tmp_path), **AS_FAIRSEQ):
        config = compose("train")
    add_defaults(config)
    config = OmegaConf.create(OmegaConf.to_container(config, resolve=True, enum_to_str=True))
    built = setup_task(config.task).build_model(config.model)
    actual = (re.match(pattern, name) for name in built.state_dict())
    assert {match.groups() for match in actual if match} == set(expected)


RELATIVE = """
common: {user_dir: plugin, log_format: simple, cpu: true}
task: {_name: translation, data: words, source_lang: de, target_lang: en}
model: {_name: macaron_transformer, encoder_embed_dim: 16, encoder_layers: 1, decoder_layers: 1}
criterion: {_name: label_smoothed_cross_entropy, label_smoothing: 0.1}
optimizer: {_name: adam}
lr_scheduler: {_name: fixed}
dataset: {max_tokens: 400, disable_validation: true, num_workers: 0, data_buffer_size: 0}
optimization: {max_update: 2, lr: [0.001]}
checkpoint: {save_dir: checkpoints}
"""


def test_hydra_reads_paths_relative_to_the_current_folder(data, tmp_path):
    """Data, a plugin and a checkpoint may be relative; Hydra's new folder gets the output."""
    (tmp_path / "train.yaml").write_text(RELATIVE)
    (tmp_path / "words").symlink_to(data)
    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "__init__.py").write_text("print('the plugin is imported')")
    line = ["odeformers", "hydra-train", "--config-dir", tmp_path, "--config-name", "train"]
    out = module(*line, cwd=tmp_path)
    assert "the plugin is imported" in out and "done training" in out
    (made,) = tmp_path.glob("outputs/*/*/checkpoints/checkpoint_last.pt")
    made.rename(tmp_path / "start.pt")
    again = module(*line, "checkpoint.finetune_from_model=start.pt", cwd=tmp_path)
    assert f"{tmp_path}/start.pt" in again and "done training" in again
    with pytest.raises(subprocess.CalledProcessError) as failed:
        module(*line, "common.user_dir=absent", cwd=tmp_path)
    assert f"--user-dir {tmp_path}/absent: no such folder" in failed.value.output


@pytest.mark.parametrize("name, default", [("start.pt", False), ("checkpoint_last.pt", True)])
def test_hydra_resumes_from_the_current_folder(name, default, tmp_path, monkeypatch):
    """A relative path is in the current folder, but fairseq's default name in --save-dir."""
    monkeypatch.chdir(tmp_path)
    config = {"task": {}, "common": {"user_dir": None}, "checkpoint": {"restore_file": name}}
    make_absolute(config := OmegaConf.create(config))
    assert config.checkpoint.restore_file == (name if default else str(tmp_path / name))


@pytest.mark.skipif(not AS_FAIRSEQ, reason="Hydra 1.0 sets no key that the YAML leaves out")
def test_hydra_train_accepts_options_missing_in_the_yaml(data, tmp_path):
    """The example YAML trains, without fairseq's warnings."""
    sizes = "model.encoder_embed_dim=16 model.encoder_ffn_embed_dim=32 model.embedding_dropout=0.2"
    out = module(
        *("odeformers", "hydra-train"),
        *("--config-dir", ROOT / "examples" / "multi30k", "--config-name", "hydra"),
        *(f"common.user_dir={USER_DIR}", f"task.data={data}", f"checkpoint.save_dir={tmp_path}"),
        *(*sizes.split(), "optimization.max_update=1", "dataset.disable_validation=true"),
        cwd=tmp_path,
    )
    assert "done training" in out and "Warning" not in out and "DEBUG" not in out
    model = torch.load(last(tmp_path))["cfg"]["model"]
    assert (model["encoder_embed_dim"], model["embedding_dropout"]) == (16, 0.2)


def test_the_adjoint_method_trains(data, tmp_path):
    """The loss includes the arclength, and the encoder's steps are logged."""
    line = "--arch node_transformer_mt --encoder-embed-dim 16 --encoder-ffn-embed-dim 32 "
    line += "--encoder-attention-heads 2 --encoder-layers 1 --adjoint --arclength-weight 0.01 "
    line += "--adaptivity batch --criterion label_smoothed_cross_entropy_with_regularizers "
    line += "--optimizer adam --max-tokens 400 --max-update 1 --no-progress-bar --user-dir"
    log = command("train", data, *line.split(), USER_DIR, "--save-dir", tmp_path)
    assert re.search(r"train \| .* arclength [\d.]+ \| .*encoder_accepted_1 \d", log)


def train(folder, *line):
    """The log of a training in a fork, which need not import anything."""
    (log,) = trainings([parsed([*map(str, line), *IN_MAIN_THREAD])], folder)
    return log


PRETRAINING = "--task bert_pretraining --criterion bert_pretraining --sample-break-mode eos"
PRETRAINING += " --tokens-per-sample 32"


def test_macaron_bert_is_pretrained_and_fine_tuned(data, tmp_path):
    """sentence_prediction starts from masked_lm's checkpoint, is interrupted and resumes."""
    line = f"--user-dir {USER_DIR} --arch macaron_bert_base --encoder-layers 2 --no-progress-bar"
    line += " --encoder-embed-dim 16 --encoder-ffn-embed-dim 32 --encoder-attention-heads 2"
    line += " --max-positions 64 --optimizer adam --lr 0.001 --max-update 2 --max-tokens 60"
    line = line.split()
    masked = "--task masked_lm --criterion masked_lm --tokens-per-sample 64 --sample-break-mode eos"
    train(tmp_path, *line, data, "--save-dir", tmp_path, *masked.split())
    line += "--task sentence_prediction --criterion sentence_prediction --num-classes 3".split()
    line += ["--finetune-from-model", last(tmp_path), "--init-token", 0]
    line += [data, "--save-dir", tmp_path / "tuned"]
    assert re.search(r"valid on 'valid' subset .* accuracy [0-9.]+", train(tmp_path, *line))
    pretrained, tuned = state(last(tmp_path)), state(last(tmp_path / "tuned"))
    name = "encoder.sentence_encoder.layers.0.macaron_fc1.weight"
    change = (tuned[name] - pretrained[name]).abs().max()
    assert 0 < change < 0.01  # two updates of about 0.001 per weight
    head = tuned["classification_heads.sentence_classification_head.out_proj.weight"]
    assert head.shape == (3, 16)
    log = train(tmp_path, *line, "--max-update", 3)
    assert re.search(r"Loaded checkpoint .*tuned/checkpoint_last.pt \(epoch 1 @ 2 updates\)", log)


def test_bert_is_pretrained_and_fine_tuned_on_pairs(documents, data, tmp_path):
    """The segments train on, the next-sentence head is dropped, and the model predicts."""
    line = f"--user-dir {USER_DIR} --arch macaron_bert_base --encoder-layers 2 --no-progress-bar"
    line += " --encoder-embed-dim 16 --encoder-ffn-embed-dim 32 --encoder-attention-heads 2"
    line += " --optimizer adam --lr 0.001 --max-update 2 --max-tokens 60"
    line = line.split()
    pretraining = [*line, documents, *PRETRAINING.split(), "--save-dir", tmp_path]
    log = train(tmp_path, *pretraining)
    logged = r"mlm_loss [\d.]+ \| nsp_loss [\d.]+ \| next_sentence_accuracy [\d.]+"
    assert all(re.search(rf"INFO:{what}:.*{logged}", log) for what in ("train", "valid"))

    line += "--task sentence_prediction --num-classes 3 --max-positions 32 --init-token 0".split()
    line += "--criterion sequence_classification --separator-token 2".split()
    line += [data.parent / "pairs", "--finetune-from-model", last(tmp_path)]
    line += ["--save-dir", tmp_path / "tuned"]
    log = failing_command("train", *line)
    message = "does not fit the model: it has segment embeddings; set --segment-embeddings"
    assert f"error: {last(tmp_path)} {message}" in log and "Traceback" not in log
    train(tmp_path, *line, "--segment-embeddings")
    pretrained, tuned = state(last(tmp_path)), state(last(tmp_path / "tuned"))
    weight = "encoder.sentence_encoder.embed_tokens.segments.weight"
    assert ((tuned[weight] - pretrained[weight]).abs().amax(1) > 0).all()
    assert "classification_heads.next_sentence.out_proj.weight" in pretrained
    assert not [name for name in tuned if "next_sentence" in name]
    classifier = load_classifier(str(last(tmp_path / "tuned")), str(data.parent / "pairs"))
    (there, back) = classifier.classify([("1 2 3", "4 5 6"), ("4 5 6", "1 2 3")])
    assert there.probabilities != back.probabilities

    with pytest.raises(ValueError, match=f"{last(tmp_path)} is not the checkpoint of a classifier"):
        load_classifier(str(last(tmp_path)), str(documents))


def test_bert_does_not_resume_a_training_without_next_sentences(documents, tmp_path):
    """A training without next sentences can start a new one, with a new head and new segments."""
    line = f"--user-dir {USER_DIR} --arch roberta_prenorm --encoder-layers 1 --no-progress-bar"
    line += " --encoder-embed-dim 16 --encoder-ffn-embed-dim 32 --encoder-attention-heads 2"
    line += " --optimizer adam --lr 0.001 --max-tokens 60 --disable-validation --max-update"
    masked = "--task masked_lm --criterion masked_lm --sample-break-mode complete"
    line, saved = [documents, *line.split()], ["--save-dir", tmp_path / "masked"]
    train(tmp_path, *line, 1, *masked.split(), "--tokens-per-sample", 32, *saved)
    log = failing_command("train", *line, 2, *PRETRAINING.split(), *saved)
    checkpoint = last(tmp_path / "masked")
    message = f"error: --save-dir {tmp_path}/masked: that training used the criterion MaskedLm"
    assert message in log and f"--finetune-from-model {checkpoint}" in log
    assert "Traceback" not in log
    line += [1, *PRETRAINING.split(), "--save-dir", tmp_path / "bert"]
    train(tmp_path, *line, "--finetune-from-model", checkpoint)
    assert "classification_heads.next_sentence.dense.bias" in state(last(tmp_path / "bert"))


WIDTH = "--{0}-embed-dim 16 --{0}-ffn-embed-dim 32 --{0}-attention-heads 2 --max-tokens 60"
NEW_BATCHES = "--update-epoch-batch-itr True"
TRANSLATION = f"{WIDTH.format('encoder')} {NEW_BATCHES}"
FIXED_GRID = "--ode-method rk4 --ode-steps 1"
BLOCKS = f"{WIDTH.format('decoder')} --decoder-layers 1 --tokens-per-sample 32 {NEW_BATCHES}"
CLASSES = "--criterion sequence_classification --max-tokens 60"
FINETUNING = f"{WIDTH.format('encoder')} --criterion sentence_prediction --num-classes 3"
FINETUNING += " --encoder-layers 1"
BERT = f"{WIDTH.format('encoder')} --encoder-layers 1 {PRETRAINING}"
PARITY = "--parity-max-length 4 --batch-size 8 --criterion sequence_classification"
FAMILIES = {  # task, and options
    "transevolve_randomff_2": ("translation", TRANSLATION),
    "macaron_transformer": ("translation", f"{TRANSLATION} --encoder-layers 1 --decoder-layers 1"),
    "node_transformer_mt": ("translation", f"{TRANSLATION} --encoder-layers 1 {FIXED_GRID}"),
    "transformer_lm_orthogonal": ("language_modeling", BLOCKS),
    "node_transformer_lm": ("language_modeling", BLOCKS),
    "transevolve_lm": ("language_modeling", BLOCKS.replace("layers", "blocks")),
    "transject": ("long_range_arena", f"{CLASSES} --lra-task text --encoder-embed-dim 16"),
    "macaron_classifier": ("sentence_prediction", FINETUNING),
    "macaron_bert": ("bert_pretraining", BERT),
    "node_transformer": ("parity", PARITY),
    "vanilla_transformer": ("parity", f"{PARITY} --dropout 0.1"),
}
VALIDATION = {  # BLEU puts numpy arrays into the checkpoint
    "transevolve_randomff_2": ["--eval-bleu", "--eval-bleu-args", '{"beam": 2, "max_len_b": 3}']
}


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def die_saving(state, file):
    file.write(b"half a checkpoint")
    file.flush()
    die()


def die_copying(source, target):
    Path(target).write_bytes(Path(source).read_bytes()[:1000])
    die()


DEATHS = {
    "training": die,
    "saving": lambda: setattr(torch, "save", die_saving),
    "copying": lambda: setattr(shutil, "copyfile", die_copying),
}


TASKS = {task: arch for arch, (task, _) in FAMILIES.items()}


@pytest.mark.parametrize(
    "arch, kills",
    [
        (next(iter(FAMILIES)), 3),  # no model keeps anything beside its parameters
        *((arch, 1) for task, arch in TASKS.items() if task != "translation"),
        *(pytest.param(arch, 5, marks=pytest.mark.slow) for arch in FAMILIES),
    ],
)
def test_a_killed_training_resumes_bit_for_bit(arch, kills, data, documents, tmp_path, monkeypatch):
    """SIGKILL comes at an epoch's end, and at random updates while training, saving or copying."""
    task, options = FAMILIES[arch]
    line = [*IN_MAIN_THREAD, "--task", task, "--arch", arch]
    line += {"parity": [], "bert_pretraining": [documents]}.get(task, [data])
    line += [*options.split(), "--optimizer", "adam", "--lr", 0.005, "--no-progress-bar"]
    line += ["--max-epoch", 1 + max(1, kills // 2), *VALIDATION.get(arch, ["--disable-validation"])]
    line += ["--save-interval-updates", 2, "--keep-interval-updates", 1]
    config = parsed(list(map(str, line)))
    straight, resumed = tmp_path / "straight", tmp_path / "resumed"
    config.checkpoint.save_dir = str(straight)
    trainings([config], tmp_path)
    config.checkpoint.save_dir = str(resumed)
    path = straight / "checkpoint1.pt"
    (end, first), (total, expected) = map(updates_and_weights, (path, last(straight)))
    assert any(not torch.equal(first[name], expected[name]) for name in expected)

    drawn = random.Random(f"{arch} {kills}")
    updates = sorted([end, *drawn.sample([n for n in range(1, total - 1) if n != end], kills - 1)])
    train_step = Trainer.train_step
    for update in updates:
        death = DEATHS["training" if update == end else drawn.choice(list(DEATHS))]

        def train_step_to_die(trainer, *args, update=update, death=death, **kwargs):
            if trainer.get_num_updates() == update:
                death()
            return train_step(trainer, *args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "train_step", train_step_to_die)
            with pytest.raises(subprocess.CalledProcessError) as error:
                trainings([config], tmp_path)
        assert error.value.returncode == -signal.SIGKILL
    (log,) = trainings([config], tmp_path)
    assert "Loaded checkpoint" in log
    _, actual = updates_and_weights(last(resumed))
    assert all(torch.equal(actual[name], expected[name]) for name in expected)


def updates_and_weights(path):
    saved = torch.load(path)
    return saved["optimizer_history"][-1]["num_updates"], saved["model"]
