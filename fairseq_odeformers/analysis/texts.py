"""Texts to run a classifier on: some of a data set's, or one that is typed."""

import numpy as np
from torch import Tensor

from fairseq_odeformers.data.raw_text import add_special_tokens, appends_eos, tokenize

SEED = 1  # of the texts that are drawn


def draw_texts(task, split: str, number: int) -> dict[int, Tensor]:
    """At most *number* texts of a loaded split, drawn at random, the same at every call.

    Of pairs of texts that are encoded separately, it is the first. Texts of one token, which have
    no pair of tokens, are not drawn.

    Returns:
        Their tokens (T), by the numbers of the texts from 0.
    """
    dataset = task.dataset(split)
    texts = {}
    for index in np.random.RandomState(SEED).permutation(len(dataset)).tolist():
        if len(texts) == number:
            break
        tokens = dataset.collater([dataset[index]])["net_input"]["src_tokens"][0]
        tokens = tokens[tokens != task.source_dictionary.pad()]
        if len(tokens) > 1:
            texts[index] = tokens
    if not texts:
        raise ValueError(f"{split} of {task.cfg.data} has no text of two or more tokens")
    return dict(sorted(texts.items()))


def encode_text(task, text: str) -> Tensor:
    """The tokens (T) of a text that is typed, which begins and ends as those of the data set.

    See :func:`~fairseq_odeformers.data.raw_text.tokenize`.

    Raises:
        ValueError: it has tokens that are not in the dictionary.
    """
    dictionary = task.source_dictionary
    data = getattr(task.cfg, "data", None)  # the strings of the task parity have no folder
    tokens, sources = tokenize(task, text)
    ids = [dictionary.index(token) for token in tokens]
    unknown = [source for source, index in zip(sources, ids) if index == dictionary.unk()]
    if unknown:
        where = f"the dictionary of {data}" if data else "the dictionary"
        raise ValueError(f"--text: {', '.join(map(repr, unknown))} not in {where}")
    return add_special_tokens(task, ids, appends_eos(task))


def positions(tokens: list[str], chosen: list[str]) -> list[int]:
    """Where the chosen tokens of a text first are.

    Raises:
        ValueError: one is not in the text, or there are fewer than two.
    """
    chosen = list(dict.fromkeys(chosen))
    for token in chosen:
        if token not in tokens:
            raise ValueError(f"--tokens {token}: the tokens of --text are {' '.join(tokens)}")
    if len(chosen) < 2:
        raise ValueError(f"--tokens {' '.join(chosen)}: give at least two, for their distances")
    return [tokens.index(token) for token in chosen]
