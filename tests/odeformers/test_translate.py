"""Raw text is tokenised as the data were, and translations become raw text."""

import io
import json
import locale
import re
import sys

import pytest
import torch

from fairseq_odeformers import load_translator
from fairseq_odeformers.text.moses import read_raw_pairs
from odeformers.__main__ import main

TEXTS = ["3, 1!", "", "7 2 5"]
TOKENS = ["3 , 1 !", "", "7 2 5"]


@pytest.mark.parametrize("hyphens", [True, False])
@pytest.mark.parametrize("lowercase", [True, False])
def test_raw_text_is_tokenised_and_detokenised(tmp_path, lowercase, hyphens):
    """Tokenisation precedes lowercasing, so that an abbreviation such as *Dr.* keeps its period.

    Words are split at hyphens if the data's words were.
    """
    recipe = {"lowercase": lowercase, "aggressive_hyphens": hyphens}
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    raw = read_raw_pairs(str(tmp_path), "de", "en")
    tokens = f"Dr. Hof{' @-@ ' if hyphens else '-'}Hund bellt , 3 !"
    assert raw.tokenize("Dr. Hof-Hund bellt, 3!") == (tokens.lower() if lowercase else tokens)
    assert raw.detokenize("it &apos;s a dog , isn &apos;t it ?") == "it's a dog, isn't it?"


def test_raw_text_is_translated_like_its_tokens(prepared, checkpoint):
    path = checkpoint("macaron_transformer")
    raw = load_translator(path, prepared)
    plain = load_translator(path, prepared, tokenized=True)
    options = {"beam": 2, "max_len_b": 5}
    expected = [raw.raw.detokenize(text) for text in plain.translate(TOKENS, **options)]
    assert raw.translate(TEXTS, **options) == expected
    assert raw.translate(TEXTS[0], **options) == expected[0]
    assert expected[1] == ""
    asked = load_translator(path, prepared, tokenized=False)
    assert asked.translate(TEXTS, **options) == expected
    own = load_translator(path, prepared, tokenizer="space")
    assert own.translate(TOKENS, **options) == plain.translate(TOKENS, **options)
    with pytest.raises(ValueError, match="no option tokenised; did you mean tokenized"):
        load_translator(path, prepared, tokenised=True)


def test_the_command_translates_a_file_line_by_line(
    prepared, checkpoint, tmp_path, capsys, monkeypatch
):
    path = checkpoint("macaron_transformer")
    state = torch.load(path, weights_only=True)
    state["cfg"]["model"]["max_target_positions"] = 8  # no translation is longer
    torch.save(state, path)
    (tmp_path / "in.txt").write_text("".join(f"{text}\r\n" for text in TEXTS))
    line = ["translate", prepared, "--path", path, "--text", tmp_path / "in.txt", "--beam", 2]
    main([*map(str, line), "--batch-size", "2", "--cpu"])
    printed = capsys.readouterr().out.splitlines()
    assert printed == load_translator(path, prepared, tokenized=False).translate(TEXTS, beam=2)
    main([*map(str, line), "--output", str(tmp_path / "out.txt"), "--cpu"])
    assert (tmp_path / "out.txt").read_text().splitlines() == printed
    capsys.readouterr()
    (tmp_path / "in.txt").write_text("\n".join([TEXTS[0], "1 " * 2000, TEXTS[2]]))
    main([*map(str, line), "--cpu"])
    out, err = capsys.readouterr()
    assert out.splitlines() == printed  # the line that is too long has an empty translation
    assert re.match(r".*in.txt, line 2: '1 .* has \d+ tokens, more than", err)
    content = (tmp_path / "in.txt").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    main([*map(str, line[:4]), *("--text", "-", "--beam", "2", "--cpu")])
    assert capsys.readouterr() == (out, err.replace(f"{tmp_path / 'in.txt'}", "standard input"))
    monkeypatch.setattr(sys, "stdin", None)  # the command was started with <&-
    with pytest.raises(SystemExit, match="^2$"):
        main([*map(str, line[:4]), "--cpu"])
    assert capsys.readouterr().err.endswith("standard input is closed; give --text FILE\n")


def test_a_line_longer_than_a_training_batch_is_translated(prepared, checkpoint, tmp_path, capsys):
    """Only the model's positions limit its length."""
    path = checkpoint("macaron_transformer")
    state = torch.load(path, weights_only=True)
    state["cfg"]["dataset"]["max_tokens"] = 6
    torch.save(state, path)
    (tmp_path / "in.txt").write_text("1 2 3\n1 2 3 4 5 6 7\n1 2 3 4 5\n")
    line = ["translate", prepared, "--path", path, "--text", tmp_path / "in.txt", "--cpu"]
    main([*map(str, line), "--max-len-b", "20"])
    out, err = capsys.readouterr()
    fault = r"line 2: '1 2 3 4 5 6 7'\.\.\. has 8 tokens, more than 6, the --max-tokens of the"
    assert re.search(f"in.txt, {fault} training run; shorten it, or use --truncate\n", err)
    first, second, third = out.splitlines()
    assert first and third and not second
    main([*map(str, line), "--max-len-b", "20", "--truncate"])
    assert capsys.readouterr().out.splitlines() == [first, third, third]


def test_files_are_utf8_in_any_locale(prepared, checkpoint, tmp_path):
    (prepared / "code").write_text("#version: 0.2\nü b</w>\n", encoding="utf-8")
    (tmp_path / "in.txt").write_text("3 üb\n", encoding="utf-8")
    line = ["translate", prepared, "--path", checkpoint("macaron_transformer"), "--cpu"]
    line += ["--text", tmp_path / "in.txt", "--output"]
    main([*map(str, line), str(tmp_path / "expected")])
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        locale.setlocale(locale.LC_CTYPE, "C")
        main([*map(str, line), str(tmp_path / "found")])
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
    assert (tmp_path / "found").read_bytes() == (tmp_path / "expected").read_bytes()


def test_options_limit_the_length_of_translations(prepared, checkpoint, tmp_path, capsys):
    """With one sentence at a time, its own length determines the limit."""
    path = checkpoint("macaron_transformer")
    (tmp_path / "in.txt").write_text("1 2 3\n7\n")
    line = ["translate", prepared, "--path", path, "--text", tmp_path / "in.txt", "--cpu"]
    line += ["--tokenized", "--batch-size", 1]
    main([*map(str, line), "--max-len-a", "1.5", "--max-len-b", "2"])
    limited = [len(text.split()) for text in capsys.readouterr().out.splitlines()]
    assert limited == [8, 5]  # the end of a sentence counts
    translator = load_translator(path, prepared, tokenized=True)
    main([*map(str, line)])
    printed = capsys.readouterr().out.splitlines()
    assert printed == translator.translate(["1 2 3", "7"], max_len_a=0, max_len_b=200)
    with pytest.raises(SystemExit):
        main([*map(str, line), "--max-len-a", "x"])
    assert "--max-len-a: x: give a number" in capsys.readouterr().err


def test_data_without_a_recipe_are_refused(data, checkpoint):
    with pytest.raises(ValueError, match="words has no recipe.json of odeformers prepare"):
        load_translator(checkpoint("macaron_transformer"), data / "words", tokenized=False)
