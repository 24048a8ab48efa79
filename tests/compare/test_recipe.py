"""Recipes: YAML files, folders of data, and options on a command line."""

from pathlib import Path

import pytest
from make_checkpoints import write_data, write_splits
from script_helpers import ROOT

from fairseq_odeformers.compare.recipe import (
    command_line,
    default_recipe,
    find_task,
    parse_architecture,
    parse_words,
    read_recipe,
)

RECIPES = [
    path
    for path in sorted(ROOT.glob("examples/*/*.yaml"))
    if "odeformers compare" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_recipe_of_the_examples_is_read(path):
    for recipe in read_recipe(path).values():
        assert recipe.data and recipe.architectures and recipe.train["task"]


def test_a_base_gives_what_a_recipe_does_not_say(tmp_path):
    (tmp_path / "base.yaml").write_text(
        "train: {task: translation, lr: 1}\n"
        "architectures: {transformer: {}}\n"
        "parts: {one: {data: first}, two: {data: second, train: {lr: 2}}}\n"
    )
    (tmp_path / "own.yaml").write_text("base: base.yaml\narchitectures: {mine: {dropout: 0}}\n")
    one, two = read_recipe(tmp_path / "own.yaml").values()
    assert (one.data, one.train["lr"], two.data, two.train["lr"]) == ("first", 1, "second", 2)
    assert one.architectures == {"mine": {"dropout": 0}}
    (two,) = read_recipe(tmp_path / "own.yaml", "two").values()
    assert two.data == "second"


@pytest.mark.parametrize(
    "text, message",
    [
        ("data: [", "is not YAML"),
        ("just words", "is not a recipe"),
        ("data: x\ntrain: {a: 1}", "the key architectures is missing"),
        ("data: x\ntrain: {a: 1}\narchitectures: {b: {}}\nseed: 1", "has no key seed"),
        ("data: x\ntrain: [a]\narchitectures: {b: {}}", "train has no names of options"),
    ],
)
def test_bad_recipes_name_the_file_and_the_key(text, message, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"{path}.*{message}"):
        read_recipe(path)


def test_words_and_options_are_the_same():
    options = {"lr": "1e-3", "share-all-embeddings": True, "dropout": "0"}
    assert parse_words(command_line(options)) == options
    assert command_line({"off": False, "unset": None}) == []
    with pytest.raises(ValueError, match="0.1: an option"):
        parse_words(["0.1"])


def test_options_of_one_architecture_give_it_a_name_of_its_own():
    assert parse_architecture("transformer") == ("transformer", {})
    name, options = parse_architecture("transject[--encoder-experts 1]")
    assert name == "transject-encoder-experts-1"
    assert options == {"arch": "transject", "encoder-experts": "1"}
    with pytest.raises(ValueError, match="bracket"):
        parse_architecture("transject[--encoder-experts 1")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders with data for each kind of task."""
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    write_splits(folder, train=40)
    words = folder / "words"
    kinds = {
        "translation": ["train.de-en.de", "train.de-en.en", "dict.de.txt", "dict.en.txt"],
        "language_modeling": ["train", "dict.txt"],
    }
    for task, names in kinds.items():
        (folder / task).mkdir()
        for name in names:
            for path in [words / name, *words.glob(f"{name}.idx"), *words.glob(f"{name}.bin")]:
                if path.is_file():
                    (folder / task / path.name).write_bytes(path.read_bytes())
    return {**{task: folder / task for task in kinds}, "long_range_arena": words}


@pytest.mark.parametrize("task", ["translation", "language_modeling", "long_range_arena"])
def test_the_task_is_found_in_the_data(task, folders):
    assert find_task(folders[task]) == task
    recipe = default_recipe(folders[task], {"transformer": {}}, epochs=3)
    assert recipe.train["task"] == task
    assert recipe.train["max-epoch"] == 3


def test_a_folder_without_data_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has neither sentence pairs"):
        find_task(tmp_path)
    with pytest.raises(ValueError, match="no such folder"):
        find_task(Path("absent"))
