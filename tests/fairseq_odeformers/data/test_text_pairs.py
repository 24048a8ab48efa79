"""Pairs of neighbouring texts, and of texts of two documents; words are masked, nothing else."""

import numpy as np
import pytest
import torch
from documents import draw_documents
from fairseq.data import Dictionary
from fairseq.data.list_dataset import ListDataset
from helpers import EOS, PAD
from make_checkpoints import make_dictionary

from fairseq_odeformers.data.text_pairs import MaskedPairs, TextPairs

BOS, WORDS, COUNT = Dictionary().bos(), 5, 12
DOCUMENTS = draw_documents(COUNT, lines=7)
DICTIONARY = make_dictionary(WORDS * COUNT)
MASK = DICTIONARY.add_symbol("<mask>")
MASKING = {"mask_idx": MASK, "mask_prob": 0.3}


def make_pairs(documents=DOCUMENTS, break_mode="eos", longest=40, seed=1):
    lines = [torch.tensor([*line, EOS]) for text in documents for line in [*text, []]]
    sizes = np.array([len(line) for line in lines])
    return TextPairs(ListDataset(lines, sizes), break_mode, longest, DICTIONARY, seed)


def split(tokens):
    """The two texts of a pair, after a check of its form."""
    tokens = tokens.tolist()
    first = tokens.index(EOS)
    assert tokens[0] == BOS and tokens[-1] == EOS and tokens.count(EOS) == 2
    return tokens[1:first], tokens[first + 1 : -1]


def document_of(text):
    """The number of the document whose words a text has."""
    (number,) = {(word - 4) // WORDS for word in text}
    return number


@pytest.mark.parametrize("epoch", [1, 2])
def test_half_of_the_second_texts_follow_the_first(epoch):
    pairs = make_pairs()
    pairs.set_epoch(epoch)
    assert len(pairs) == COUNT * 6 and pairs.follows.sum() == len(pairs) // 2
    for index, follows in enumerate(pairs.follows):
        a, b = split(pairs[index])
        number, place = divmod(index, 6)
        assert a == DOCUMENTS[number][place]
        if follows:
            assert b == DOCUMENTS[number][place + 1]
        else:
            assert b in DOCUMENTS[document_of(b)][1:] and document_of(b) != number


def test_every_other_document_is_equally_likely():
    """Each other document gives the second text equally often, whatever its place."""
    pairs, drawn = make_pairs(DOCUMENTS[:3]), np.zeros((3, 3))
    for epoch in range(1, 401):
        pairs.set_epoch(epoch)
        for first, second in zip(pairs.first[pairs.follows == 0], pairs.second[pairs.follows == 0]):
            drawn[first // 8, second // 8] += 1  # of lines, a blank one included
    shares = drawn / drawn.sum(1, keepdims=True)
    assert np.abs(shares - (1 - np.eye(3)) / 2).max() < 0.05


def test_pairs_depend_only_on_seed_and_epoch():
    def drawn(seed, *epochs):
        pairs = make_pairs(seed=seed)
        for epoch in epochs:
            pairs.set_epoch(epoch)
        order = pairs.ordered_indices()
        return [*order, *(tokens for index in order for tokens in pairs[index].tolist())]

    assert drawn(1, 3) == drawn(1, 1, 2, 3)
    assert len({tuple(drawn(seed, epoch)) for seed in (1, 2) for epoch in (1, 2)}) == 4
    assert not make_pairs().can_reuse_epoch_itr_across_epochs


def test_lines_are_joined_up_to_half_of_a_pair():
    """Each text consists of whole consecutive lines of one document."""
    longest = 30
    pairs = make_pairs(break_mode="complete_doc", longest=longest)
    for index in np.flatnonzero(pairs.follows):
        a, b = split(pairs[index])
        whole = sum(DOCUMENTS[document_of(a)], [])
        start = next(i for i in range(len(whole)) if whole[i : i + len(a + b)] == a + b)
        ends = np.cumsum([0, *map(len, DOCUMENTS[document_of(a)])])
        assert {start, start + len(a), start + len(a + b)} <= set(ends)
        assert max(len(a), len(b)) <= (longest - 3) // 2
    assert max(pairs.lengths) > 6  # more than a line


@pytest.mark.parametrize("lengths", [(5, 5), (3, 20), (20, 3), (20, 20), (8, 9)])
def test_the_longer_text_is_truncated(lengths):
    """Pairs are truncated to exactly the longest length, and their sizes are the truncated ones."""
    documents = [[[4 + n] * lengths[0], [4 + n] * lengths[1]] for n in (0, WORDS)]
    pairs = make_pairs(documents, longest=20)
    for epoch in (1, 2):
        pairs.set_epoch(epoch)
        for index in range(2):
            a, b = map(len, split(pairs[index]))
            assert a + b == min(sum(lengths), 17)
            assert a >= min(lengths[0], 8) and b >= min(lengths[1], 8)
            assert pairs.size(index) == pairs.num_tokens(index) == a + b + 3
    lengths = [pairs.size(index) for index in pairs.ordered_indices()]
    assert lengths == sorted(lengths)


@pytest.mark.parametrize("documents", [DOCUMENTS[:1], [text[:1] for text in DOCUMENTS]])
def test_fewer_than_two_documents_with_two_texts_are_refused(documents):
    with pytest.raises(ValueError, match="fewer than two documents have two texts"):
        make_pairs(documents)


def test_words_are_masked_and_separators_are_not():
    """Words are masked as often as in fairseq's data set. The targets are the original words."""
    pairs = make_pairs()
    dataset, masked = MaskedPairs(pairs, DICTIONARY, **MASKING), 0
    for epoch in (1, 2):
        dataset.set_epoch(epoch)
        assert [part.epoch for part in (pairs, dataset.source, dataset.target)] == [epoch] * 3
        for index in range(len(dataset)):
            sample, tokens = dataset[index], pairs[index]
            chosen = sample["target"] != PAD
            special = (tokens == BOS) | (tokens == EOS)
            assert torch.equal(sample["source"][~chosen], tokens[~chosen])
            assert torch.equal(sample["target"][chosen], tokens[chosen])
            assert not (chosen & special).any()
            assert sample["follows"] == pairs.follows[index]
            masked += chosen.sum() / (~special).sum()
    assert masked / (2 * len(dataset)) == pytest.approx(0.3, abs=0.03)


def test_a_batch_is_padded_on_the_right():
    dataset = MaskedPairs(make_pairs(), DICTIONARY, **MASKING)
    samples = [dataset[index] for index in (0, 30)]
    batch = dataset.collater(samples)
    lengths = [len(sample["source"]) for sample in samples]
    for row, sample in enumerate(samples):
        padded = {"source": batch["net_input"]["src_tokens"], "target": batch["target"]}
        for name, tokens in padded.items():
            assert torch.equal(tokens[row, : lengths[row]], sample[name])
            assert (tokens[row, lengths[row] :] == PAD).all()
    assert batch["net_input"]["src_lengths"].tolist() == lengths
    assert (batch["nsentences"], batch["ntokens"]) == (2, sum(lengths))
    assert batch["next_sentence"].tolist() == [sample["follows"] for sample in samples]
    assert dataset.collater([]) == {}
