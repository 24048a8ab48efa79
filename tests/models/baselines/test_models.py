"""The baseline in translation is fairseq's own Transformer."""

import torch
from helpers import make_model, source_batch


def test_is_the_transformer_of_fairseq():
    """The same options give the same parameters, and those the same output."""
    switches = ["--encoder-normalize-before", "--decoder-normalize-before"]
    theirs = make_model("transformer", *switches).eval()
    ours = make_model("transformer_prenorm").eval()
    ours.load_state_dict(theirs.state_dict())
    tokens, lengths = source_batch()
    assert torch.equal(ours(tokens, lengths, tokens)[0], theirs(tokens, lengths, tokens)[0])
