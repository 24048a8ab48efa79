"""BERT's pretraining: its data, its batches, and what a model learns from them."""

from argparse import Namespace

import pytest
import torch
from documents import draw_documents, write_documents
from fairseq import tasks
from fairseq.logging import metrics
from helpers import configs, make_model

from fairseq_odeformers.criterions.bert_pretraining import BertPretrainingCriterion

BERT = "--task bert_pretraining --criterion bert_pretraining --tokens-per-sample 24"
LINES = f"{BERT} --sample-break-mode eos"
SIZES = "--encoder-layers 2 --encoder-embed-dim 64 --encoder-ffn-embed-dim 64 "
SIZES += "--encoder-attention-heads 2 --dropout 0 --attention-dropout 0"
WORDS = 3


def draw(*sizes, **options):
    return draw_documents(*sizes, words=WORDS, **options)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, splits = tmp_path_factory.mktemp("documents"), {"train": draw(8, 40)}
    return write_documents(folder, words=WORDS, **splits, valid=draw(8, 8, seed=1))


def set_up(data, *extra, line=LINES, arch="macaron_bert"):
    """The configuration of a command line, and its task, which has loaded both splits."""
    cfg = configs([str(data), "--arch", arch, *line.split(), *SIZES.split(), *extra])
    task = tasks.setup_task(cfg.task)
    for split in ("train", "valid"):
        task.load_dataset(split)
    return cfg, task


def iterate(task, split, epoch):
    """The batches of an epoch, in the way that fairseq's trainer requests them."""
    return task.get_batch_iterator(
        task.dataset(split), max_tokens=500, max_positions=task.max_positions(), epoch=epoch
    ).next_epoch_itr(shuffle=split == "train")


def evaluate(task, model, criterion):
    """The values that are logged for the validation set."""
    model.eval()
    with torch.no_grad():
        outputs = [criterion(model, batch)[2] for batch in iterate(task, "valid", 1)]
    with metrics.aggregate(new_root=True) as values:
        BertPretrainingCriterion.reduce_metrics(outputs)
    return values.get_smoothed_values()


def test_a_model_learns_to_predict_the_next_text(data):
    """A trained model classifies more than nine of ten unseen pairs of texts correctly."""
    cfg, task = set_up(data)
    torch.manual_seed(1)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    before = evaluate(task, model, criterion)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(1, 15):
        for batch in iterate(task, "train", epoch):
            loss, size, _ = criterion(model.train(), batch)
            optimizer.zero_grad()
            (loss / size).backward()
            optimizer.step()
        after = evaluate(task, model, criterion)
        told_apart = after["next_sentence_accuracy"] > 90
        if told_apart and after["mlm_loss"] < before["mlm_loss"] - 2:
            break
    assert after["next_sentence_accuracy"] > 90 > 60 > before["next_sentence_accuracy"]
    assert after["mlm_loss"] < before["mlm_loss"] - 2


@pytest.mark.parametrize("arch", ["macaron_bert", "roberta_prenorm"])
def test_models_get_segments_and_a_head(arch, data):
    """Segments and a head are all that a model has beyond masked_lm, and all of it is trained."""
    cfg, task = set_up(data, arch=arch)
    model = task.build_model(cfg.model)
    plain = make_model(arch, "--encoder-layers", "2")
    new = {*model.state_dict()} - {*plain.state_dict()}
    assert {".".join(name.split(".")[-3:-1]) for name in new} == {
        "embed_tokens.segments",
        "next_sentence.dense",
        "next_sentence.out_proj",
    }
    loss, _, _ = task.build_criterion(cfg.criterion)(model, next(iterate(task, "train", 1)))
    loss.backward()
    assert all(parameter.grad.any() for parameter in model.parameters())


def test_batches_depend_on_seed_and_epoch(data):
    """Earlier epochs do not change the batches of an epoch.

    Validation batches are always the same.
    """

    def drawn(task, split, epoch):
        return [
            (batch["net_input"]["src_tokens"].tolist(), batch["target"].tolist())
            for batch in iterate(task, split, epoch)
        ]

    (_, seen), (_, resumed), (_, other) = (set_up(data, "--seed", n) for n in ("1", "1", "2"))
    epochs = [drawn(seen, "train", epoch) for epoch in (1, 2, 3)]
    assert drawn(resumed, "train", 3) == epochs[2]
    assert epochs[0] != epochs[1] != drawn(other, "train", 2)
    assert drawn(seen, "valid", 1) == drawn(resumed, "valid", 1)
    assert max(len(row) for tokens, _ in epochs[0] for row in tokens) <= 24


def test_folders_are_read_in_turn(tmp_path):
    """Epoch 1 reads the first folder."""
    sizes = {"one": (2, 4), "two": (3, 9), "three": (4, 20)}
    for name, size in sizes.items():
        write_documents(tmp_path / name, words=WORDS, train=draw(*size), valid=draw(2, 4))
    joined = ":".join(str(tmp_path / name) for name in sizes)
    _, task = set_up(joined)
    actual = [len(task.load_dataset("train", epoch=epoch)) for epoch in (1, 2, 3, 4)]
    expected = []
    for name in sizes:
        _, alone = set_up(tmp_path / name)
        expected.append(len(alone.dataset("train")))
    assert len({*expected}) == 3 and actual == [*expected, expected[0]]


def test_a_corpus_without_blank_lines_is_refused(tmp_path):
    folder = write_documents(tmp_path, blank=False, train=draw(4, 4), valid=draw(4, 4))
    message = f"^{folder}/train.bin has no blank lines .* put one between the documents"
    with pytest.raises(ValueError, match=message):
        set_up(folder)


@pytest.mark.parametrize("line, documents", [(BERT, draw(8, 2)), (LINES, draw(1, 8))])
def test_a_corpus_without_pairs_is_refused(line, documents, tmp_path):
    """A corpus has no pairs if each document is a single text or if there is a single document."""
    folder = write_documents(tmp_path, train=documents, valid=documents)
    message = rf"^{folder}/train.bin has no pairs of texts; lower --tokens-per-sample"
    with pytest.raises(ValueError, match=message):
        set_up(folder, "--tokens-per-sample", "64", line=line)


def test_a_missing_split_is_named(data):
    _, task = set_up(data)
    with pytest.raises(FileNotFoundError, match=f"{data}/test.idx"):
        task.load_dataset("test")


@pytest.mark.parametrize(
    "options, message",
    [
        ("--mask-whole-words", "--mask-whole-words True: .*; leave the option out"),
        ("--shorten-method truncate", "--shorten-method truncate: .*; leave the option out"),
        ("--tokens-per-sample 7", "--tokens-per-sample 7: give at least 8"),
    ],
)
def test_options_that_do_not_apply_are_refused(options, message, data):
    with pytest.raises(ValueError, match=message):
        set_up(data, *options.split())


def test_texts_over_several_documents_are_refused(data):
    message = "--sample-break-mode: complete: did you mean complete_doc"
    with pytest.raises(ValueError, match=message):
        set_up(data, "--sample-break-mode", "complete")


def test_a_model_without_segments_is_refused(data):
    """The task itself refuses the model, since Hydra has no command line that is checked before."""
    _, task = set_up(data)
    with pytest.raises(ValueError, match="--arch transformer: .*; use macaron_bert_base"):
        task.build_model(Namespace(arch="transformer"))
