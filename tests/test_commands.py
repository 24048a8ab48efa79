"""fairseq's commands run end to end over the plugin, on a small generated corpus."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fairseq_odeformers.data.cldr import write_corpus
from fairseq_odeformers.data.parallel_text import prepare

ROOT = Path(__file__).resolve().parents[1]
USER_DIR = str(ROOT / "fairseq_odeformers")
MODEL = "--arch transevolve_randomff_2 --encoder-embed-dim 16 --encoder-ffn-embed-dim 32".split()
TRAINING = (
    "--encoder-attention-heads 2 --criterion label_smoothed_cross_entropy --label-smoothing 0.1 "
    "--optimizer adam --lr 0.005 --max-tokens 400 --no-progress-bar"
).split()

# BLEU on the validation set puts numpy arrays into the checkpoint.
EVALUATION = [
    "--skip-invalid-size-inputs-valid-test",
    "--eval-bleu",
    "--eval-bleu-args",
    '{"beam": 2, "max_len_b": 10}',
]


def command(name, *args, cwd=None):
    """The output of one of fairseq's commands, run in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", f"fairseq_cli.{name}", *map(str, args)],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ).stdout


def failing_command(*args):
    with pytest.raises(subprocess.CalledProcessError) as error:
        command(*args)
    return error.value.stdout


def train(data, save_dir, *args):
    return command(
        *["train", data, "--user-dir", USER_DIR, "--save-dir", save_dir, *MODEL, *TRAINING, *args]
    )


def generate(data, path, *args):
    """Hypotheses with their scores, in the order of the test set."""
    out = command("generate", data, "--user-dir", USER_DIR, "--path", path, "--beam", 3, *args)
    lines = re.findall(r"^[HP]-\d+\t.*$", out, re.MULTILINE)
    return sorted(lines, key=lambda line: (int(re.search(r"\d+", line)[0]), line[0]))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder / "raw", train=120, valid=8, test=8, seed=1)
    for language in ("de", "en"):
        with open(folder / "raw" / f"valid.{language}", "a") as file:
            file.write("2 " * 10_000 + "\n")
    raw = {
        split: (folder / "raw" / f"{split}.de", folder / "raw" / f"{split}.en")
        for split in ("train", "valid", "test")
    }
    return prepare(raw, folder, "de", "en", bpe_operations=100, workers=1)


@pytest.fixture(scope="module")
def checkpoints(data, tmp_path_factory):
    """A folder with the checkpoints of updates 3 and 6, of a run stopped at 3 and resumed."""
    folder = tmp_path_factory.mktemp("checkpoints")
    options = ["--save-interval-updates", 3, *EVALUATION]
    train(data, folder, *options, "--max-update", 3)
    log = train(data, folder, *options, "--max-update", 6)
    assert re.search(r"Loaded checkpoint .*checkpoint_last.pt \(epoch 1 @ 3 updates\)", log)
    return folder


def state(path):
    return torch.load(path)["model"]


def test_resumed_training_equals_uninterrupted_training(data, checkpoints, tmp_path):
    """Bit for bit: the random numbers of dropout, too, go on where they stopped."""
    train(data, tmp_path, *EVALUATION, "--max-update", 6)
    resumed, straight = (state(f / "checkpoint_last.pt") for f in (checkpoints, tmp_path))
    assert resumed.keys() == straight.keys()
    assert all(torch.equal(resumed[name], straight[name]) for name in resumed)


def test_checkpoint_generates_the_same_in_every_process(data, checkpoints):
    """Bit for bit, whatever the seed; the random rotations come with the checkpoint."""
    path = checkpoints / "checkpoint_last.pt"
    first = generate(data, path, "--seed", 1)
    assert len(first) == 16
    assert generate(data, path, "--seed", 2) == first


def test_generation_takes_ensembles_and_prefixes(data, checkpoints):
    path = checkpoints / "checkpoint_last.pt"
    both = f"{checkpoints / 'checkpoint_1_3.pt'}:{path}"
    assert len(generate(data, both, "--prefix-size", 1)) == 16
    out = command(
        *["generate", data, "--user-dir", USER_DIR, "--path", path, "--prefix-size", 2],
        *["--quiet", "--scoring", "sacrebleu"],
    )
    assert "Generate test with beam=5: BLEU" in out


def test_hydra_trains_from_a_configuration_file(data, tmp_path):
    """Options of the family's dataclass, with the decoder's following the encoder's."""
    (tmp_path / "train.yaml").write_text(f"""
common: {{user_dir: {USER_DIR}, log_format: simple}}
task: {{_name: translation, data: {data}, source_lang: de, target_lang: en}}
model: {{_name: transevolve, encoder_embed_dim: 16, encoder_ffn_embed_dim: 32,
        encoder_attention_heads: 2, encoder_depth: 1, share_all_embeddings: true}}
criterion: {{_name: label_smoothed_cross_entropy, label_smoothing: 0.1}}
optimizer: {{_name: adam}}
lr_scheduler: {{_name: inverse_sqrt, warmup_updates: 2}}
dataset: {{max_tokens: 400, disable_validation: true}}
optimization: {{max_update: 2, lr: [0.001]}}
checkpoint: {{save_dir: {tmp_path / "checkpoints"}}}
""")
    command("hydra_train", "--config-dir", tmp_path, "--config-name", "train", cwd=tmp_path)
    saved = state(tmp_path / "checkpoints" / "checkpoint_last.pt")
    blocks = {name.split(".")[2] for name in saved if name.startswith("decoder.layers.")}
    depths = {name.split(".")[4] for name in saved if name.startswith("decoder.layers.0.depths.")}
    assert (blocks, depths) == ({"0", "1"}, {"0"})


def test_folder_without_dictionaries_is_named(data, tmp_path):
    """fairseq's own message names the file that is missing, before training starts."""
    out = failing_command(
        *["train", tmp_path, "-s", "de", "-t", "en", "--user-dir", USER_DIR, *MODEL, *TRAINING]
    )
    assert f"No such file or directory: '{tmp_path / 'dict.de.txt'}'" in out


def test_bad_option_stops_training_before_it_starts(data, tmp_path):
    out = failing_command(
        *["train", data, "--user-dir", USER_DIR, *MODEL, *TRAINING, "--time-dim", 7],
        *["--save-dir", tmp_path],
    )
    assert out.rstrip().splitlines()[-1].startswith("ValueError: --time-dim 7")
    assert not list(tmp_path.iterdir())


def test_overlong_sentences_stop_generation_or_are_skipped(data, checkpoints):
    """fairseq's own message and option: a sentence of the valid split has 10,000 tokens."""
    args = ["--user-dir", USER_DIR, "--path", checkpoints / "checkpoint_last.pt"]
    args += ["--gen-subset", "valid", "--beam", 1, "--required-batch-size-multiple", 1]
    out = failing_command("generate", data, *args)
    assert "--skip-invalid-size-inputs-valid-test" in out
    out = command("generate", data, *args, "--skip-invalid-size-inputs-valid-test")
    assert "Translated 8 sentences" in out
