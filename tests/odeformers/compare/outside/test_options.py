"""The sizes, updates and commands that options give, by a dry run."""

import re

import pytest
import yaml

from tests.odeformers.compare.outside.commands import cell, commands, refuse, run, table

ARCHS = ["transformer_classifier", "macaron_classifier"]
SMALL = ["--layers", 1, "--width", 16, "--heads", 2, "--ffn", 48]


def dry_run(data, folder, *words):
    out = folder / "runs"
    printed = run("compare", data, "--out", out, "--dry-run", *words)
    assert not out.exists(), "a dry run leaves nothing"
    return printed


@pytest.fixture(scope="module")
def matched(data, tmp_path_factory):
    words = [
        "--archs",
        *ARCHS,
        "transformer_classifier_rezero[--pooling max]",
        *SMALL,
        "--seeds",
        4,
        2,
    ]
    folder = tmp_path_factory.mktemp("matched")
    return dry_run(data, folder, *words, "--epochs", 10, "--average", 2, "--lr", "3e-3")


def test_models_have_as_many_parameters_as_the_first(matched):
    """Sizes agree to a hundredth; the first keeps its width, and the others' widths are listed."""
    rows = table(matched, "parameters")
    assert len(rows) == 3
    first, *others = (int(cell(row, "parameters").replace(",", "")) for row in rows.values())
    assert all(abs(other / first - 1) < 0.01 for other in others)
    options, macaron, rezero = commands(matched, "fairseq-train", "-seed4")
    assert options["encoder-ffn-embed-dim"] == "48" and macaron["encoder-ffn-embed-dim"] != "48"
    assert macaron["encoder-embed-dim"] == rezero["encoder-embed-dim"] == "16"
    assert rezero["pooling"] == "max" and "pooling" not in macaron


def test_the_printed_commands_train_average_and_evaluate(matched):
    """Each seed and model has its commands, which differ only in folder, seed and model options."""
    trained = commands(matched, "fairseq-train")
    assert [options["seed"] for options in trained] == ["4"] * 3 + ["2"] * 3
    assert len({options["save-dir"] for options in trained}) == 6
    for options in trained:
        assert options["lr"] == "3e-3" and options["max-epoch"] == "10"
        assert options["update-epoch-batch-itr"] == "True", "or what resumes has other batches"
        assert options["save-dir"].endswith(f"-seed{options['seed']}")
        averaged = commands(matched, "odeformers average", f"{options['save-dir']}'")
        assert [each["last"] for each in averaged] == ["2"]
        evaluated = commands(matched, "odeformers predict", f"{options['save-dir']}/")
        paths = [each["path"].rpartition("/")[2] for each in evaluated]
        assert paths == ["checkpoint_best.pt", "averaged.pt"]
        assert {each["split"] for each in evaluated} == {"test"}
    one, other = trained[0], trained[3]
    assert {name for name in one if one[name] != other[name]} == {"seed", "save-dir"}


def test_a_named_size_sets_four_options(data, tmp_path):
    """An architecture's own option replaces one of the four."""
    archs = ["--archs", *ARCHS, "transformer_classifier[--ffn 24]"]
    words = [*archs, "--size", "small", "--match", "none", "--epochs", 3]
    trained = commands(dry_run(data, tmp_path, *words), "fairseq-train")
    names = ("layers", "embed-dim", "attention-heads", "ffn-embed-dim")
    sizes = [[options[f"encoder-{name}"] for name in names] for options in trained]
    assert sizes[0] == ["2", "128", "4", "512"] and sizes[2] == ["2", "128", "4", "24"]
    assert sizes[1][:3] == ["2", "128", "4"]


def test_a_budget_becomes_a_number_of_updates(data, tmp_path):
    """The schedule ends with the budget, and epochs do not limit the training."""
    words = ["--archs", ARCHS[0], *SMALL, "--budget", "30s"]
    printed = dry_run(data, tmp_path, *words)
    (row,) = table(printed, "parameters").values()
    (trained,) = commands(printed, "fairseq-train")
    updates = cell(row, "updates").replace(",", "")
    assert trained["max-update"] == trained["total-num-update"] == updates
    assert "max-epoch" not in trained
    assert int(updates) > 300, "of a tenth of a second, on a busy machine"


def test_a_recipe_describes_an_experiment(data, tmp_path):
    """Options of the command line replace the recipe's; architectures keep their own options."""
    recipe = {
        "data": str(data),
        "train": {"task": "long_range_arena", "criterion": "sequence_classification"},
        "architectures": {
            "wide": {"arch": "transformer_classifier", "encoder-embed-dim": 24},
            "macaron_classifier": {"dropout": 0.2},
        },
        "sizes": {"embed-dim": 16, "ffn-embed-dim": 32, "attention-heads": 2, "layers": 1},
        "seeds": [7],
    }
    recipe["train"] |= {"lra-task": "text", "optimizer": "adam", "lr": 1e-3, "max-epoch": 2}
    recipe["train"] |= {"batch-size": 8, "max-positions": 64, "dropout": 0.1}
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe, sort_keys=False))
    out = ["--out", tmp_path / "runs", "--dry-run"]
    wide, macaron = commands(run("compare", path, *out), "fairseq-train")
    assert (wide["arch"], wide["encoder-embed-dim"]) == ("transformer_classifier", "24")
    assert (wide["dropout"], macaron["dropout"], macaron["encoder-embed-dim"]) == (
        *("0.1", "0.2"),
        "16",
    )
    assert wide["seed"] == "7" and wide["save-dir"].endswith("wide-seed7")
    words = ["--archs", "wide", "--lr", "2e-3", "--seeds", 8]
    (alone,) = commands(run("compare", path, *words, *out), "fairseq-train")
    assert (alone["lr"], alone["seed"], alone["encoder-embed-dim"]) == ("2e-3", "8", "24")
    path.write_text(yaml.safe_dump({**recipe, "architecture": {}}))
    said = refuse("compare", path, *out)
    assert str(path) in said and re.search(r"\barchitecture\b", said)


def test_a_schedule_needs_its_end(data, tmp_path):
    train = {"task": "long_range_arena", "lr-scheduler": "polynomial_decay", "max-epoch": 1}
    recipe = {"data": str(data), "train": train, "architectures": {"macaron_classifier": {}}}
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    said = refuse("compare", path, "--out", tmp_path / "runs")
    assert "--lr-scheduler polynomial_decay: give --total-num-update as well" in said
