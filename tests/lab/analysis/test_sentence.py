"""The maps of one sentence: whose weights they are, and which tokens name them."""

import csv

import pytest
import torch
from helpers import make_model
from matplotlib import rc_context

import odeformers
from fairseq_odeformers.inference.hub import load_translator
from fairseq_odeformers.lab.analysis import sentence
from fairseq_odeformers.lab.analysis.command import parse_args
from fairseq_odeformers.lab.analysis.maps import attention_maps
from fairseq_odeformers.lab.plots import STYLE

SMALL = {
    "transformer": ["--encoder-layers", "2", "--decoder-layers", "2"],
    "transevolve_fullff_2": ["--encoder-blocks", "2", "--encoder-depth", "2"],
}
ARCHS = ["transformer", "transevolve_fullff_2", "macaron_transformer", "node_transformer_mt"]


def net_input():
    torch.manual_seed(2)
    source, target = torch.randint(4, 50, (1, 5)), torch.randint(4, 50, (1, 4))
    lengths = torch.tensor([5])
    return {"src_tokens": source, "src_lengths": lengths, "prev_output_tokens": target}


def names(letter, number):
    return [f"{letter}{index}" for index in range(number)]


TOKENS = {
    "encoder": (names("s", 5), names("s", 5)),
    "decoder": (names("t", 4), names("p", 4)),
    "cross": (names("t", 4), names("s", 5)),
}


@pytest.mark.parametrize("arch", ARCHS)
def test_rows_are_the_weights_of_the_named_tokens(arch):
    model = make_model(arch).eval()
    found = {}
    for head in (None, 1, 2):
        rows = sentence.measure(model, net_input(), TOKENS, head)
        assert {row["head"] for row in rows} == {head or "mean"}
        for kind, (queries, keys) in TOKENS.items():
            own = [row for row in rows if row["kind"] == kind]
            expected = attention_maps(model, net_input())[kind].weights[:, 0]
            expected = expected.mean(1) if head is None else expected[:, head - 1]
            weights = torch.tensor([row["weight"] for row in own])
            assert torch.allclose(weights, expected.flatten())
            found[kind, head] = weights
            pairs = [(row["query_token"], row["key_token"]) for row in own]
            assert pairs == [(q, k) for q in queries for k in keys] * len(expected)
    for kind in TOKENS:
        for head in (None, 1):
            assert not torch.allclose(found[kind, head], found[kind, 2])
    with pytest.raises(ValueError, match="--head 3: .* has 2 heads"):
        sentence.measure(model, net_input(), TOKENS, 3)


def test_panels_are_named_and_show_the_weights():
    """A row a model, and a panel a layer or a depth of a block, with the tokens at its sides."""
    rows = []
    for arch in SMALL:
        model = make_model(arch, *SMALL[arch]).eval()
        measured = sentence.measure(model, net_input(), TOKENS, None)
        rows += [{"model": arch, **row} for row in measured]
    with rc_context(STYLE):
        figure = sentence.cross({"sentence": rows})
        figure.draw_without_rendering()
    shown = [axes for axes in figure.axes if axes.get_visible() and axes.images]
    titles = [axes.get_title().replace("\n", "") for axes in shown]
    blocks = ["block 1, depth 1", "block 1, depth 2", "block 2, depth 3", "block 2, depth 4"]
    assert len(titles) == 2 + 4 and titles[-4:] == [
        f"transevolve_fullff_2: {name}" for name in blocks
    ]
    assert titles[0] == "transformer: layer 1"
    own = [row["weight"] for row in rows if row["kind"] == "cross"]
    images = torch.cat([torch.tensor(axes.images[0].get_array()).flatten() for axes in shown])
    assert torch.allclose(images, torch.tensor(own, dtype=images.dtype))
    for axes in shown:
        for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.y0 >= 0 and box.y1 <= figure.bbox.y1
        assert [text.get_text() for text in axes.get_xticklabels()] == TOKENS["cross"][1]
        assert [text.get_text() for text in axes.get_yticklabels()] == TOKENS["cross"][0]


def test_command(trained, tmp_path):
    """The tokens of a decoder are those that its model translates the text to."""
    data, path = trained[0], trained[1]["transevolve_fullff_2_prenorm"]
    interface = load_translator(path, data)
    text, out = "8 9 6 2", tmp_path / "out"
    line = ["analyse", "attention", path, "--data", data, "--out", out, "--cpu", "--head", 2]
    odeformers.main([*map(str, line), "--text", text])
    files = {f"{name}.png" for name in TOKENS} | {"sentence.csv", "index.md"}
    assert {file.name for file in out.iterdir()} == files
    with open(out / "sentence.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    ids = interface.encode(text)
    tokens = interface.generate([ids], beam=5, max_len_a=0, max_len_b=79)[0][0]["tokens"]
    source, target = [*text.split(), "</s>"], [interface.tgt_dict[token] for token in tokens]
    for kind, own_queries, own_keys in (
        ("encoder", source, source),
        ("decoder", target, ["</s>", *target[:-1]]),
        ("cross", target, source),
    ):
        own = [row for row in rows if row["kind"] == kind]
        for name, expected in (("query", own_queries), ("key", own_keys)):
            found = {int(row[name]): row[f"{name}_token"] for row in own}
            assert [found[index] for index in range(len(found))] == expected
    assert " ".join(target) in (out / "index.md").read_text()
    net_input = {
        "src_tokens": ids[None],
        "src_lengths": torch.tensor([len(ids)]),
        "prev_output_tokens": torch.cat([tokens[-1:], tokens[:-1]])[None],
    }
    for kind, maps in attention_maps(interface.models[0], net_input).items():
        found = [float(row["weight"]) for row in rows if row["kind"] == kind]
        assert found == pytest.approx(maps.weights[:, 0, 1].flatten().tolist(), abs=1e-4)


@pytest.mark.parametrize(
    "options, named",
    [
        (["--head", "1"], "--head: give --text"),
        (["--text", "a", "--head", "0"], "--head"),
        (["--text", " "], "--text: give a text"),
        (["--text", "a", "--tokens", "a"], "--tokens"),
    ],
)
def test_command_lines_that_are_refused(options, named, capsys):
    with pytest.raises(SystemExit):
        parse_args(["attention", "a.pt", "--data", "data", "--out", "out", *options])
    assert named in capsys.readouterr().err.splitlines()[-1]


def test_a_text_that_is_too_long_to_be_drawn(trained):
    data, paths = trained
    line = ["attention", str(paths["transformer_prenorm"]), "--text", "1 " * 81, "--cpu"]
    args = parse_args([*line, "--data", str(data), "--out", "out"])
    args.device = "cpu"
    with pytest.raises(ValueError, match="--text: more than 80 tokens"):
        sentence.analyse(args.checkpoints[0], args)
