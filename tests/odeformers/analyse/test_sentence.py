"""The maps of one sentence: whose weights they are, and which tokens name them."""

import csv
import re
import shutil
from itertools import combinations

import pytest
import torch
from helpers import make_model
from matplotlib import rc_context

from fairseq_odeformers.inference.hub import load_translator
from odeformers.__main__ import main
from odeformers.analyse import heat_maps, sentence
from odeformers.analyse.command import parse_args
from odeformers.analyse.maps import KINDS, attention_maps
from odeformers.plots import STYLE

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
def test_rows_contain_the_weights_of_the_named_tokens(arch):
    model = make_model(arch).eval()
    results = {}
    for head in (None, 1, 2):
        rows = sentence.measure(model, net_input(), TOKENS, head)
        assert {row["head"] for row in rows} == {head or "mean"}
        for kind, (queries, keys) in TOKENS.items():
            own = [row for row in rows if row["kind"] == kind]
            expected = attention_maps(model, net_input())[kind].weights[:, 0]
            expected = expected.mean(1) if head is None else expected[:, head - 1]
            weights = torch.tensor([row["weight"] for row in own])
            assert torch.allclose(weights, expected.flatten())
            results[kind, head] = weights
            pairs = [(row["query_token"], row["key_token"]) for row in own]
            assert pairs == [(q, k) for q in queries for k in keys] * len(expected)
    for kind in TOKENS:
        for head in (None, 1):
            assert not torch.allclose(results[kind, head], results[kind, 2])
    with pytest.raises(ValueError, match="--head 3: .* from 1 to 2"):
        sentence.measure(model, net_input(), TOKENS, 3)


def rows_of(model, tokens=TOKENS, arch="arch"):
    """The rows of a model for the net input, or for other numbers of tokens."""
    sides = {"src_tokens": len(tokens["cross"][1]), "prev_output_tokens": len(tokens["cross"][0])}
    texts = {side: torch.randint(4, 50, (1, number)) for side, number in sides.items()}
    texts["src_lengths"] = torch.tensor([sides["src_tokens"]])
    return [{"model": arch, **row} for row in sentence.measure(model, texts, tokens, None)]


def drawn(rows, kind, model="arch"):
    """A picture, and its panels; their texts are in it, and no title touches another."""
    with rc_context(STYLE):
        figure = heat_maps.draw(rows, kind, model)
        figure.draw_without_rendering()
    panels = [axes for axes in figure.axes if axes.images]
    titles = [axes.title.get_window_extent() for axes in panels]
    assert not any(a.overlaps(b) for a, b in combinations(titles, 2))
    heading = figure.get_suptitle()
    texts = [*figure.texts, *(axes.title for axes in panels)]
    for box in (text.get_window_extent() for text in texts):
        assert box.x0 >= 0 and box.y0 >= 0
        assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
    return figure, panels, heading


def test_each_layer_has_a_panel_of_its_weights():
    """Tokens are at the left and below, and all models share one colour scale."""
    rows = rows_of(make_model("transformer", *SMALL["transformer"]).eval())
    darker = [{**row, "model": "darker", "weight": 2 * row["weight"]} for row in rows]
    figure, panels, heading = drawn([*rows, *darker], "cross")
    assert heading == "arch: cross-attention"
    assert [axes.get_title() for axes in panels] == ["layer 1", "layer 2"]
    own = torch.tensor([row["weight"] for row in rows if row["kind"] == "cross"])
    shown = torch.cat([torch.tensor(axes.images[0].get_array()).flatten() for axes in panels])
    assert torch.allclose(shown, own.to(shown.dtype))
    assert panels[0].images[0].get_clim() == pytest.approx((0, 2 * own.max().item()))
    assert [text.get_text() for text in panels[0].get_xticklabels()] == TOKENS["cross"][1]
    assert [text.get_text() for text in panels[0].get_yticklabels()] == TOKENS["cross"][0]


def test_later_depths_are_shown_as_differences():
    rows = rows_of(make_model("transevolve_fullff_2", *SMALL["transevolve_fullff_2"]).eval())
    _, panels, _ = drawn(rows, "decoder")
    assert [axes.get_title() for axes in panels] == [
        *("block 1, depth 1", "depth 2 − depth 1", "block 2, depth 3", "depth 4 − depth 3")
    ]
    maps = torch.tensor([row["weight"] for row in rows if row["kind"] == "decoder"])
    maps = maps.view(4, 4, 4).double()
    expected = [maps[0], maps[1] - maps[0], maps[2], maps[3] - maps[2]]
    for axes, values in zip(panels, expected):
        assert torch.allclose(torch.tensor(axes.images[0].get_array().data), values, atol=1e-7)
    low, high = panels[1].images[0].get_clim()
    assert -low == high == pytest.approx(max(abs(expected[n]).max().item() for n in (1, 3)))


SHAPES = [
    ("transformer --encoder-layers 6 --decoder-layers 6", 1),
    ("transevolve_fullff_1 --encoder-depth 6", 25),
    ("transevolve_fullff_2 --encoder-depth 3", 80),
    ("transformer --encoder-layers 1 --decoder-layers 1", 80),  # one large panel
    ("node_transformer_mt --encoder-layers 16", 1),  # more blocks than rows
    ("node_transformer_mt --encoder-layers 16", 25),
]


@pytest.mark.parametrize("line, tokens", SHAPES)
def test_pictures_have_a_largest_size(line, tokens):
    """A picture of any model and text stays within it, and says and shows where it omits tokens."""
    model = make_model(*line.split()).eval()
    name = "runs/transevolve_fullff_2_prenorm-dropout-0.3-seed1"
    keys = [*names("s", tokens - 1), "Donaudampfschifffahrtsgesellschaft"]
    pairs = {kind: (names("t", tokens), keys) for kind in KINDS}
    rows = rows_of(model, pairs, name)
    stacks = {len(model.encoder.layers): "encoder", len(model.decoder.layers): "cross"}
    for kind in stacks.values():  # a picture for each number of blocks
        figure, panels, heading = drawn(rows, kind, name)
        width, height = figure.get_size_inches()
        assert width <= heat_maps.WIDTH and height <= heat_maps.HEIGHT
        maps = sorted({(row["block"], row["depth"]) for row in rows if row["kind"] == kind})
        assert (len(panels) < len(maps)) == ("of" in heading.split("(")[-1].split())
        for axes, (block, depth) in ((panels[0], maps[0]), (panels[-1], maps[-1])):
            number = re.search(r"\d+", axes.get_title())[0]
            assert number in (str(block), str(depth)) or len(panels) < len(maps)


def test_dollar_signs_are_not_read_as_formulas():
    rows = rows_of(make_model("transformer", *SMALL["transformer"]).eval(), arch="runs/$a_$b")
    for row in rows:
        row["query_token"] = row["key_token"] = "$$"
    _, panels, _ = drawn(rows, "cross", "runs/$a_$b")
    assert {text.get_text() for text in panels[0].get_yticklabels()} == {"$$"}


def test_raw_text_is_tokenised_as_its_data_were(prepared, checkpoint, tmp_path, monkeypatch):
    """The page also has the translation that ``odeformers translate`` prints."""
    monkeypatch.setattr(sentence, "MAX_TOKENS", 8)
    path, pages = checkpoint("macaron_transformer"), []
    line = ["analyse", "attention", path, path.with_name("b.pt"), "--data", prepared, "--cpu"]
    shutil.copy(path, path.with_name("b.pt"))
    for number, options in enumerate((["--text", "3, 1!"], ["--text", "3 , 1 !", "--tokenized"])):
        out = tmp_path / str(number)
        main([*map(str, line), *options, "--out", str(out)])
        assert {f"{kind}-{name}.png" for kind in KINDS for name in ("b", "checkpoint")} < {
            file.name for file in out.iterdir()
        }
        pages.append((out / "index.md").read_text())
        with open(out / "sentence.csv", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["kind"] == "encoder"]
        tokens = {int(row["key"]): row["key_token"] for row in rows}
        assert list(tokens.values()) == ["3", "<unk>", "1", "<unk>", "</s>"]
    limit = {"max_len_a": 0, "max_len_b": sentence.MAX_TOKENS - 1}
    for page, tokenized, text in zip(pages, (False, True), ("3, 1!", "3 , 1 !")):
        translator = load_translator(path, prepared, tokenized=tokenized)
        assert f"by b: {translator.translate(text, **limit)}\n" in page


def test_tokenized_is_refused_for_a_classifier(trained):
    data, paths = trained
    line = ["attention", str(paths["transject"]), "--text", "1 2", "--tokenized", "--cpu"]
    with pytest.raises(ValueError, match="--tokenized: .* is a classifier .*; leave it out"):
        sentence.analyse(
            str(paths["transject"]), parse_args([*line, "--data", str(data), "--out", "out"])
        )


def test_the_command_maps_a_translation(trained, tmp_path):
    """The decoder's tokens are the tokens of the model's translation."""
    data, path = trained[0], trained[1]["transevolve_fullff_2_prenorm"]
    interface = load_translator(path, data)
    text, out = "8 9 6 2", tmp_path / "out"
    line = ["analyse", "attention", path, "--data", data, "--out", out, "--cpu", "--head", 2]
    main([*map(str, line), "--tokenized", "--text", text])
    files = {f"{name}.png" for name in TOKENS} | {"sentence.csv", "translation.csv", "index.md"}
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
            actual = {int(row[name]): row[f"{name}_token"] for row in own}
            assert [actual[index] for index in range(len(actual))] == expected
    assert f": {interface.decode(tokens)}\n" in (out / "index.md").read_text()
    net_input = {
        "src_tokens": ids[None],
        "src_lengths": torch.tensor([len(ids)]),
        "prev_output_tokens": torch.cat([tokens[-1:], tokens[:-1]])[None],
    }
    for kind, maps in attention_maps(interface.models[0], net_input).items():
        actual = [float(row["weight"]) for row in rows if row["kind"] == kind]
        assert actual == pytest.approx(maps.weights[:, 0, 1].flatten().tolist(), abs=1e-4)


def test_the_text_may_be_in_a_file(tmp_path):
    """The file has the text on its only line; an argument that is no file is the text itself."""
    path = tmp_path / "text"
    path.write_text("Ein Mann geht .\r\n\n")
    line = ["attention", "a.pt", "--data", "data", "--out", "out", "--text"]
    for text, expected in ((str(path), "Ein Mann geht ."), ("Ein " * 100, "Ein " * 100)):
        assert parse_args([*line, text]).text == expected
    path.write_text("Ein Mann geht .\nEine Frau liest .\n")
    with pytest.raises(ValueError, match=f"--text {path}: the file has 2 lines with text; keep"):
        parse_args([*line, str(path)])


@pytest.mark.parametrize(
    "options, message",
    [
        (["--head", "1"], "--head: pass --text"),
        (["--tokenized"], "--tokenized: pass --text"),
        (["--text", "a", "--head", "0"], "--head"),
        (["--text", " "], "--text: pass a text"),
        (["--text", "a", "--tokens", "a"], "--tokens"),
    ],
)
def test_bad_command_lines_are_refused(options, message, capsys):
    with pytest.raises(SystemExit):
        parse_args(["attention", "a.pt", "--data", "data", "--out", "out", *options])
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_text_too_long_to_draw_is_refused(trained):
    data, paths = trained
    line = [
        "attention",
        str(paths["transformer_prenorm"]),
        "--text",
        "1 " * 81,
        "--tokenized",
        "--cpu",
    ]
    args = parse_args([*line, "--data", str(data), "--out", "out"])
    args.device = "cpu"
    with pytest.raises(ValueError, match="--text: more than 80 tokens"):
        sentence.analyse(args.checkpoints[0], args)
