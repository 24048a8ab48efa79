"""macaron_bert through the interface of fairseq's RoBERTa."""

import pytest
import torch
from helpers import PAD, SMALL, Task, count_parameters, make_model

SIZES = [*SMALL, "--encoder-layers", "2", "--max-positions", "20"]


def make_bert(arch="macaron_bert_base", *extra, sizes=SIZES, task=None):
    return make_model(arch, "--task", "masked_lm", *extra, sizes=sizes, task=task)


def test_as_large_as_bert_base():
    """Twelve layers, each 3 d larger than one of fairseq's pre-norm RoBERTa."""
    sizes = ["--max-positions", "512"]
    macaron = make_bert(sizes=sizes, task=Task(30_000))
    roberta = make_bert("roberta_prenorm", sizes=sizes, task=Task(30_000))
    assert count_parameters(macaron) == count_parameters(roberta) + 12 * 3 * 768 == 109_140_528


def test_layers_with_layer_norm_after_them():
    model = make_bert("macaron_bert_base", "--no-encoder-normalize-before").eval()
    assert model.encoder.sentence_encoder.layer_norm is None
    features, _ = model(torch.randint(4, 50, (2, 8)), features_only=True)
    assert features.mean(-1).abs().max() < 1e-5  # what a LayerNorm leaves, as it is initialised


def test_masked_language_model_sees_both_sides_but_no_padding():
    model = make_bert().eval()
    tokens = torch.randint(4, 50, (2, 8))
    tokens[1, 5:] = PAD
    together, _ = model(tokens)
    alone, _ = model(tokens[1:, :5])
    assert (together[1:, :5] - alone).abs().max() < 1e-5
    changed = tokens.clone()
    changed[0, 6] = (tokens[0, 6] + 1) % 46 + 4
    assert ((together[0] - model(changed)[0][0]).abs().amax(-1) > 1e-4).all()
    masked = tokens.eq(tokens[0, 3])
    assert torch.allclose(model(tokens, masked_tokens=masked)[0], together[masked], atol=1e-5)


def test_classification_heads_are_saved_and_loaded():
    model = make_bert().eval()
    model.register_classification_head("sentiment", num_classes=3)
    tokens = torch.randint(4, 50, (2, 8))
    logits, _ = model(tokens, features_only=True, classification_head_name="sentiment")
    assert logits.shape == (2, 3)
    other = make_bert("macaron_bert_base", "--load-checkpoint-heads").eval()
    state = model.state_dict()
    other.upgrade_state_dict(state)
    other.load_state_dict(state)
    again, _ = other(tokens, classification_head_name="sentiment")
    assert torch.equal(again, logits)


def test_a_head_that_no_checkpoint_brings_back_is_refused():
    with pytest.raises(ValueError, match="--spectral-norm-classification-head True: .*; leave"):
        make_bert("macaron_bert_base", "--spectral-norm-classification-head")
