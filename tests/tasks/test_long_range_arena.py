"""long_range_arena against fairseq's sentence_prediction, over both layouts, with bad data."""

import shutil

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.tasks import setup_task
from helpers import SMALL, configs, scores

from fairseq_odeformers.data.classification import (
    make_dictionary,
    write_dictionaries,
    write_split,
)
from fairseq_odeformers.modules.intensity_embedding import IntensityEmbedding

SPLITS = {"train": 12, "valid": 6, "test": 6}


def write_texts(folder, inputs=1, symbols="abcdefgh", classes=("no", "maybe", "yes"), eos=True):
    """A data set of random texts of 3 to 30 symbols."""
    random = np.random.default_rng(0)
    dictionary = make_dictionary(symbols)
    write_dictionaries(folder, inputs, dictionary, classes)
    for split, size in SPLITS.items():
        examples = []
        for index in range(size):
            texts = [
                [*random.integers(4, len(dictionary), random.integers(3, 31)), *[2] * eos]
                for _ in range(inputs)
            ]
            examples.append((texts, classes[index % len(classes)]))
        write_split(folder, split, examples)
    return folder


@pytest.fixture
def data(tmp_path):
    return write_texts(tmp_path / "data")


def make_task(data, *args, name="long_range_arena", split="train"):
    """The task, set up as fairseq-train does, with a split loaded; and the model's config."""
    line = [str(data), "--task", name, "--arch", "transformer_classifier", *SMALL, *args]
    line += ["--criterion", "sentence_prediction"]
    cfg = configs(line)
    task = setup_task(cfg.task)
    task.load_dataset(split)
    task.cfg_of_model, task.cfg_of_criterion = cfg.model, cfg.criterion
    return task


def make_task_model(task):
    torch.manual_seed(0)
    return task.build_model(task.cfg_of_model).eval()


def batches(task, split="train", **limits):
    iterator = task.get_batch_iterator(task.dataset(split), **(limits or {"max_sentences": 4}))
    return list(iterator.next_epoch_itr(shuffle=False))


# --- the same as fairseq's task --------------------------------------------


@pytest.mark.parametrize("extra", [[], ["--init-token", "0"], ["--max-positions", "20"]])
def test_same_loss_as_sentence_prediction(data, extra):
    """On the first batch, with the same model; what is too long is cut in both."""
    ours = make_task(data, *extra)
    theirs = make_task(
        *[data, *extra, "--num-classes", "3", "--shorten-method", "truncate"],
        name="sentence_prediction",
    )
    losses = []
    for task in (ours, theirs):
        criterion = task.build_criterion(task.cfg_of_criterion)
        loss, size, _ = criterion(make_task_model(task), batches(task)[0])
        losses.append(loss.item() / size)
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_inputs_are_cut(data):
    """By default where the benchmark cuts them."""
    longest = {"listops": 2000, "text": 4000, "pathfinder": 1024, "image": 1024}
    for name, length in longest.items():
        assert make_task(data, "--lra-task", name).max_positions() == length
    task = make_task(data, "--max-positions", "10")
    lengths = torch.cat([batch["net_input"]["src_lengths"] for batch in batches(task)])
    assert lengths.max() == 10
    assert make_task_model(task).max_positions() == 10


# --- pairs, lengths, pixels ------------------------------------------------


def test_retrieval_keeps_the_documents_apart(tmp_path):
    task = make_task(write_texts(tmp_path, inputs=2), "--lra-task", "retrieval")
    batch = batches(task)[0]
    model = make_task_model(task)
    logits, _ = model(**batch["net_input"], classification_head_name="sentence_classification_head")
    first, second = (batch["net_input"][name] for name in ("src_tokens", "src_tokens1"))
    assert torch.equal(logits, scores(model, first, second))
    for name in ("src_lengths", "src_lengths1"):
        tokens = batch["net_input"][name.replace("lengths", "tokens")]
        assert torch.equal(tokens.ne(1).sum(1), batch["net_input"][name])
    assert first.shape != second.shape


@pytest.mark.parametrize("inputs", [1, 2])
def test_buckets_fix_the_shapes(tmp_path, inputs):
    """Batches have one of three lengths; they hold every example once, and the same scores."""
    data = write_texts(tmp_path, inputs=inputs)
    options = ["--lra-task", "retrieval" if inputs == 2 else "text"]
    free = make_task(data, *options)
    fixed = make_task(data, *options, "--num-batch-buckets", "3")
    model = make_task_model(free)
    found = {}
    for task in (free, fixed):
        shapes, by_id = set(), {}
        for batch in batches(task, max_tokens=70):
            tokens = [t for name, t in batch["net_input"].items() if "tokens" in name]
            assert tokens[0].numel() <= 70
            shapes |= {t.size(1) for t in tokens}
            by_id.update(zip(batch["id"].tolist(), scores(model, *tokens)))
        found[task] = by_id
    assert len(shapes) <= 3
    assert sorted(found[fixed]) == list(range(12))
    for index, logits in found[fixed].items():
        assert torch.allclose(logits, found[free][index], atol=1e-5)


def test_pixels_as_values(tmp_path):
    """Embedded by an affine map; padding of other images in the batch changes nothing."""
    data = write_texts(tmp_path, symbols=list(map(str, range(256))), eos=False)
    task = make_task(data, "--lra-task", "image", "--pixel-input", "value")
    model = make_task_model(task)
    assert isinstance(model.encoder.embed_tokens, IntensityEmbedding)
    tokens = batches(task)[0]["net_input"]["src_tokens"]
    for row, logits in zip(tokens, scores(model, tokens)):
        assert torch.allclose(scores(model, row[row != 1].unsqueeze(0))[0], logits, atol=1e-5)


# --- the layout that was published with Mega -------------------------------


def test_layout_of_mega(tmp_path):
    native = write_texts(tmp_path / "native", inputs=2)
    mega = tmp_path / "mega"
    for ours, theirs in [("input0", "src-bin"), ("input1", "src1-bin"), ("label", "label-bin")]:
        shutil.copytree(native / ours, mega / theirs)
    same = [make_task(folder, "--lra-task", "retrieval") for folder in (native, mega)]
    for a, b in zip(*map(batches, same)):
        assert torch.equal(a["target"], b["target"])
        for name in a["net_input"]:
            assert torch.equal(a["net_input"][name], b["net_input"][name])


def write_mega_images(folder, images, labels):
    for name, end, rows in (("input", "src", images), ("label", "label", labels)):
        (folder / name).mkdir(parents=True)
        for split in SPLITS:
            text = "".join(" ".join(map(str, np.atleast_1d(row))) + "\n" for row in rows)
            (folder / name / f"{split}.{end}").write_text(text)
    return folder


@pytest.mark.parametrize("pixel_input", ["token", "value"])
def test_images_of_mega(tmp_path, pixel_input):
    """A line of intensities an image, and a line with its class."""
    images = np.random.default_rng(0).integers(0, 256, (8, 16))
    data = write_mega_images(tmp_path, images, [0, 1, 2, 3, 0, 1, 2, 3])
    options = ["--lra-task", "image", "--pixel-input", pixel_input, "--no-shuffle"]
    task = make_task(data, *options)
    assert task.cfg.num_classes == 4
    batch = batches(task)[1]
    symbols = task.source_dictionary.symbols
    for row, tokens in zip(images[4:], batch["net_input"]["src_tokens"]):
        assert [symbols[index] for index in tokens] == list(map(str, row))
    assert batch["target"].tolist() == [0, 1, 2, 3]
    assert scores(make_task_model(task), batch["net_input"]["src_tokens"]).shape == (4, 4)


# --- batches ---------------------------------------------------------------


def test_seed(data):
    """The order of the examples depends on --seed alone, and --no-shuffle keeps the data's."""
    orders = [
        torch.cat([batch["id"] for batch in batches(make_task(data, *options))]).tolist()
        for options in (["--seed", "1"], ["--seed", "1"], ["--seed", "2"], ["--no-shuffle"])
    ]
    assert orders[0] == orders[1] != orders[2]
    assert orders[3] == sorted(orders[0]) == sorted(orders[2]) == list(range(12))


@pytest.mark.parametrize("buckets", ["0", "2"])
def test_every_example_is_in_a_batch(data, buckets):
    """Also those that remain beside batches of a multiple of eight examples."""
    task = make_task(data, "--num-batch-buckets", buckets)
    found = batches(task, max_sentences=8, required_batch_size_multiple=8)
    assert sorted(torch.cat([batch["id"] for batch in found]).tolist()) == list(range(12))


# --- bad data and options --------------------------------------------------


def test_number_of_classes(data):
    """fairseq-preprocess fills the dictionary up to a multiple of 8 symbols."""
    path = str(data / "label" / "dict.txt")
    dictionary = Dictionary.load(path)
    dictionary.finalize(padding_factor=8)
    assert len(dictionary) == 8
    dictionary.save(path)
    assert make_task(data).cfg.num_classes == 3
    with pytest.raises(ValueError, match=r"train, example 3: class 2, not from 0 to 1"):
        make_task(data, "--num-classes", "2")


def test_unequal_numbers(data):
    for end in ("bin", "idx"):
        shutil.copy(data / "label" / f"valid.{end}", data / "label" / f"train.{end}")
    with pytest.raises(ValueError, match="train do not pair up: input0 12, label 6"):
        make_task(data)


@pytest.mark.parametrize(
    "split, removed, message",
    [
        ("train", "input0/train.*", r"train\.idx and .*train\.bin: no such files"),
        ("train", "label/train.*", r"label/train\.\S+: no such file"),
        ("test", "label/test.bin", r"label/test\.\S+: no such file"),
        ("test", "label/test.idx", r"label/test\.\S+: no such file"),
        ("train", "input0", "has no folder of inputs: none of input0"),
    ],
)
def test_missing_files(data, split, removed, message):
    """A test set may be without labels, but not with a part of their files."""
    for path in data.glob(removed):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(FileNotFoundError, match=message):
        make_task(data, split=split)


def test_a_test_set_may_have_no_labels(data):
    for path in (data / "label").glob("test.*"):
        path.unlink()
    assert "target" not in batches(make_task(data, split="test"), "test")[0]


@pytest.mark.parametrize(
    "images, labels, message",
    [
        (["1 2 3", "1 2"], [0, 1], r"train.src, line 2: 2 numbers, expected 3"),
        (["1 2 3", "1 256 3"], [0, 1], r"train.src, line 2: expected numbers from 0 to 255"),
        (["1 2 3", "1 x 3"], [0, 1], r"train.src, line 2: expected numbers from 0 to 255"),
        (["1 2 3", "1 2 3"], [0], r"train do not pair up: input 2, label 1"),
        (["1 2 3"], ["cat"], r"label, line 1: expected numbers"),
        (["1 2 3"], [], r"label has no lines"),
    ],
)
def test_bad_images_of_mega(tmp_path, images, labels, message):
    data = write_mega_images(tmp_path, images, labels)
    with pytest.raises(ValueError, match=message):
        make_task(data, "--lra-task", "image")


@pytest.mark.parametrize(
    "inputs, pixels, options",
    [
        (1, False, "--pixel-input value"),
        (1, True, "--init-token 0 --pixel-input value"),
        (1, False, "--num-batch-buckets -1"),
        (1, False, "--num-classes 4"),
        (1, False, "--lra-task retrieval"),
        (2, False, "--lra-task text"),
        (1, False, "--separator-token 2"),
        (1, False, "--shorten-method random_crop"),
        (2, False, "--lra-task retrieval --arch macaron_bert_base"),
        (1, True, "--pixel-input value --arch macaron_bert_base"),
    ],
)
def test_refused_options(tmp_path, inputs, pixels, options):
    """The message begins with the option; RoBERTa and its like read one text of symbols."""
    symbols = list(map(str, range(256))) if pixels else "abcdefgh"
    data, options = write_texts(tmp_path, inputs, symbols), options.split()
    with pytest.raises(ValueError, match=" ".join(options[:2]) + ": "):
        make_task_model(make_task(data, "--encoder-layers", "1", *options))
