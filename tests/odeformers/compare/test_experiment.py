"""Experiments: YAML files, folders of data, and options on a command line."""

import re
import shutil

import pytest
import yaml
from fairseq.data import Dictionary

from fairseq_odeformers.registry import Kind
from odeformers.compare.command import make_parser
from odeformers.compare.experiment import (
    find_data,
    find_test_sets,
    parse_architectures,
    parse_tuning,
    read_experiments,
)
from odeformers.compare.recipe import Batches, choose_epochs, find_task, read_parts
from odeformers.processes import parse_words, to_words

TRAIN = {"task": "translation", "source-lang": "de", "target-lang": "en", "lr": 1e-3}


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Writes a recipe with changed keys and existing data, and returns its path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()

    def write(name="recipe.yaml", **changes):
        content = {"data": "data", "train": TRAIN, "architectures": {"lstm": {}}, **changes}
        path = tmp_path / name
        path.write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}))
        return path

    return write


def read(*words):
    """The experiments of a command line."""
    args, others = make_parser().parse_known_args([str(word) for word in words])
    experiments = read_experiments(args, parse_words(others))
    return {name: find_data(each, args.dry_run) for name, each in experiments.items()}


def test_a_recipe_inherits_from_its_base(recipe):
    parts = {"one": {"seeds": [1]}, "two": {"seeds": [2], "train": {"lr": 2e-3}}}
    architectures = {"transformer": {}, "lstm": {}}
    recipe("base.yaml", architectures=architectures, parts=parts)
    own = recipe(data=None, train=None, base="base.yaml", architectures={"lstm": {"dropout": 0}})
    one, two = read(own).values()
    assert (one.seeds, one.train["lr"], two.seeds, two.train["lr"]) == ([1], 1e-3, [2], 2e-3)
    assert one.architectures == {"lstm": {"dropout": 0}}
    with pytest.raises(ValueError, match=r"--part three: .* has one, two"):
        read("base.yaml", "--part", "three")


@pytest.mark.parametrize(
    "text, value",
    [
        *(("no", "no"), ("NO", "NO"), ("on", "on"), ("yes", "yes"), ("2016-05-01", "2016-05-01")),
        *(("true", True), ("False", False), ("1e-3", "1e-3"), ("0.5", 0.5), ("3", 3)),
        *(("0", 0), ("012", "012"), ("0x10", "0x10"), ("1:30", "1:30"), ("-0.5", -0.5)),
    ],
)
def test_only_true_and_false_are_no_strings(text, value, tmp_path):
    """The language code no, Norwegian, is not read as false."""
    (tmp_path / "recipe.yaml").write_text(f"train: {{target-lang: {text}}}")
    assert read_parts(tmp_path / "recipe.yaml")[""]["train"] == {"target-lang": value}


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"architectures": None}, "the key architectures is missing"),
        ({"seed": 1}, "there is no key seed; did you mean seeds"),
        ({"options": 1}, "there is no key options; choose from data, train, "),
        ({"train": ["a"]}, "train has the wrong type .*Dict"),
        ({"score": "x {output}"}, "score has the wrong type .*Dict"),
        ({"shared": {"droput": 0.1}}, "shared: no model has the option droput"),
        ({"seeds": 3}, "seeds has the wrong type .*list"),
        ({"sizes": {"embedding": 8}}, "sizes has no key embedding; did you mean embed-dim"),
        ({"average": "two"}, "average has the wrong type .*'two'"),
        ({"architectures": {"transfomer": {}}}, "transfomer: no such .*; did you mean transformer"),
        ({"parts": {"a": {"seed": 1}}}, ", part a: there is no key seed"),
        ({"base": "absent.yaml"}, "base: there is no recipe .*absent.yaml; give its path from"),
    ],
)
def test_bad_recipes_name_the_file_and_the_key(changes, message, recipe):
    path = recipe(**changes)
    with pytest.raises(ValueError, match=f"{path}.*{message}"):
        read(path)


def test_a_key_replaces_the_one_of_a_merged_dictionary(tmp_path):
    """The merged dictionary may itself be used in another merge, higher up in the file."""
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "train: {a: &own {<<: &base {lr: 1, seed: 1}, lr: 2}}\nshared: {<<: *own, lr: 3}\n"
    )
    (content,) = read_parts(path).values()
    assert content["train"]["a"] == {"lr": 2, "seed": 1}
    assert content["shared"] == {"lr": 3, "seed": 1}


@pytest.mark.parametrize(
    "text, message",
    [
        ("data: [", "YAML"),
        ("just words", "recipe"),
        ("data: a\ntrain:\n  lr: 1\n  lr: 2", "duplicate key lr in the mapping at line 3"),
    ],
)
def test_a_file_that_is_no_yaml_is_refused(text, message, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"{path}.*{message}"):
        read(path)


def test_missing_data_are_prepared(recipe, tmp_path):
    """The recipe's command prepares them once; a missing or failing command is an error."""
    path = recipe(data="new", prepare="mkdir new")
    with pytest.raises(ValueError, match="new: no such folder; make it: mkdir new"):
        read(path, "--dry-run")
    assert read(path)[""].data == str(tmp_path / "new")
    read(path)
    for command, message in (("", "no key prepare"), ("mkdir other", "has not made absent")):
        path = recipe(data="absent", prepare=command)
        with pytest.raises(ValueError, match=message):
            read(path)


def test_wrong_options_are_refused_before_data_are_prepared(recipe, tmp_path):
    parts = {"one": {"data": "new", "prepare": "mkdir new"}, "two": {"seeds": [1, 1]}}
    with pytest.raises(ValueError, match="--seeds 1 1: list each seed once"):
        read(recipe(parts=parts))
    assert not (tmp_path / "new").exists()


def test_the_command_line_overrides_a_recipe(recipe, tmp_path):
    """An option in brackets overrides the options for all architectures and the recipe's."""
    (tmp_path / "own").mkdir()
    architectures = {"transformer": {"dropout": 0.1}, "slow": {"arch": "lstm", "dropout": 0}}
    path = recipe(architectures={**architectures, "lstm": {}}, prepare="false", average=2)
    words = ["--archs", "transformer", "lstm[--lr 3e-3]", "slow[--lr 3e-3]", "--data", "own"]
    words += ["--average", 4, "--dropout", 0.2, "--lr", "2e-3", "--seeds", "1,2", 3]
    experiment = read(path, *words)[""]
    assert (experiment.data, experiment.average, experiment.seeds) == (
        str(tmp_path / "own"),
        4,
        [1, 2, 3],
    )
    assert (experiment.train["lr"], experiment.train["dropout"]) == ("2e-3", "0.2")
    assert experiment.architectures == {
        "transformer": {"arch": "transformer", "dropout": "0.2"},
        "lstm-lr-3e-3": {"arch": "lstm", "lr": "3e-3"},
        "slow-lr-3e-3": {"arch": "lstm", "dropout": "0.2", "lr": "3e-3"},
    }


def test_a_score_program_must_exist_and_name_a_split(recipe):
    for line in ("absent-program {output}", "''", "'a b' c"):
        path = recipe(score={"test": line}, splits=["test"])
        with pytest.raises(ValueError, match=f"^score {re.escape(line)}: there is no program"):
            read(path)
    path = recipe(score={"test": "true"}, splits=["valid", "test1"])
    with pytest.raises(ValueError, match="^score test: .* on valid, test1; add test to"):
        read(path)


def test_test_sets_come_from_the_recipe_or_the_data(tmp_path):
    """The default is the validation set, and each set has its references, if they are kept."""
    data, plain = tmp_path / "data-bin", tmp_path / "plain"
    data.mkdir()
    plain.mkdir()

    def find(splits=None):
        return find_test_sets(Kind.TRANSLATION, data, TRAIN, splits)

    assert find() == {"valid": None}
    for split in ("train", "valid", "test", "test2016", "test.2017-06"):
        (data / f"{split}.de-en.en.idx").touch()
    (plain / "test2016.en").touch()
    (plain / "test.2017-06.en").touch()
    texts = {split: str(plain / f"{split}.en") for split in ("test.2017-06", "test2016")}
    assert find() == {"test": None, **texts}
    assert find(["valid"]) == {"valid": None} and find([]) == {}
    (
        data / "test3.en-de.en.idx"
    ).touch()  # data prepared for the other direction, which fairseq reads
    assert find() == {"test": None, **texts, "test3": None}


@pytest.mark.parametrize(
    "kind, folder", [(Kind.CLASSIFICATION, "label"), (Kind.LANGUAGE_MODEL, "")]
)
def test_names_of_test_sets_may_have_dots(kind, folder, tmp_path):
    (tmp_path / folder).mkdir(exist_ok=True)
    for split in ("train", "test", "test.2016", "test1"):
        (tmp_path / folder / f"{split}.idx").touch()
    assert list(find_test_sets(kind, tmp_path, {})) == ["test", "test.2016", "test1"]


def test_words_and_options_convert_into_each_other():
    options = {"lr": "1e-3", "share-all-embeddings": True, "dropout": "0"}
    assert parse_words(to_words(options)) == options
    assert parse_words(["--restore-file=", "--name=a=b"]) == {"restore-file": "", "name": "a=b"}
    assert to_words({"off": False, "unset": None}) == []


def test_options_of_an_architecture_are_part_of_its_name():
    architectures = parse_architectures(
        ["transformer", "transject[--encoder-experts 1 --adam-betas '(0.9, 0.98)']"]
    )
    assert architectures == {
        "transformer": {"arch": "transformer"},
        "transject-encoder-experts-1-adam-betas-_0.9__0.98_": {
            "arch": "transject",
            "encoder-experts": "1",
            "adam-betas": "(0.9, 0.98)",
        },
    }


def test_tuned_options_need_two_or_more_values():
    assert parse_tuning(["lr=1,2", "--dropout=0,3"]) == {"lr": ["1", "2"], "dropout": ["0", "3"]}
    for text in ("lr", "lr=", "lr=1", "lr=1,,2"):
        remedy = "two or more values with commas and no spaces between them: lr="
        with pytest.raises(ValueError, match=f"--tune {text}: give {remedy}"):
            parse_tuning([text])


def test_no_grid_is_dropped_without_a_word(recipe):
    path = recipe(architectures={"lstm": {}})
    experiment = read(path, "--tune", "lr=1,2", "--tune", "dropout=0,3")[""]
    assert experiment.tune == {"lr": ["1", "2"], "dropout": ["0", "3"]}
    with pytest.raises(ValueError, match="--tune lr=3,4: lr is given twice; list all its values"):
        read(path, "--tune", "lr=1,2", "lr=3,4")


@pytest.mark.parametrize("values", [["1e-3", 0.001], ["a", "a"], [0.1, "0.10"]])
def test_a_repeated_tuned_value_is_refused(values, recipe):
    """Numbers are compared as numbers."""
    path, listed = recipe(tune={"dropout": values}), ",".join(map(str, values))
    with pytest.raises(ValueError, match=f"{path}: tune: dropout={listed}: give each value once"):
        read(path)
    read(recipe(tune={"dropout": [values[0], "0.2"]}))


@pytest.mark.parametrize("option", ["size", "width", "ffn", "encoder-embed-dim"])
def test_tuned_widths_conflict_with_equal_parameters(option, recipe):
    """Only several models with requested equal parameters conflict."""
    path = recipe(architectures={"lstm": {}, "transformer": {}})
    words = [path, "--tune", f"{option}=8,16"]
    with pytest.raises(ValueError, match=f"--tune {option}: equal parameters set widths"):
        read(*words, "--match", "parameters")
    assert read(*words)[""].tune == {option: ["8", "16"]}
    read(path, "--match", "parameters", "--tune", "layers=1,2", "batch-size=8,16")


@pytest.fixture(scope="module")
def folders(training_data):
    """Folders with data for each kind of task."""
    folder, words = training_data, training_data / "words"
    kinds = {"translation": "train.de-en.* dict.??.txt", "language_modeling": "train.??? dict.txt"}
    for task, patterns in kinds.items():
        (folder / task).mkdir(exist_ok=True)
        for path in (path for pattern in patterns.split() for path in words.glob(pattern)):
            shutil.copy(path, folder / task)
    return {**{task: folder / task for task in kinds}, "long_range_arena": words}


def test_classes_are_counted_without_fill_symbols(folders, tmp_path):
    """fairseq-preprocess pads the dictionary to a multiple of 8 symbols."""
    data = shutil.copytree(folders["long_range_arena"], tmp_path / "data")
    labels = Dictionary.load(str(data / "label/dict.txt"))
    classes = len(labels) - labels.nspecial
    labels.finalize(padding_factor=8)
    labels.save(str(data / "label/dict.txt"))
    experiment = read(data, "--archs", "transject", "--task", "sentence_prediction")[""]
    assert experiment.train["num-classes"] == classes < len(labels) - labels.nspecial


def test_bert_pretraining_has_its_criterion_and_documents(folders):
    words = ["--archs", "macaron_bert", "--task", "bert_pretraining"]
    experiment = read(folders["language_modeling"], *words)[""]
    assert experiment.train["criterion"] == "bert_pretraining" and experiment.test_sets == {}
    assert experiment.train["sample-break-mode"] == "complete_doc"


def test_batches_and_epochs_fit_the_size_of_the_data():
    """An epoch has about 20 updates and a training 1,000, within bounds."""
    batches = Batches("max-tokens", 20, 512, 4096)
    sizes = {100: 512, 20 * 512 - 1: 512, 20 * 1024: 1024, 20 * 1536 + 9: 1536, 10**9: 4096}
    assert {size: batches.choose(size) for size in sizes} == sizes
    epochs = {0: 50, 1: 50, 20: 50, 100: 10, 300: 4, 10**6: 3}
    assert {updates: choose_epochs(updates) for updates in epochs} == epochs


def test_the_task_is_inferred_from_the_data(folders, tmp_path):
    """A file whose name ends like a pair of languages does not make it translation."""
    assert {task: find_task(folder) for task, folder in folders.items()} == {n: n for n in folders}
    data = shutil.copytree(folders["language_modeling"], tmp_path / "data")
    (data / "notes.2026-01.txt").touch()
    assert find_task(data) == "language_modeling"
    for folder in (tmp_path, tmp_path / "data-bin"):
        with pytest.raises(ValueError, match=f"{tmp_path} has neither|{tmp_path}/data-bin"):
            find_task(tmp_path)
        folder.joinpath("data-bin").mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize(
    "task, arch, remedy",
    [
        ("translation", "transject", "give one such as transformer_prenorm "),
        ("translation", "transformer_lm", "give one such as transformer_prenorm "),
        ("long_range_arena", "macaron_transformer_lm", "give one such as macaron_classifier "),
        ("language_modeling", "macaron_bert", "give --task masked_lm, or one such as macaron_tr"),
        ("translation", "macaron", r"no such .* did you mean macaron_transformer\b"),
        ("long_range_arena", "macaron", r"no such .* did you mean macaron_classifier\b"),
    ],
)
def test_an_architecture_for_the_data_is_suggested(task, arch, remedy, folders):
    """An architecture of the same paper comes first, else the baseline; a prefix is completed."""
    with pytest.raises(ValueError, match=f"--archs {arch}: .*{remedy}"):
        read(folders[task], "--archs", arch)
