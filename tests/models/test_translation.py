"""Architectures for translation of each kind: masking, gradients, and all ways to generate."""

import functools

import pytest
import torch
from fairseq.models.transformer import TransformerEncoderBase
from fairseq.sequence_generator import SequenceGenerator
from fairseq.trainer import _catalog_shared_params
from helpers import PAD, Task, assert_causal, make_model, source_batch, wake

ARCHITECTURES = [
    "transevolve_fullff_1",
    "transevolve_fullff_2_prenorm",
    "transevolve_randomff_1_prenorm",
    "transevolve_randomff_2",
    "transevolve --cross-attention-value-norm --cross-attention-value-projection",
    "macaron_transformer",
    "node_transformer_mt",
]


@pytest.fixture(params=ARCHITECTURES)
def model(request):
    model = make_model(*request.param.split(), "--share-all-embeddings").eval()
    return wake(model, std=2)  # at the start randomFF adds next to nothing


# --- what a token may see --------------------------------------------------


def test_padding_changes_nothing(model):
    """A pair alone, and in a batch with longer ones, on both sides."""
    source, lengths = source_batch()
    target = torch.randint(4, 50, (3, 7))
    target[1, 4:] = PAD
    together, _ = model(source, lengths, target)
    alone, _ = model(source[1:2, 4:], lengths[1:2], target[1:2, :4])
    assert (together[1:2, :4] - alone).abs().max() < 1e-5


def test_decoder_is_causal(model):
    source, lengths = source_batch()
    assert_causal(lambda target: model(source, lengths, target)[0])


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_parameter_gets_a_gradient(arch):
    model = make_model(*arch.split(), "--share-all-embeddings")
    source, lengths = source_batch()
    model(source, lengths, torch.randint(4, 50, (3, 7)))[0].square().sum().backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]


def test_trainer_reports_what_is_shared_and_no_more(model):
    """fairseq's trainer takes parameters that are None, such as missing biases, for one."""
    reported = _catalog_shared_params(model)
    embeddings = ["encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"]
    assert reported == [[f"{name}.weight" for name in embeddings]]


def test_half_precision(model):
    source, lengths = source_batch()
    model = model.bfloat16()
    assert model(source, lengths, source)[0].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_source_of_padding_alone(model, dtype):
    """The outputs and gradients are numbers, in training and in evaluation."""
    source, lengths = source_batch()
    target = torch.randint(4, 50, (3, 7))
    source[1] = PAD
    for training in (False, True):
        out, _ = model.to(dtype).train(training)(source, lengths, target)
        assert out.isfinite().all()
        model.zero_grad()
        out.float().square().sum().backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


# --- generation ------------------------------------------------------------


def test_incremental_equals_full_decoding(model):
    """Token by token, with a sentence dropped and the others reordered on the way."""
    source, lengths = source_batch()
    encoder_out = model.encoder(source, lengths)
    target = torch.randint(4, 50, (3, 7))
    state = {}
    for length in range(1, 8):
        if length == 5:  # a sentence is finished
            order = torch.tensor([2, 0])
            target = target[order]
            model.decoder.reorder_incremental_state_scripting(state, order)
            encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
        step, _ = model.decoder(
            target[:, :length], encoder_out=encoder_out, incremental_state=state
        )
        full, _ = model.decoder(target[:, :length], encoder_out=encoder_out)
        assert step.size(1) == 1
        assert (step[:, 0] - full[:, -1]).abs().max() < 1e-5


def generate(models, incremental, prefix_tokens=None):
    """Beams with saved state, or decoded from scratch at each step over copies of the source."""
    source, lengths = source_batch()
    generator = SequenceGenerator(models, Task().target_dictionary, beam_size=4, max_len_b=12)
    generator.model.has_incremental = incremental
    sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}}
    if not incremental:
        for encoder in (model.encoder for model in models):
            copying = functools.partial(TransformerEncoderBase.reorder_encoder_out, encoder)
            encoder.reorder_encoder_out = copying
    found = generator.generate(models, sample, prefix_tokens=prefix_tokens)
    for model in models:
        vars(model.encoder).pop("reorder_encoder_out", None)
    return found


def sharpen(model):
    """Spread the output so that beams are not decided by rounding."""
    model.encoder.embed_tokens.weight.data.mul_(3)
    return model


def assert_same_beams(ours, theirs):
    for sentence, other in zip(ours, theirs):
        assert [h["tokens"].tolist() for h in sentence] == [h["tokens"].tolist() for h in other]
        for a, b in zip(sentence, other):
            assert (a["positional_scores"] - b["positional_scores"]).abs().max() < 1e-4


def test_identical_beams(model):
    """Beam search over the saved state finds what decoding from scratch at each step finds."""
    sharpen(model)
    assert_same_beams(generate([model], True), generate([model], False))


def test_prefix_tokens_are_kept(model):
    prefix = torch.tensor([[7, 8], [9, PAD], [10, 11]])
    found = generate([sharpen(model)], True, prefix)
    assert_same_beams(found, generate([model], False, prefix))
    for sentence, tokens in zip(found, prefix):
        forced = [t for t in tokens.tolist() if t != PAD]
        assert all(h["tokens"][: len(forced)].tolist() == forced for h in sentence)


def test_ensembles(model):
    """Of two different models."""
    other = make_model("transevolve_fullff_2", "--encoder-depth", "1").eval()
    sharpen(model)
    assert_same_beams(generate([model, other], True), generate([model, other], False))
