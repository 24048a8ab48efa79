"""TransEvolve as a fairseq model: the paper's equations, sizes, masking, and generation."""

import functools
import math

import pytest
import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import build_model
from fairseq.models.transformer import TransformerEncoderBase
from fairseq.sequence_generator import SequenceGenerator

from fairseq_odeformers.modules.transevolve_block import (
    TransEvolveDecoderBlock,
    TransEvolveEncoderBlock,
)

ARCHITECTURES = [
    f"transevolve_{ffn}_{blocks}" for ffn in ("randomff", "fullff") for blocks in (1, 2)
]
SMALL = "--encoder-embed-dim 16 --encoder-ffn-embed-dim 32 --encoder-attention-heads 2".split()
BOS, PAD, EOS = 0, 1, 2


class Task:
    """All that building a model asks of a translation task."""

    def __init__(self, words, target_words=None):
        self.source_dictionary = self.make_dictionary(words)
        self.target_dictionary = self.make_dictionary(target_words or words)

    @staticmethod
    def make_dictionary(words):
        dictionary = Dictionary()
        for index in range(words - len(dictionary)):
            dictionary.add_symbol(f"word{index}")
        return dictionary


def make_model(arch, *extra, task=None, sizes=SMALL):
    torch.manual_seed(0)
    line = ["unused", "--task", "translation", "--arch", arch, *sizes, *extra]
    args = options.parse_args_and_arch(options.get_training_parser(), line)
    return build_model(convert_namespace_to_omegaconf(args).model, task or Task(50))


@pytest.fixture(params=ARCHITECTURES)
def model(request):
    model = make_model(request.param).eval()
    for name, parameter in model.named_parameters():  # at the start randomFF adds next to nothing
        if name.endswith((".s1", ".s2")):
            torch.nn.init.normal_(parameter, std=2)
    return model


def source_batch():
    """Three sentences with fairseq's left padding, and their lengths."""
    torch.manual_seed(1)
    tokens = torch.randint(4, 50, (3, 9))
    tokens[:, -1] = EOS
    tokens[1, :4] = PAD
    tokens[2, :1] = PAD
    return tokens, torch.tensor([9, 5, 8])


# --- the paper's equations -------------------------------------------------


@pytest.fixture
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def literal_scores(attn, queries, keys, depth, total_depth, head):
    """A0 + A1 T^T + T A2 + A3 (T . T) for one head, scalar by scalar; one sequence (Eq. 6)."""
    d_time, width = attn.time_query.shape
    heads = attn.num_heads
    size, time_size = width // heads, d_time // heads
    phase = [
        2 * math.pi * depth * (j % (d_time // 2) + 1) / (d_time * total_depth)
        for j in range(d_time)
    ]
    wave = [math.sin(p) if j < d_time // 2 else math.cos(p) for j, p in enumerate(phase)]
    time = attn.time_weight[depth - 1] * torch.tensor(wave)
    w_k_tilde = torch.randn(d_time, width)  # whatever it is, it has no effect
    q, k = queries @ attn.q_proj.weight.T, keys @ attn.k_proj.weight.T
    qk = slice(head * size, (head + 1) * size)
    th = slice(head * time_size, (head + 1) * time_size)
    scores = torch.empty(len(q), len(k))
    for i in range(len(q)):
        for j in range(len(k)):
            a1, a2 = w_k_tilde[th] @ q[i], attn.time_query[th] @ k[j]
            a3 = (attn.time_query[th] * w_k_tilde[th]).sum(1)
            scores[i, j] = q[i, qk] @ k[j, qk] / math.sqrt(size)
            scores[i, j] += a1 @ time[th] + a2 @ time[th] + a3 @ time[th] ** 2
    return scores


def literal_attention(attn, queries, keys, values, depth, total_depth, causal):
    out = []
    for head, value in enumerate(values.chunk(attn.num_heads, -1)):
        scores = literal_scores(attn, queries, keys, depth, total_depth, head)
        if causal:
            scores = scores + torch.full_like(scores, -math.inf).triu(1)
        out.append(scores.softmax(-1) @ value)
    return torch.cat(out, -1)


def layer_norm(norm, x):
    x = x - x.mean(-1, keepdim=True)
    return x / (x.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight + norm.bias


def literal_feed_forward(ffn, x):
    if isinstance(ffn, torch.nn.Sequential):
        return torch.relu(x @ ffn[0].weight.T + ffn[0].bias) @ ffn[2].weight.T + ffn[2].bias
    d, inner = len(ffn.b2), len(ffn.b1)

    def square(columns):  # the columns that the layer leaves out hold anything
        return torch.cat([columns, torch.randn(len(columns), len(columns) - columns.size(1))], 1)

    sigma1, sigma2 = torch.zeros(d, inner), torch.zeros(inner, d)
    sigma1.diagonal()[:] = ffn.s1
    sigma2.diagonal()[:] = ffn.s2
    h = torch.relu(x @ square(ffn.u1) @ sigma1 @ square(ffn.v1).T + ffn.b1)
    return h @ square(ffn.u2) @ sigma2 @ square(ffn.v2).T + ffn.b2


@pytest.mark.parametrize("backend", ["auto", "factored", "fused"])
@pytest.mark.parametrize("ffn_type", ["full", "random"])
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_block_equals_the_literal_formula(float64, kind, ffn_type, backend):
    """X^l from X^(l-1) as Eqs. 9 (13 in the decoder) and 11 write it; output and gradients."""
    torch.manual_seed(0)
    d, depth = 8, 3
    cls = TransEvolveEncoderBlock if kind == "encoder" else TransEvolveDecoderBlock
    block = cls(d, 12, 2, depth, 4, ffn_type, attention_backend=backend)
    for parameter in block.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    x0 = torch.randn(4, 1, d, requires_grad=True)
    source = torch.randn(5, 1, d, requires_grad=True)
    inputs = [x0, *block.parameters()]
    if kind == "encoder":
        out = block(x0)
    else:
        inputs.append(source)
        out, _, _ = block(x0, source, self_attn_mask=torch.empty(0))

    x, enc = x0[:, 0], source[:, 0]
    for index, layer in enumerate(block.depths):
        time = (index + 1, depth)
        value = layer_norm(layer.self_attn_layer_norm, x)
        attended = literal_attention(
            block.self_attn, x0[:, 0], x0[:, 0], value, *time, causal=kind == "decoder"
        )
        x = attended @ layer.self_attn_out_proj.weight.T + x
        if kind == "decoder":
            attended = literal_attention(
                block.encoder_attn, x0[:, 0], enc, enc, *time, causal=False
            )
            x = attended @ layer.encoder_attn_out_proj.weight.T + x
        x = literal_feed_forward(layer.feed_forward, layer_norm(layer.final_layer_norm, x)) + x
    expected = layer_norm(block.layer_norm, x)

    assert (out[:, 0] - expected).abs().max() < 1e-9
    weight = torch.randn_like(expected)
    ours = torch.autograd.grad((out[:, 0] * weight).sum(), inputs)
    theirs = torch.autograd.grad((expected * weight).sum(), inputs)
    for a, b in zip(ours, theirs):
        assert (a - b).abs().max() < 1e-9 * max(1, b.abs().max().item())


# --- sizes -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "parameters", "paper"),
    [
        ("transevolve_randomff_1", 25_900_032, 27),
        ("transevolve_randomff_2", 30_620_672, 33),
        ("transevolve_fullff_1", 51_053_568, 53),
        ("transevolve_fullff_2", 55_774_208, 59),
    ],
)
def test_parameters_of_the_base_models(arch, parameters, paper):
    """The paper's count = ours + d'(d + d') for the W~k of each attention (Table 2, millions)."""
    with torch.device("meta"):
        model = make_model(arch, task=Task(32_000), sizes=[])
    assert sum(p.numel() for p in model.parameters()) == parameters
    blocks = [m for m in model.modules() if isinstance(m, TransEvolveEncoderBlock)]
    attentions = sum(1 + block.cross_attention for block in blocks)
    assert abs((parameters + attentions * 512 * 1024) / 1e6 - paper) < 1


def test_paper_variants_tie_all_embeddings():
    model = make_model("transevolve_fullff_1")
    assert model.encoder.embed_tokens is model.decoder.embed_tokens
    assert model.decoder.output_projection.weight is model.encoder.embed_tokens.weight


def test_base_architecture_takes_two_dictionaries():
    model = make_model("transevolve", task=Task(50, 60))
    assert model.encoder.embed_tokens.weight.size(0) == 50
    assert model.decoder.output_projection.weight.size(0) == 60
    assert model.decoder.output_projection.weight is not model.decoder.embed_tokens.weight


def test_decoder_follows_the_encoder_unless_told_otherwise():
    model = make_model("transevolve_fullff_2", "--encoder-depth", "2", "--decoder-blocks", "1")
    assert [len(block.depths) for block in model.encoder.layers] == [2, 2]
    assert [len(block.depths) for block in model.decoder.layers] == [2]
    assert model.decoder.layers[0].depths[0].feed_forward[0].out_features == 32


# --- what a token may see --------------------------------------------------


def test_padding_changes_nothing(model):
    """A pair alone, and in a batch with longer ones, on both sides."""
    source, lengths = source_batch()
    target = torch.randint(4, 50, (3, 7))
    target[1, 4:] = PAD
    together, _ = model(source, lengths, target)
    alone, _ = model(source[1:2, 4:], lengths[1:2], target[1:2, :4])
    assert (together[1:2, :4] - alone).abs().max() < 1e-5


@pytest.mark.parametrize("backend", ["auto", "factored", "fused"])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_decoder_is_causal(arch, backend):
    """Changing a later token changes nothing before it, up to the rounding of a common factor."""
    model = make_model(arch, "--attention-backend", backend).eval()
    source, lengths = source_batch()
    target = torch.randint(4, 50, (3, 7))
    changed = target.clone()
    changed[:, 5] = (target[:, 5] + 1) % 46 + 4
    a, b = model(source, lengths, target)[0], model(source, lengths, changed)[0]
    assert (a[:, :5] - b[:, :5]).abs().max() < 2e-6
    assert ((a[:, 5:] - b[:, 5:]).abs().amax((0, 2)) > 1e-3).all()


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_parameter_gets_a_gradient(arch):
    model = make_model(arch)
    source, lengths = source_batch()
    model(source, lengths, torch.randint(4, 50, (3, 7)))[0].square().sum().backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]


def test_half_precision(model):
    source, lengths = source_batch()
    model = model.bfloat16()
    assert model(source, lengths, source)[0].isfinite().all()


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
    generator = SequenceGenerator(models, Task(50).target_dictionary, beam_size=4, max_len_b=12)
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
    """An ensemble of two different models decodes; one of twice the same model is that model."""
    other = make_model("transevolve_fullff_2", "--encoder-depth", "1").eval()
    sharpen(model)
    assert_same_beams(generate([model, model], True), generate([model], True))
    assert_same_beams(generate([model, other], True), generate([model, other], False))


# --- bad options -----------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--time-dim", "7"], "--time-dim 7.*even"),
        (["--time-dim", "0"], "--time-dim 0"),
        (
            ["--encoder-attention-heads", "5"],
            "--encoder-embed-dim 16 .*--encoder-attention-heads 5",
        ),
        (
            ["--decoder-attention-heads", "3"],
            "--decoder-embed-dim 16 .*--decoder-attention-heads 3",
        ),
        (["--encoder-depth", "0"], "--encoder-depth 0"),
        (["--decoder-blocks", "0"], "--decoder-blocks 0"),
        (["--decoder-embed-dim", "32"], "--encoder-embed-dim 16 and --decoder-embed-dim 32"),
        (["--ffn-type", "random", "--encoder-ffn-embed-dim", "31"], "--encoder-ffn-embed-dim 31"),
    ],
)
def test_bad_options_are_named(extra, message):
    with pytest.raises(ValueError, match=message):
        make_model("transevolve_fullff_2", *extra)


def test_tied_embeddings_need_one_dictionary():
    with pytest.raises(ValueError, match="50 and 60 symbols.*--joined-dictionary"):
        make_model("transevolve_fullff_2", task=Task(50, 60))


def test_unknown_backend_is_refused(capsys):
    with pytest.raises(SystemExit):
        make_model("transevolve_fullff_2", "--attention-backend", "fast")
    assert "auto, factored, fused" in capsys.readouterr().err.replace("'", "")
