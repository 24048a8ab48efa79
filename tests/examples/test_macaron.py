"""The command that pretrains small masked language models, with stubs."""

import pytest
from script_helpers import example, stub_commands


@pytest.mark.parametrize(
    "validate, status, said",
    [
        ("echo '| valid | loss 9.5 | ppl 724'", 0, "bert, seed 2: validation loss 9.5 after 500"),
        ("echo 'no such checkpoint'; exit 3", 1, "no such checkpoint"),
    ],
)
def test_pretraining_ends_with_the_loss_or_what_is_wrong(tmp_path, validate, status, said):
    (tmp_path / "data/pretrain/data-bin/dict.txt").mkdir(parents=True)
    stub_commands(tmp_path, fairseq_train="", fairseq_validate=validate)
    script = ["macaron/pretrain.sh", "train.txt", "valid.txt", "bert"]
    result = example(*script, root=tmp_path, SEED="2")
    assert result.returncode == status and said in result.stdout
