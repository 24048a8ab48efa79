"""What fairseq's commands refuse when they read a command line, before anything is built."""

import re
from pathlib import Path

import pytest
from fairseq import options
from make_checkpoints import parsed, training_line

TRAINING, GENERATION, VALIDATION, EVALUATION = (
    options.get_training_parser,
    options.get_generation_parser,
    options.get_validation_parser,
    options.get_eval_lm_parser,
)
LM = " ".join(training_line("macaron_transformer_lm")[1:])
SMOOTHED = {  # for any criterion
    "macaron_transformer --criterion label_smoothed_cross_entropy",
    "transevolve_fullff_2 --criterion label_smoothed_cross_entropy_with_regularizers",
    "transject --task sentence_prediction --criterion sequence_classification",
}
REFUSED = [
    *(
        (
            f"{data} --arch transject --criterion cross_entropy",
            TRAINING,
            "--criterion cross_entropy: .* sequence_classification",
        )
        for data in (
            *("data --task sentence_prediction", "data --task long_range_arena", "--task parity"),
        )
    ),
    *(
        (f"data --arch {line} --label-smoothing {value}", TRAINING, "--label-smoothing .*: give at")
        for line in sorted(SMOOTHED)
        for value in ("2", "-0.1", "nan")
    ),
    *(
        (
            f"--task parity --arch {arch}",
            TRAINING,
            f"--task parity: it does not train --arch {arch}",
        )
        for arch in ("transevolve_fullff_1", "transformer")
    ),
    *(
        (
            f"--task parity --arch node_transformer {option} {value}",
            TRAINING,
            rf"{option}.*{value}: did you mean {meant}\b",
        )
        for option, value, meant in (
            ("--arch", "transevolve_fulff_2", "transevolve_fullff_2"),
            ("--task", "paritty", "parity"),
            ("--criterion", "sequence_clasification", "sequence_classification"),
        )
    ),
    *(  # the cutoffs are a list for a translator, and a text for a language model
        (
            f"data --task {line} --criterion cross_entropy --adaptive-softmax-cutoff 5,10",
            TRAINING,
            "it does not train --adaptive-softmax-cutoff 5,10; use",
        )
        for line in (
            "translation --arch macaron_transformer",
            "language_modeling --arch macaron_transformer_lm",
        )
    ),
    ("data --path best.pt", VALIDATION, "--task"),
    (f"a:b {LM} --save-dir c", TRAINING, "^a:b: fairseq would divide it at ':'"),
    (f"words {LM} --save-dir c:d", TRAINING, "^--save-dir c:d: fairseq would divide it at ':'"),
    ("a:b --path x.pt", GENERATION, "^a:b: fairseq would divide it at ':'"),
    ("words --path a:b/x.pt", GENERATION, "^a:b: fairseq would divide it at ':'"),
    ("a:b --path x.pt", EVALUATION, "^a:b: fairseq would divide it at ':'"),
]
ACCEPTED = [  # options that follow others are left to the model
    *(
        f"data --arch {arch} --encoder-attention-heads 2 --decoder-embed-dim 64 --criterion "
        "label_smoothed_cross_entropy"
        for arch in ("node_transformer_mt", "transevolve_fullff_2")
    ),
    *(f"data --arch {line} --label-smoothing 0.1" for line in sorted(SMOOTHED)),
    "data --task sentence_prediction --arch transject --criterion sentence_prediction",
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a:b").mkdir()
    for name in ("a.pt", "b.pt"):
        Path(name).touch()


@pytest.mark.parametrize("line, parser, message", REFUSED)
def test_a_training_that_cannot_work_is_refused(line, parser, message, capsys):
    with pytest.raises(SystemExit) as refused:
        options.parse_args_and_arch(parser(), line.split())
    (output,) = capsys.readouterr().err.splitlines()[-1:] or [str(refused.value)]
    assert re.search(message, output.partition("error: ")[2])


@pytest.mark.parametrize("line", ACCEPTED)
def test_a_training_that_can_work_is_accepted(line):
    options.parse_args_and_arch(TRAINING(), line.split())


def test_a_colon_joins_checkpoints():
    assert parsed(["words", "--path", "a.pt:b.pt"], GENERATION).common_eval.path == "a.pt:b.pt"
