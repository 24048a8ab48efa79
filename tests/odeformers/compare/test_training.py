"""``fairseq-train`` as a run starts it, in a Python of its own."""

import subprocess

from make_checkpoints import training_line, write_data, write_splits
from script_helpers import IN_MAIN_THREAD

from odeformers.commands import log_stats, python_command


def test_the_log_of_a_training_has_its_statistics(tmp_path):
    """Of each epoch and validation, in lines that a report reads; with the CPU's seconds."""
    write_data(tmp_path)
    write_splits(tmp_path, train=8)
    options = [*training_line("transformer_classifier"), *IN_MAIN_THREAD, "--max-epoch", "1"]
    options = [option for option in options if option != "--disable-validation"]
    words = python_command(["fairseq-train", *options, "--log-format", "json"])
    ended = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = ended.stdout.decode().splitlines()
    for kind, name in (("train", "train_cpu"), ("valid", "valid_loss")):
        (found,) = [stats for line in lines if (stats := log_stats(line, kind))]
        assert float(found[name]) >= 0
