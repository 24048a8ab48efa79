"""long_range_arena against fairseq's sentence_prediction, over both layouts, with bad data."""

import shutil

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.tasks import setup_task
from helpers import configs, scores, small

from fairseq_odeformers.data.classification import make_dictionary, write_dictionaries, write_split
from fairseq_odeformers.modules.intensity_embedding import IntensityEmbedding
from fairseq_odeformers.tasks.long_range_arena import find_layout

ARCH = "transformer_classifier"
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
    """A task, set up as by fairseq-train with one split loaded, and the model's config."""
    line = [str(data), "--task", name, "--arch", ARCH, *small(ARCH), *args]
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


@pytest.mark.parametrize("extra", [[], ["--init-token", "0"], ["--max-positions", "20"]])
def test_loss_equals_sentence_prediction(data, extra):
    """Both tasks give one model the same loss on the first batch, also where they truncate."""
    theirs = ["--num-classes", "3", "--shorten-method", "truncate"]
    losses = []
    for name, options in (("long_range_arena", []), ("sentence_prediction", theirs)):
        task = make_task(data, *extra, *options, name=name)
        criterion = task.build_criterion(task.cfg_of_criterion)
        loss, size, _ = criterion(make_task_model(task), batches(task)[0])
        losses.append(loss.item() / size)
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_inputs_are_truncated(data):
    """Inputs are truncated to the benchmark's lengths by default, or to --max-positions."""
    longest = {"listops": 2000, "text": 4000, "pathfinder": 1024, "pathx": 16384, "image": 1024}
    for name, length in longest.items():
        assert make_task(data, "--lra-task", name).max_positions() == length
    task = make_task(data, "--max-positions", "10")
    assert max(batch["net_input"]["src_lengths"].max() for batch in batches(task)) == 10
    assert make_task_model(task).max_positions() == 10


def test_truncated_texts_are_warned_of(data, caplog):
    """The warning has their number and the limit; texts that fit cause none."""
    make_task(data)
    assert not caplog.records
    make_task(data, "--max-positions", "10")
    (warning,) = caplog.messages
    texts = data_utils.load_indexed_dataset(str(data / "input0/train"), None)
    longer = sum(len(text) > 10 for text in texts)
    assert warning == (
        f"{data / 'input0/train'}: {longer} of 12 texts are truncated to 10 tokens "
        "(--max-positions)"
    )


def test_shorten_method_changes_nothing(data):
    """All inputs are truncated without the option, too."""
    plain, asked = (
        make_task(data, "--max-positions", "3", *more).dataset("train")
        for more in ([], ["--shorten-method", "truncate"])
    )
    tokens = [dataset[0]["net_input.src_tokens"].tolist() for dataset in (plain, asked)]
    assert tokens[0] == tokens[1] and len(tokens[0]) == 3


@pytest.mark.parametrize("longest", [1, 2, 29, 33])
def test_the_init_token_counts_as_a_position(data, longest):
    """The init token comes first, and the longest input with it has as many tokens as positions."""
    texts = data_utils.load_indexed_dataset(str(data / "input0/train"), None)
    options = ["--init-token", "0", "--no-shuffle", "--max-positions", str(longest)]
    dataset = make_task(data, *options).dataset("train")
    for index, text in enumerate(texts):
        expected = [0, *text.tolist()][:longest]
        assert dataset[index]["net_input.src_tokens"].tolist() == expected
        assert dataset[index]["net_input.src_lengths"] == len(expected)
        assert dataset.num_tokens(index) == len(expected)


# --- pairs, lengths, pixels ------------------------------------------------


def test_a_checkpoint_keeps_the_names_of_the_classes(data):
    """Names are saved in order, so that predictions and other data can be compared with them."""
    assert make_task(data).state_dict() == {"classes": ["no", "maybe", "yes"]}


def test_retrieval_keeps_the_documents_separate(tmp_path):
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
def test_buckets_limit_the_shapes_of_batches(tmp_path, inputs):
    """Batches have one of three lengths and contain every example once, with unchanged scores."""
    data = write_texts(tmp_path, inputs=inputs)
    options = ["--lra-task", "retrieval" if inputs == 2 else "text"]
    free = make_task(data, *options)
    fixed = make_task(data, *options, "--num-batch-buckets", "3")
    model = make_task_model(free)
    results = {}
    for task in (free, fixed):
        shapes, by_id = set(), {}
        for batch in batches(task, max_tokens=70):
            tokens = [t for name, t in batch["net_input"].items() if "tokens" in name]
            lengths = [t for name, t in batch["net_input"].items() if "lengths" in name]
            assert all(torch.equal(n, t.ne(1).sum(1)) for n, t in zip(lengths, tokens))
            assert tokens[0].numel() <= 70
            shapes |= {t.size(1) for t in tokens}
            by_id.update(zip(batch["id"].tolist(), scores(model, *tokens)))
        results[task] = by_id
    assert len(shapes) <= 3
    assert sorted(results[fixed]) == list(range(12))
    for index, logits in results[fixed].items():
        assert torch.allclose(logits, results[free][index], atol=1e-5)


# --- Mega's published layout -----------------------------------------------


def test_megas_layout_of_texts_is_read(tmp_path):
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
    """Write images and classes in Mega's layout, one per line."""
    for name, end, lines in (("input", "src", images), ("label", "label", labels)):
        (folder / name).mkdir(parents=True)
        for split in SPLITS:
            (folder / name / f"{split}.{end}").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.mark.parametrize("pixel_input", ["token", "value"])
def test_megas_images_are_read(tmp_path, pixel_input):
    """Each image is a line of intensities, and its class is a line of another file."""
    images = [
        " ".join(map(str, image)) for image in np.random.default_rng(0).integers(0, 256, (8, 16))
    ]
    data = write_mega_images(tmp_path, images, [0, 1, 2, 3, 0, 1, 2, 3])
    options = ["--lra-task", "image", "--pixel-input", pixel_input, "--no-shuffle"]
    task = make_task(data, *options)
    assert task.cfg.num_classes == 4
    batch = batches(task)[1]
    symbols = task.source_dictionary.symbols
    found = [" ".join(symbols[n] for n in row) for row in batch["net_input"]["src_tokens"]]
    assert found == images[4:]
    assert batch["target"].tolist() == [0, 1, 2, 3]
    model = make_task_model(task)
    as_numbers = isinstance(model.encoder.embed_tokens, IntensityEmbedding)
    assert as_numbers == (pixel_input == "value")
    assert scores(model, batch["net_input"]["src_tokens"]).shape == (4, 4)


@pytest.mark.parametrize(
    "images, labels, message",
    [
        (["1 2 3", "1 2"], [0, 1], "train.src, line 2: "),
        (["1 2 3", "1 256 3"], [0, 1], "train.src, line 2: "),
        (["1 2 3", "1 x 3"], [0, 1], "train.src, line 2: "),
        (["1 2 3", "1 2 3"], [0], "train do not pair up: input 2, label 1"),
        (["1 2 3"], ["cat"], "label, line 1: "),
        (["1 2 3"], [], "label has no lines"),
    ],
)
def test_bad_images_in_megas_layout_are_named(tmp_path, images, labels, message):
    data = write_mega_images(tmp_path, images, labels)
    with pytest.raises(ValueError, match=message):
        make_task(data, "--lra-task", "image")


# --- batches ---------------------------------------------------------------


def test_the_seed_determines_the_order(data):
    """The order of the examples depends only on --seed, and --no-shuffle keeps the data's order."""
    orders = [
        torch.cat([batch["id"] for batch in batches(make_task(data, *options))]).tolist()
        for options in (["--seed", "1"], ["--seed", "1"], ["--seed", "2"], ["--no-shuffle"])
    ]
    assert orders[0] == orders[1] != orders[2]
    assert orders[3] == sorted(orders[0]) == sorted(orders[2]) == list(range(12))


@pytest.mark.parametrize("buckets", ["0", "2"])
def test_every_example_is_in_a_batch(data, buckets):
    """Batches also contain the remainder beside batches of a multiple of eight examples."""
    task = make_task(data, "--num-batch-buckets", buckets)
    all_batches = batches(task, max_sentences=8, required_batch_size_multiple=8)
    assert sorted(torch.cat([batch["id"] for batch in all_batches]).tolist()) == list(range(12))


# --- bad data and options --------------------------------------------------


def test_the_number_of_classes_ignores_fill_symbols(data):
    """fairseq-preprocess pads the dictionary of the classes to a multiple of 8 symbols."""
    path = str(data / "label" / "dict.txt")
    dictionary = Dictionary.load(path)
    dictionary.finalize(padding_factor=8)
    dictionary.save(path)
    assert make_task(data).cfg.num_classes == 3
    with pytest.raises(ValueError, match="train, example 3: class 2, .*--num-classes 2"):
        make_task(data, "--num-classes", "2")


def test_data_of_sentence_pairs_are_refused(tmp_path):
    for name in ("dict.de.txt", "dict.en.txt", "test.de-en.de.idx"):
        (tmp_path / name).touch()
    with pytest.raises(FileNotFoundError, match="for sentence pairs, use odeformers"):
        find_layout(tmp_path)


@pytest.mark.parametrize(
    "split, removed, message",
    [
        ("train", "input0/train.*", r"input0/train\.\S+"),
        ("train", "label/train.*", r"label/train\.\S+"),
        ("test", "label/test.bin", r"label/test\.\S+"),
        ("test", "label/test.idx", r"label/test\.\S+"),
        ("train", "input0", "has none of the input folders input0, .*; pass data with labelled"),
    ],
)
def test_missing_files_are_named(data, split, removed, message):
    """A test set may lack all files of labels, but not only some of them."""
    for path in data.glob(removed):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(FileNotFoundError, match=message):
        make_task(data, split=split)


@pytest.mark.parametrize(
    "inputs, options",
    [
        (1, "--pixel-input value"),
        (1, "--num-batch-buckets -1"),
        (1, "--num-classes 4"),
        (1, "--lra-task retrieval"),
        (2, "--lra-task text"),
        (1, "--separator-token 2"),
        (1, "--shorten-method random_crop"),
        (1, "--init-token 13"),  # the first number without a symbol
        (2, "--lra-task retrieval --arch macaron_bert_base"),
        ("pixels", "--init-token 0 --pixel-input value"),
        ("pixels", "--pixel-input value --arch macaron_bert_base"),
    ],
)
def test_bad_options_are_named(tmp_path, inputs, options):
    """The message begins with the option.

    RoBERTa and similar models read a single text of symbols.
    """
    pixels = inputs == "pixels"
    symbols = list(map(str, range(256))) if pixels else "abcdefgh"
    data, options = write_texts(tmp_path, 1 if pixels else inputs, symbols), options.split()
    with pytest.raises(ValueError, match=" ".join(options[:2]) + ": "):
        make_task_model(make_task(data, "--encoder-layers", "1", *options))
