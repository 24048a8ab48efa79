"""What fairseq's commands refuse when they read a command line."""

from pathlib import Path

import pytest
from fairseq import options
from make_checkpoints import parsed, training_line

GENERATION = options.get_generation_parser


@pytest.mark.parametrize(
    "line, parser, named",
    [
        (["a:b", "--save-dir", "c"], options.get_training_parser, "a:b"),
        (["words", "--save-dir", "c:d"], options.get_training_parser, "--save-dir c:d"),
        (["a:b", "--path", "x.pt"], GENERATION, "a:b"),
        (["words", "--path", "a:b/x.pt"], GENERATION, "a:b"),
        (["a:b", "--path", "x.pt"], options.get_eval_lm_parser, "a:b"),
    ],
)
def test_names_that_fairseq_would_divide(line, parser, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a:b").mkdir()
    if parser is options.get_training_parser:
        line = [line[0], *training_line("macaron_transformer_lm")[1:], *line[1:]]
    with pytest.raises(ValueError, match=f"^{named}: fairseq would divide it at ':'"):
        parsed(line, parser)


def test_checkpoints_that_a_colon_joins_are_several(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.pt", "b.pt"):
        Path(name).touch()
    assert parsed(["words", "--path", "a.pt:b.pt"], GENERATION).common_eval.path == "a.pt:b.pt"
