"""Recipes: YAML files, folders of data, and options on a command line."""

import re
import shutil
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from fairseq.data import Dictionary

from fairseq_odeformers.lab.compare.defaults import (
    DESCRIPTIONS,
    Batches,
    choose_epochs,
    default_recipe,
    find_task,
)
from fairseq_odeformers.lab.compare.entry import Entry, make_entry
from fairseq_odeformers.lab.compare.experiments import (
    check_kinds,
    check_names,
    choose_experiments,
    parse_architecture,
    prepare_data,
)
from fairseq_odeformers.lab.compare.make_plan import make_plan
from fairseq_odeformers.lab.compare.plan import Plan
from fairseq_odeformers.lab.compare.recipe import (
    Recipe,
    find_test_sets,
    parse_words,
    read_recipe,
    to_words,
)
from fairseq_odeformers.lab.compare.runs import make_runs
from fairseq_odeformers.lab.compare.trial import build

SMALLEST = {"data": "x", "train": {"lr": 1}, "architectures": {"b": {}}}


def write(folder, name="recipe.yaml", **content):
    path = folder / name
    path.write_text(yaml.safe_dump(content))
    return path


def test_a_base_gives_what_a_recipe_does_not_say(tmp_path):
    """But figures of a paper are those of architectures that it has."""
    parts = {"one": {"data": "first"}, "two": {"data": "second", "train": {"lr": 2}}}
    train, paper = {"task": "translation", "lr": 1}, {"transformer": {"BLEU": 1}}
    architectures = {"transformer": {}, "mine": {}}
    base = write(
        *(tmp_path, "base.yaml"), train=train, architectures=architectures, parts=parts, paper=paper
    )
    own = write(tmp_path, base="base.yaml", architectures={"mine": {"dropout": 0}})
    one, two = read_recipe(own).values()
    assert (one.data, one.train["lr"], two.data, two.train["lr"]) == ("first", 1, "second", 2)
    assert one.architectures == {"mine": {"dropout": 0}}
    assert [found.paper for found in (one, *read_recipe(base, "one").values())] == [{}, paper]
    (two,) = read_recipe(own, "two").values()
    assert two.data == "second"
    with pytest.raises(ValueError, match=r"--part three: .* has one, two"):
        read_recipe(base, "three")


@pytest.fixture
def recipe():
    """A recipe that nothing trains, with a command that makes its data, and scores."""
    return Recipe(
        data="data-bin",
        train={"task": "translation", "source-lang": "de", "target-lang": "en", "lr": 1},
        architectures={"one": {"arch": "transformer", "dropout": 0}, "two": {}},
        score={"test": "odeformers score-wmt14 en-de {output}"},
        prepare="mkdir data-bin",
        average=2,
    )


def test_data_that_are_not_there_are_made(recipe, tmp_path, monkeypatch):
    """Once; a command that does not make them is refused, and so is a recipe that has none."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="data-bin.*make it: mkdir data-bin"):
        prepare_data(recipe, dry_run=True)
    for command, message in (("", "no key prepare"), ("mkdir other", "has not made data-bin")):
        with pytest.raises(ValueError, match=f"data-bin.*{message}|{message}"):
            prepare_data(replace(recipe, prepare=command))
    prepare_data(recipe)
    assert (tmp_path / "data-bin").is_dir()
    prepare_data(recipe)


@pytest.mark.parametrize(
    "saving, by, kept",
    [
        ({}, "epoch", "--keep-last-epochs 2"),
        ({"save-interval-updates": 500}, "update", "--keep-interval-updates 2 --no-epoch"),
    ],
)
def test_what_a_run_averages_and_scores(recipe, saving, by, kept):
    """The checkpoints that the training keeps, and each translation of the splits with a score."""
    entry = Entry("one", {"arch": "transformer", **saving})
    plan = Plan(recipe, (entry,), test_sets=dict.fromkeys(["valid", "test"]))
    (run,) = make_runs(plan, Path("out"))
    training, averaging, *others = (" ".join(step.words) for step in run.steps)
    for step in run.steps[2:]:
        if step.words[0] == "fairseq-generate":
            checkpoint, split, _ = step.product.split(".")
            line = " ".join(step.words)
            assert f"--path out/one-seed1/{checkpoint}.pt" in line
            assert f"--gen-subset {split} " in line
    assert kept in training
    assert "--update-epoch-batch-itr True" in training, "or it cannot go on as if not interrupted"
    assert "--num-workers 0" in training, "or processes stay that are waited for"
    assert averaging.startswith(f"odeformers average --checkpoint-dir out/one-seed1 --by {by}")
    expected = []
    for name in ("checkpoint_best", "averaged"):
        expected += ["fairseq-generate", "fairseq-generate"]
        expected.append(f"odeformers score-wmt14 en-de out/one-seed1/{name}.test.out")
    assert [line if "score" in line else line.split()[0] for line in others] == expected
    products = [step.product for step in run.steps if step.name == "scoring"]
    assert products == ["checkpoint_best.test.score", "averaged.test.score"]


def test_trainings_differ_in_their_seeds(recipe):
    """Each has a folder of its own, and all else is the same."""
    recipe.seeds = [1, 2, 3]
    entries = Entry("one", {"arch": "transformer"}), Entry("two", {"arch": "transformer"})
    lines = {}
    for run in make_runs(Plan(recipe, entries), Path("out")):
        line = " ".join(run.steps[0].words)
        lines[run.folder.name] = re.sub("--(seed|save-dir) \\S+", "", line)
        seed = run.folder.name[-1]
        assert f"--seed {seed} " in line and f"--save-dir {run.folder}" in line
    assert list(lines) == [f"{name}-seed{seed}" for seed in "123" for name in ("one", "two")]
    assert len({*lines.values()}) == 1


def test_a_language_model_is_evaluated_in_the_blocks_of_its_training(folders):
    recipe = default_recipe(folders["language_modeling"], {"transject_lm": {}}, epochs=3)
    recipe.train["user-dir"] = "plugin"
    entry = make_entry(recipe, "transject_lm", {})
    plan = Plan(recipe, (entry,), test_sets={"test": None})
    (run,) = make_runs(plan, Path("out"))
    line = " ".join(run.steps[-1].words)
    assert "--tokens-per-sample 64 --sample-break-mode none" in line and "--user-dir plugin" in line
    recipe.evaluate = {"tokens-per-sample": 8}
    (run,) = make_runs(plan, Path("out"))
    assert "--tokens-per-sample 8" in " ".join(run.steps[-1].words)


def test_the_command_line_wins_over_a_recipe(tmp_path):
    """And an option in brackets over one for all architectures, or of the recipe's own name."""
    slow = {"arch": "lstm", "dropout": 0}
    architectures = {"transformer": {"dropout": 0.1}, "lstm": {}, "slow": slow}
    path = write(tmp_path, **{**SMALLEST, "architectures": architectures})
    args = Namespace(what=path, archs=["transformer", "lstm[--lr 3]", "slow[--lr 3]"])
    vars(args).update(
        dict.fromkeys(("part", "task", "epochs", "budget", "seeds", "tune", "bleu_tokenize")),
        data="own",
        average=4,
    )
    recipe = choose_experiments(args, {"dropout": "0.2", "lr": "2"})[""]
    assert (recipe.data, recipe.prepare, recipe.average) == ("own", "", 4)
    assert recipe.train == {"lr": "2", "dropout": "0.2"}
    assert recipe.architectures == {
        "transformer": {"arch": "transformer", "dropout": "0.2"},
        "lstm-lr-3": {"arch": "lstm", "lr": "3"},
        "slow-lr-3": {"arch": "lstm", "dropout": "0.2", "lr": "3"},
    }


def test_what_an_entry_makes_of_the_options_of_a_recipe(recipe):
    """Its architecture in their values, a size for both sides, and no option that is removed.

    A shared option is left out where the model does not have it or does not support it.
    """
    recipe.train |= {"finetune-from-model": "runs/{arch}-seed1/best.pt", "clip-norm": 1}
    recipe.sizes = {"embed-dim": 256, "layers": 4}
    recipe.shared = {"dropout": 0.1, "attention-dropout": 0.2, "encoder-experts": 4}
    recipe.train["attention-dropout"] = 0.3
    own = {"arch": "transformer", "encoder-embed-dim": 32, "clip-norm": None}
    given = make_entry(recipe, "small", own).options
    assert given["finetune-from-model"] == "runs/transformer-seed1/best.pt"
    assert given["encoder-embed-dim"] == given["decoder-embed-dim"] == 32
    assert given["encoder-layers"] == given["decoder-layers"] == 4
    assert "clip-norm" not in given and "encoder-experts" not in given
    assert (given["dropout"], given["attention-dropout"]) == (0.1, 0.3), "an option of its own wins"
    recipe.train = dict.fromkeys(("task", "criterion"), "sentence_prediction")
    given = make_entry(recipe, "transformer_classifier_linear", {}).options
    assert given["dropout"] == 0.1 and "attention-dropout" not in given


@pytest.mark.parametrize(
    "text, named",
    [
        ("data: [", "YAML"),
        ("just words", "recipe"),
        (yaml.safe_dump({"data": "x", "train": {"a": 1}}), "architectures"),
        (yaml.safe_dump({**SMALLEST, "seed": 1}), "seed"),
        (yaml.safe_dump({**SMALLEST, "train": ["a"]}), "train"),
        (yaml.safe_dump({**SMALLEST, "score": "x {output}"}), "score"),
    ],
)
def test_bad_recipes_name_the_file_and_the_key(text, named, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"{path}.*{named}"):
        read_recipe(path)


def test_words_and_options_are_the_same():
    options = {"lr": "1e-3", "share-all-embeddings": True, "dropout": "0"}
    assert parse_words(to_words(options)) == options
    assert parse_words(["--restore-file=", "--name=a=b"]) == {"restore-file": "", "name": "a=b"}
    assert to_words({"off": False, "unset": None}) == []


def test_options_of_one_architecture_give_it_a_name_of_its_own():
    assert parse_architecture("transformer") == ("transformer", "transformer", {})
    found = parse_architecture("transject[--encoder-experts 1 --adam-betas '(0.9, 0.98)']")
    options = {"encoder-experts": "1", "adam-betas": "(0.9, 0.98)"}
    name = "transject-encoder-experts-1-adam-betas-_0.9__0.98_"
    assert found == (name, "transject", options)


@pytest.fixture(scope="module")
def folders(training_data):
    """Folders with data for each kind of task."""
    folder, words = training_data, training_data / "words"
    kinds = {"translation": "train.de-en.* dict.??.txt", "language_modeling": "train.??? dict.txt"}
    for task, patterns in kinds.items():
        (folder / task).mkdir()
        for path in (path for pattern in patterns.split() for path in words.glob(pattern)):
            shutil.copy(path, folder / task)
    return {**{task: folder / task for task in kinds}, "long_range_arena": words}


def test_classes_are_counted_without_what_fills_up_their_dictionary(folders, tmp_path):
    """As fairseq-preprocess does, to a multiple of 8 symbols."""
    shutil.copytree(folders["long_range_arena"], tmp_path / "data")
    path = tmp_path / "data/label/dict.txt"
    labels = Dictionary.load(str(path))
    classes = len(labels) - labels.nspecial
    labels.finalize(padding_factor=8)
    labels.save(str(path))
    recipe = default_recipe(tmp_path / "data", {"transject": {}}, "sentence_prediction", 1)
    assert recipe.train["num-classes"] == classes < len(labels) - labels.nspecial


def test_batches_and_epochs_fit_the_size_of_the_data():
    """About 20 updates in an epoch, and 1,000 in a training, within bounds."""
    batches = Batches("max-tokens", 20, 512, 4096)
    sizes = {100: 512, 20 * 512 - 1: 512, 20 * 1024: 1024, 20 * 1536 + 9: 1536, 10**9: 4096}
    assert {size: batches.choose(size) for size in sizes} == sizes
    epochs = {0: 50, 1: 50, 20: 50, 100: 10, 300: 4, 10**6: 3}
    assert {updates: choose_epochs(updates) for updates in epochs} == epochs


def test_test_sets_are_the_ones_of_the_recipe_or_of_the_data(tmp_path):
    """Else the validation set; each has its file of references, if it is kept."""
    data, plain = tmp_path / "data-bin", tmp_path / "plain"
    data.mkdir()
    plain.mkdir()
    recipe = Recipe(str(data), {"source-lang": "de", "target-lang": "en"}, {})
    assert find_test_sets(recipe) == {"valid": None}
    for split in ("train", "valid", "test", "test2016", "test.2017-06"):
        (data / f"{split}.de-en.en.idx").touch()
    (plain / "test2016.en").touch()
    (plain / "test.2017-06.en").touch()
    texts = {split: str(plain / f"{split}.en") for split in ("test.2017-06", "test2016")}
    assert find_test_sets(recipe) == {"test": None, **texts}
    assert find_test_sets(replace(recipe, splits=["valid"])) == {"valid": None}
    assert find_test_sets(replace(recipe, splits=[])) == {}


@pytest.mark.parametrize("task, folder", [("long_range_arena", "label"), ("masked_lm", "")])
def test_names_of_test_sets_may_have_dots(task, folder, tmp_path):
    (tmp_path / folder).mkdir(exist_ok=True)
    for split in ("train", "test", "test.2016", "test1"):
        (tmp_path / folder / f"{split}.idx").touch()
    recipe = Recipe(str(tmp_path), {"task": task}, {})
    assert list(find_test_sets(recipe)) == ["test", "test.2016", "test1"]


@pytest.mark.parametrize("line", ["absent-program {output}", "''", "'a b' c"])
def test_a_program_that_scores_is_there(line, recipe):
    recipe.score, recipe.splits = {"test": line}, ["test"]
    with pytest.raises(ValueError, match=f"^score {re.escape(line)}: there is no program"):
        make_plan(recipe)


def test_a_score_is_of_a_split_that_models_are_evaluated_on(recipe):
    recipe.splits = ["valid", "test1"]
    with pytest.raises(ValueError, match="^score test: .* on valid, test1; add test to"):
        make_plan(recipe)


def test_an_evaluation_gets_the_languages_and_positions_of_its_model(recipe):
    """fairseq would guess the languages, and refuse what is longer than its default."""
    recipe.train |= {"source-lang": "en", "target-lang": "pt-br"}
    entry = Entry("one", {**recipe.train, "max-source-positions": 2000})
    plan = Plan(recipe, (entry,), test_sets={"test.2016": None})
    (run,) = make_runs(plan, Path("out"))
    line = " ".join(run.steps[2].words)
    assert "--source-lang en --target-lang pt-br --max-source-positions 2000 " in line
    assert run.steps[2].product == "checkpoint_best.test.2016.out"


def test_other_files_do_not_make_a_folder_a_translation(folders, tmp_path):
    """Such as one whose name ends like that of a pair of languages."""
    shutil.copytree(folders["language_modeling"], tmp_path / "data")
    (tmp_path / "data" / "notes.2026-01.txt").touch()
    assert find_task(tmp_path / "data") == "language_modeling"


def test_a_folder_without_data_is_refused(tmp_path):
    with pytest.raises(ValueError, match=f"{tmp_path} has neither"):
        find_task(tmp_path)
    (tmp_path / "data-bin").mkdir()
    with pytest.raises(ValueError, match=f"{tmp_path}/data-bin"):
        find_task(tmp_path)


TRAINED = {  # by task: the data, and architectures
    "translation": ("translation", "macaron_transformer transevolve node_transformer_mt"),
    "long_range_arena": ("long_range_arena", "transject macaron_classifier"),
    "sentence_prediction": ("long_range_arena", "transject transevolve_classifier"),
    "language_modeling": ("language_modeling", "transject_lm transevolve_lm node_transformer_lm"),
    "masked_lm": ("language_modeling", "macaron_bert"),
    "bert_pretraining": ("language_modeling", "macaron_bert roberta_prenorm"),
}


@pytest.mark.parametrize("task", DESCRIPTIONS)
def test_every_architecture_has_the_options_of_a_default_recipe(task, folders):
    """The task is found in the data, unless that is not the only one for them."""
    folder, archs = TRAINED[task]
    assert find_task(folders[folder]) == folder
    given = None if task == folder else task
    recipe = default_recipe(folders[folder], dict.fromkeys(archs.split(), {}), given, epochs=3)
    assert (recipe.train["task"], recipe.train["max-epoch"]) == (task, 3)
    assert (task == "translation") == recipe.evaluate.get("remove-bpe", False)
    for arch in archs.split():
        cfg, _, _ = build(recipe, make_entry(recipe, arch, {}))
        assert cfg.task._name == task


@pytest.mark.parametrize(
    "task, arch, remedy",
    [
        ("translation", "transject", "give one such as transformer_prenorm "),
        ("long_range_arena", "macaron_transformer_lm", "give one such as macaron_classifier "),
        ("language_modeling", "macaron_bert", "give --task masked_lm, or one such as macaron_tr"),
        ("language_modeling", "vanilla_transformer", "give one such as transformer_lm_prenorm "),
    ],
)
def test_an_architecture_for_the_data_is_named(task, arch, remedy):
    """From the same paper, or else the pre-norm Transformer."""
    with pytest.raises(ValueError, match=f"--archs {arch}: it is for .*; {remedy}"):
        check_kinds(Recipe("data", {"task": task}, {arch: {"arch": arch}}))


@pytest.mark.parametrize(
    "task, kind", [("translation", "transformer"), ("long_range_arena", "classifier")]
)
def test_the_beginning_of_a_name_is_completed_for_the_data(task, kind):
    """By the first name for them; macaron_bert is more similar, and pretrains first of all."""
    recipe = Recipe("data", {"task": task}, {"macaron": {}})
    with pytest.raises(ValueError, match=rf"^--archs macaron: .* did you mean macaron_{kind}\b"):
        check_names(recipe, "--archs")


@pytest.mark.parametrize(
    "name, message",
    [
        ("my-pairs.tsv", "no recipe.*odeformers prepare parallel"),
        ("absent", "no such file or folder; give the binarised data, .*, or a recipe"),
        ("recipe.yaml", "transfomer: no such .*; did you mean transformer\\?"),
    ],
)
def test_what_is_no_recipe_is_refused(name, message, tmp_path):
    (tmp_path / "my-pairs.tsv").write_text("ein hund\ta dog\n")
    write(tmp_path, **{**SMALLEST, "architectures": {"transfomer": {}}})
    names = (
        "part",
        "task",
        "epochs",
        "budget",
        "seeds",
        "tune",
        "bleu_tokenize",
        "data",
        "average",
    )
    args = Namespace(what=tmp_path / name, archs=None, **dict.fromkeys(names))
    with pytest.raises(ValueError, match=f"{name}: {message}"):
        choose_experiments(args, {})
