"""Trained models from Python: every architecture, from the golden checkpoints."""

import gzip
import math
import re
import shutil
import sys
from functools import cache, partial

import numpy as np
import pytest
import torch
from fairseq.tasks import setup_task
from helpers import EOS, configs, task_of
from make_checkpoints import PATHS, write_rows
from omegaconf import OmegaConf
from script_helpers import ROOT

import fairseq_odeformers
from fairseq_odeformers import (
    import_plugins,
    load_classifier,
    load_language_model,
    load_translator,
)
from fairseq_odeformers.inference.classifier import Classifier
from fairseq_odeformers.inference.texts import WARNED, TooLong
from fairseq_odeformers.models.macaron.models import MacaronBertModel, MacaronTransformerModel

TEXTS = ["7 3 5", "1 2 3 4 5 6", "19"]


def trained_on(task):
    return [name for name in PATHS if task_of(name.split(".")[0]) == task]


def set_of(name):
    """The data set of a checkpoint."""
    kind = name.partition(".")[2]
    return {"pairs": "pairs", "pixels": "pixels", "joined": "pairs"}.get(kind, "words")


class Frame:
    """A table like pandas': iteration yields the names of its columns."""

    def __init__(self, **columns):
        self.columns, self.values = [*columns], columns

    def __iter__(self):
        return iter(self.columns)

    def __getitem__(self, name):
        return self.values[name]


class Missing:
    """A missing value like pandas': comparisons are neither true nor false."""

    def __repr__(self):
        return "<NA>"

    def __eq__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


@pytest.fixture(scope="module")
def loaded(data, tmp_path_factory):
    """Returns a function that loads a checkpoint once with a given loader."""

    @cache
    def find(load, name):
        path = tmp_path_factory.mktemp("loaded") / "checkpoint.pt"
        path.write_bytes(gzip.decompress(PATHS[name].read_bytes()))
        return load(path, data / set_of(name))

    return find


@pytest.mark.parametrize("name", trained_on("translation"))
def test_a_batch_is_translated_as_its_sentences(name, checkpoint, data):
    """A batch has the translations of its single sentences, and translation in bfloat16 works."""
    translator = load_translator(checkpoint(name), data / "words")
    together = translator.translate(TEXTS, beam=2, max_len_b=5)
    assert together == [translator.translate(text, beam=2, max_len_b=5) for text in TEXTS]
    assert all(word in translator.tgt_dict for text in together for word in text.split())
    assert translator.translate([]) == []
    assert len(translator.bfloat16().translate(TEXTS, beam=2, max_len_b=5)) == len(TEXTS)


def test_generate_returns_the_best_results_in_order(checkpoint, data):
    """The first is the translation, and the score is the sum of log p over a power of T."""
    translator = load_translator(checkpoint("macaron_transformer"), data / "words")
    source = translator.encode(TEXTS[0])
    (results,) = translator.generate([source], beam=3, max_len_b=5, lenpen=0.6)
    assert len(results) == 3
    best = translator.translate(TEXTS[0], beam=3, max_len_b=5, lenpen=0.6)
    assert translator.decode(results[0]["tokens"]) == best
    scores = [float(result["score"]) for result in results]
    assert scores == sorted(scores, reverse=True)
    for result in results:
        log_p, size = result["positional_scores"], len(result["tokens"])
        assert result["tokens"][-1] == translator.tgt_dict.eos()
        assert float(result["score"]) == pytest.approx(float(log_p.sum()) / size**0.6, abs=1e-4)
        assert result["attention"].shape == (len(source), size)


@pytest.mark.parametrize("name", [*trained_on("sentence_prediction"), "macaron_bert.classifier"])
def test_a_batch_is_classified_as_its_texts(name, checkpoint, data):
    """Each text has the model's probabilities for its tokens alone, in bfloat16 approximately."""
    classifier = load_classifier(checkpoint(name), data / set_of(name))
    texts = [(text, text[::-1]) for text in TEXTS] if set_of(name) == "pairs" else TEXTS
    results = classifier.classify(texts, batch_size=2)
    for text, (label, probabilities) in zip(texts, results):
        assert list(probabilities) == classifier.classes == ["0", "1", "2"]
        assert sum(probabilities.values()) == pytest.approx(1, abs=1e-5)
        assert label == max(probabilities, key=probabilities.get)
        (alone,) = classifier.classify([text])
        assert probabilities == pytest.approx(alone.probabilities, abs=1e-3)
    assert classifier.classify([]) == []
    for _, probabilities in classifier.bfloat16().classify(texts):
        assert sum(probabilities.values()) == pytest.approx(1, abs=1e-2)


@pytest.mark.parametrize("name", trained_on("language_modeling"))
def test_score_is_the_mean_log_probability(name, checkpoint, data):
    """The mean is over the tokens and the end of sentence.

    Sampling returns one text per prompt, and scores in bfloat16 are finite.
    """
    model = load_language_model(checkpoint(name), data / "words")
    for text, result in zip(TEXTS, model.score(TEXTS)):
        tokens = torch.tensor([[2, *(model.src_dict.index(word) for word in text.split()), 2]])
        with torch.no_grad():
            output = model.models[0](tokens[:, :-1])
        log_probs = model.models[0].get_normalized_probs(output, log_probs=True)
        each = log_probs.gather(2, tokens[:, 1:, None])[0, :, 0]
        assert torch.allclose(result["positional_scores"], each[: len(result["tokens"])], atol=1e-4)
        assert result["score"] == pytest.approx(result["positional_scores"].mean().item(), abs=1e-4)
    assert model.score([]) == []
    assert isinstance(model.score("1"), dict)
    assert len(model.sample(TEXTS, beam=2, max_len_b=8)) == len(TEXTS)
    assert all(math.isfinite(result["score"]) for result in model.bfloat16().score(TEXTS))


USES = {
    "transevolve": (load_translator, "translate", {"max_len_b": 5}, "truncate_source", True, ""),
    "transject_lm": (load_language_model, "score", {}, "shorten_method", "truncate", {}),
    "transject": (load_classifier, "classify", {}, "shorten_method", "truncate", ("", {})),
}


@pytest.mark.parametrize("name", USES)
def test_empty_unknown_and_long_texts_are_handled_alike(name, checkpoint, data, caplog):
    """An empty text has an empty result and does not change the results of the other texts."""
    load, method, options, cuts, value, empty = USES[name]
    path = checkpoint(name)
    use = partial(getattr(load(path, data / "words"), method), **options)
    first, none, second = use(["3 1", " ", "2 7 5"])
    assert none == empty == use("")
    assert [str(first), str(second)] == list(map(str, use(["3 1", "2 7 5"])))
    assert not caplog.records

    WARNED.clear()
    shown = r" \(unknown: (bad )?film\)$" if load is load_classifier else r"(reported|set.s)$"
    for text in ("bad film", "good film"):
        assert use(text)
    for text in ("3 film 1", "bad 2 7"):  # only the first is reported
        use(text)
    for message, expected in zip(caplog.messages, ("none of the 2", "[23] of the [34]")):
        assert re.search(rf"a text: .* knows {expected} symbols; [^()]*{shown}", message)
    assert len(caplog.messages) == 2

    remedy = f"load the model with {cuts}={value!r}"
    with pytest.raises(TooLong, match=rf"'1 1 .* has \d+ tokens, more than \d+, .*{remedy}"):
        use("1 " * 2000)
    assert getattr(load(path, data / "words", **{cuts: value}), method)("1 " * 2000, **options)


def test_shorten_method_changes_nothing_in_a_truncating_task(checkpoint, data):
    path = checkpoint("transject.pixels")
    plain = load_classifier(path, data / "pixels")
    asked = load_classifier(path, data / "pixels", shorten_method="truncate")
    assert str(asked.classify("1 2 " * 2000)) == str(plain.classify("1 2 " * 2000))


@pytest.mark.parametrize("codes, message", [("e n 3", "e n 3"), ("a\nb", "line 1 .*: a")])
def test_codes_of_another_bpe_program_are_refused(codes, message, checkpoint, data, tmp_path):
    """The error names the program, such as fastBPE, which counts its pairs in a third column."""
    words = shutil.copytree(data / "words", tmp_path / "words")
    (words / "code").write_text(f"{codes}\n")
    with pytest.raises(ValueError, match=f"{words}/code has no BPE codes .*{message}"):
        load_translator(checkpoint("macaron_transformer"), words)


@pytest.fixture
def shorter(checkpoint):
    """Writes a checkpoint, and the same one of a model with this many positions; returns both."""

    def write(name, **positions):
        path = checkpoint(name)
        state = torch.load(path, weights_only=True)
        state["cfg"]["model"].update(positions)
        torch.save(state, path.with_name("shorter.pt"))
        return str(path), str(path.with_name("shorter.pt"))

    return write


def assert_takes_five_words(use):
    """Assert that a function takes five words and the end of sentence, and no more."""
    assert use("1 2 3 4 5")
    with pytest.raises(TooLong, match="has 7 tokens, more than 6"):
        use("1 2 3 4 5 6")


@pytest.mark.parametrize("order", [1, -1])
def test_an_ensemble_has_the_smallest_limit_of_its_models(order, shorter, data):
    """The model with the fewest positions limits the texts, wherever it is in the list."""
    paths = shorter("macaron_transformer", max_source_positions=6)[::order]
    translator = load_translator(":".join(paths), data / "words")
    assert_takes_five_words(partial(translator.translate, max_len_b=5))
    path = shorter("transject")[0]
    both = load_classifier(f"{path}:{path}", data / "words")
    both.models[0].encoder.max_source_positions = 6
    assert_takes_five_words(Classifier([*both.models][::order], both.task).classify)


@pytest.mark.parametrize(
    "name, positions, options",
    [
        ("macaron_transformer", {"max_source_positions": 6}, {"truncate_source": True}),
        ("macaron_transformer_lm", {"max_target_positions": 6}, {"shorten_method": "truncate"}),
    ],
)
def test_a_truncated_sentence_keeps_its_end_token(name, positions, options, shorter, data):
    """A truncated sentence gives the result of its first words."""
    _, path = shorter(name, **positions)
    if "_lm" in name:
        model = load_language_model(path, data / "words", **options)
        whole, truncated = model.score(["1 2 3 4 5", "1 2 3 4 5 6 7"])
        assert truncated["tokens"].tolist() == [5, 6, 7, 8, 9]
        assert torch.allclose(truncated["positional_scores"], whole["positional_scores"], atol=1e-5)
        return
    model = load_translator(path, data / "words", **options)
    assert model.fit(model.encode("1 2 3 4 5 6 7")).tolist() == [5, 6, 7, 8, 9, EOS]
    whole, truncated = model.generate(
        [model.encode(text) for text in ("1 2 3 4 5", "1 2 3 4 5 6 7")]
    )
    assert [best["tokens"].tolist() for best in truncated] == [
        best["tokens"].tolist() for best in whole
    ]
    assert truncated[0]["score"].item() == pytest.approx(whole[0]["score"].item(), abs=1e-5)


@pytest.mark.parametrize("init_token", [None, 0])
@pytest.mark.parametrize(
    "task_name, options",
    [
        ("sentence_prediction", {"shorten_method": "truncate", "max_positions": 5}),
        ("long_range_arena", {"max_positions": 5}),
    ],
)
@pytest.mark.parametrize("words", [3, 4, 5, 6])
def test_a_typed_text_has_the_tokens_of_the_data_set(
    task_name, options, words, init_token, data, tmp_path
):
    """A typed text has the tokens that the task loads for it, also at limits of --max-positions."""
    shutil.copytree(data / "words", tmp_path / "words")
    tokens = [*range(5, 5 + words), EOS]
    write_rows(tmp_path / "words/input0/test", [tokens])
    line = [str(tmp_path / "words"), "--arch", "transformer_classifier", "--task", task_name]
    cfg = configs([*line, "--criterion", "sequence_classification", "--num-classes", "3"])
    cfg.task.update({**options, "init_token": init_token})
    if task_name == "long_range_arena":
        cfg.task.lra_task = "text"
    task = setup_task(cfg.task)
    write_rows(tmp_path / "words/label/test", [[4, EOS]])
    task.load_dataset("test")
    expected = task.dataset("test").collater([task.dataset("test")[0]])["net_input"]["src_tokens"]
    classifier = Classifier([task.build_model(cfg.model)], task)
    (actual,) = classifier.encode(" ".join(str(token - 4) for token in tokens[:-1]))
    assert actual.tolist() == expected[0].tolist()
    start = [] if init_token is None else [init_token]
    assert actual.tolist() == [*start, *tokens][:5]


@pytest.mark.parametrize("init_token", [None, 0])
def test_a_typed_pair_has_the_tokens_of_the_data_set(init_token, data, tmp_path):
    """A typed pair is joined by the task's separator as in the data set."""
    shutil.copytree(data / "pairs", tmp_path / "pairs")
    pair = ([5, 6, EOS], [7, 8, 9, EOS])
    for number, tokens in enumerate(pair):
        write_rows(tmp_path / f"pairs/input{number}/test", [tokens])
    write_rows(tmp_path / "pairs/label/test", [[4, EOS]])
    line = [str(tmp_path / "pairs"), "--arch", "transformer_classifier"]
    line += ["--task", "sentence_prediction", "--criterion", "sequence_classification"]
    cfg = configs([*line, "--num-classes", "3", "--separator-token", "3"])
    cfg.task.init_token = init_token
    task = setup_task(cfg.task)
    task.load_dataset("test")
    expected = task.dataset("test")[0]["net_input.src_tokens"].tolist()
    (actual,) = Classifier([task.build_model(cfg.model)], task).encode(("1 2", "3 4 5"))
    start = [] if init_token is None else [init_token]
    assert actual.tolist() == expected == [*start, *pair[0], 3, *pair[1]]


def test_a_text_begins_and_ends_as_in_the_data(checkpoint, data, tmp_path):
    classifier = load_classifier(checkpoint("transject"), data / "words")
    task, models = classifier.task, classifier.models
    assert classifier.encode("1 2")[0].tolist() == [5, 6, EOS]
    (tmp_path / "input0").mkdir()
    write_rows(tmp_path / "input0/test", [[5, 4]])
    task.cfg.data, task.cfg.init_token = str(tmp_path), 0
    assert Classifier(models, task).encode("1 2")[0].tolist() == [0, 5, 6]
    task.cfg.data = ""  # as in the task parity
    assert Classifier(models, task).encode("12")[0].tolist() == [0, 5, 6]


def test_the_tokenizer_has_the_language_of_the_training(checkpoint, data):
    translator = load_translator(checkpoint("transevolve"), data / "words", tokenizer="moses")
    assert translator.cfg.tokenizer.source_lang == translator.task.cfg.source_lang == "de"
    assert translator.tokenizer.tok.lang == "de"


@pytest.mark.parametrize(
    "load, name, use, message",
    [
        (
            load_classifier,
            "transevolve",
            None,
            "a classifier; .*, odeformers analyse attention and",
        ),
        (
            load_language_model,
            "transevolve",
            None,
            "--arch transevolve, .*a language.*; .*translate",
        ),
        (
            load_translator,
            "transject",
            None,
            "--arch transject, .*a translator; odeformers predict, ",
        ),
        (load_translator, "transject_lm", None, "--arch transject_lm, .*; fairseq-eval-lm and"),
        (load_translator, "node_transformer_lm", None, "--arch node_transformer_lm, "),
        (
            load_translator,
            "transevolve",
            lambda m: m.translate("1", bem=3),
            "no option bem.* mean beam",
        ),
        (
            load_translator,
            "transevolve",
            lambda m: m.translate("1", num_beams=3),
            "no option num_beams.* mean beam",
        ),
        (load_translator, "transevolve", lambda m: m.translate("1", beam=0), "beam 0: "),
        (load_translator, "transevolve", lambda m: m.translate("1", beam=2.5), "beam 2.5: "),
        (load_translator, "transevolve", lambda m: m.translate("1", beam="5"), "beam '5': "),
        (load_translator, "transevolve", lambda m: m.translate("1", lenpen="a"), "lenpen 'a': "),
        (load_language_model, "transject_lm", lambda m: m.sample("1", beam=-1), "beam -1: "),
        (load_translator, "transevolve", lambda m: m.translate("1", beam=True), "beam True: "),
        (load_translator, "transevolve", lambda m: m.translate("1", max_len_b=0), "max_len_b 0: "),
        (
            load_translator,
            "transevolve",
            lambda m: m.translate("1", lenpen=math.nan),
            "lenpen nan: ",
        ),
        *(
            (load_translator, "transevolve", lambda m, o=option: m.translate("1", **o), message)
            for option, message in (
                (
                    {"temperature": 1e-40},
                    "^temperature 1e-40: give a number from 1e-06 to 1e\\+06$",
                ),
                ({"temperature": 0}, "^temperature 0: give a number from 1e-06 to 1e\\+06$"),
                ({"lenpen": 1000}, "^lenpen 1000: give a number from -50 to 50$"),
                ({"unkpen": 1e39}, "^unkpen 1e\\+39: give a number from -1e\\+06 to 1e\\+30$"),
                ({"max_len_b": 10**400}, "^max_len_b 1.*: give a number from -1e\\+19 to 1e\\+19$"),
            )
        ),
        (
            load_translator,
            "transevolve",
            lambda m: m.translate("1", sampling="x"),
            "sampling 'x': ",
        ),
        (
            load_translator,
            "transevolve",
            lambda m: m.translate("1", sampling=True, sampling_topk=100_000),
            "sampling_topk 100000: .* 24 symbols",
        ),
        (
            load_language_model,
            "transject_lm",
            lambda m: m.sample("1", sampling=True, sampling_topp=1.5),
            "sampling_topp 1.5: ",
        ),
        (load_translator, "transevolve", lambda m: m.translate({"1"}), "a sequence of texts"),
        *(
            (load, name, partial(use, texts=texts), r"such as texts\['text'\]")
            for kind in (dict, Frame)
            for texts in (kind(nr=[1], text=["1"], label=["2"]),)
            for load, name, use in (
                (load_classifier, "transject", lambda m, texts: m.classify(texts)),
                (load_classifier, "transject", lambda m, texts: m.classify([texts])),
                (load_translator, "transevolve", lambda m, texts: m.translate(texts)),
                (load_language_model, "transject_lm", lambda m, texts: m.score(texts)),
                (load_language_model, "transject_lm", lambda m, texts: m.sample(texts)),
            )
        ),
        (load_translator, "transevolve", lambda m: m.generate("1"), "translate and sample take"),
        (load_translator, "transevolve", lambda m: m.score("1"), "^score is for language models; "),
        (
            load_language_model,
            "transject_lm",
            lambda m: m.translate("1"),
            "^translate is for translators; this model is a language model; use sample or score$",
        ),
        (load_language_model, "transject_lm", lambda m: m.sample(None), "^None: give a text or"),
        (load_classifier, "transject", lambda model: model.classify("1", 0), "batch_size 0: "),
        (load_classifier, "transject", lambda model: model.classify("1", "x"), "batch_size 'x': "),
        (load_classifier, "transject", lambda model: model.classify([("1", "2")]), "single texts"),
        (
            load_classifier,
            "transject",
            lambda model: model.classify("1", "2"),
            r"^batch_size '2': .* pair of texts as classify\(\[\(first, second\)\]\)",
        ),
        *(
            (load, name, partial(use, texts=texts), message)
            for texts, message in (
                ("1 \udce4 2", r"^'1 \\udce4 2': '\\udce4' is not a valid character; decode"),
                (["1", "\ud800"], r"^'\\ud800': '\\ud800' is not a valid character; decode"),
                (np.array("1 2"), r"^array\('1 2', .*: give a text or a sequence of texts"),
                (["1", 3], "^text 2 of 2: 3 is not a string; pass a str"),
                (["1", math.nan], r'^text 2 of 2: nan is not a string; .*fillna\(""\) or dropna'),
                (["1", None, "2"], "^text 2 of 3: None is not a string; fill or drop"),
                ([Missing(), "1"], "^text 1 of 2: <NA> is not a string; fill or drop"),
                (["1", b"2"], "^text 2 of 2: b'2' is not a string; pass a str"),
                (torch.tensor([1]), r"^text 1 of 1: tensor\(1\) is not a string; pass a str"),
            )
            for load, name, use in (
                (load_classifier, "transject", lambda m, texts: m.classify(texts)),
                (load_translator, "transevolve", lambda m, texts: m.translate(texts)),
                (load_language_model, "transject_lm", lambda m, texts: m.score(texts)),
                (load_language_model, "transject_lm", lambda m, texts: m.sample(texts)),
            )
        ),
        *(
            (load, name, partial(use, texts=texts), r"^nbest 2: .* generate\(\[model.encode\(text")
            for texts in ("1", ["1", "2"])
            for load, name, use in (
                (load_translator, "transevolve", lambda m, texts: m.translate(texts, nbest=2)),
                (load_language_model, "transject_lm", lambda m, texts: m.sample(texts, nbest=2)),
            )
        ),
        *(
            (load_translator, "transevolve", lambda m, o=option: m.translate("1", **o), message)
            for option, message in (
                ({"nbset": 2}, "no option nbset .*; fairseq-generate --help"),  # nbest is refused
                ({"lenpn": 2}, "no option lenpn .*; did you mean lenpen"),
            )
        ),
        (load_translator, "transevolve", lambda m: m.translate(None), "^None: give a text or"),
        (load_translator, "transevolve", lambda m: m.encode(None), "^None is not a string; fill"),
        (
            load_translator,
            "transevolve",
            lambda m: m.translate([("1", "2")]),
            r"^text 1 of 1: \('1', '2'\) is not a string; pass a str",
        ),
        (load_classifier, "transject", lambda model: model.classify(5), "^5: give a text or"),
        (
            load_classifier,
            "macaron_classifier.pairs",
            lambda model: model.classify([("1", "2"), ("1", None)]),
            "^text 2 of 2: None is not a string; fill or drop",
        ),
        (
            load_classifier,
            "macaron_classifier.pairs",
            lambda model: model.classify("1"),
            "pairs of texts",
        ),
    ],
)
def test_bad_input_of_the_loaders_is_refused(load, name, use, message, loaded):
    with pytest.raises((ValueError, TypeError), match=message):
        use(loaded(load, name))


@pytest.mark.parametrize(
    "options",
    [
        {"lenpen": -5, "temperature": 0.1},
        {"lenpen": 5, "temperature": 10, "unkpen": 1e3},
        {"unkpen": 1e9, "max_len_b": sys.maxsize, "max_len_a": 100},
    ],
)
def test_usual_and_extreme_options_are_accepted(options, loaded):
    translator = loaded(load_translator, "transevolve")
    generated = translator.generate([translator.encode("1 2")], beam=2, **options)
    assert all(math.isfinite(best["score"]) for best in generated[0])


@pytest.mark.parametrize("load", [load_translator, load_classifier, load_language_model])
@pytest.mark.parametrize("path", [None, 5, [], ["checkpoint.pt"], b"checkpoint.pt"])
def test_a_path_that_is_no_string_is_refused(load, path, data):
    with pytest.raises(TypeError, match="^checkpoint .*: give a path, or several joined by colons"):
        load(path, data / "words")
    if path is not None:
        with pytest.raises(TypeError, match="^data .*: give the path of the folder with the dict"):
            load("checkpoint.pt", path)


@pytest.mark.parametrize("folders", [None, 3, [None], b"plugin", [["plugin"]]])
def test_plugins_that_are_no_paths_are_refused(folders):
    with pytest.raises(TypeError, match="^folders .*: give the path of a folder, or a list of"):
        import_plugins(folders)


@pytest.mark.parametrize("option, value", [("beam", 5), ("device", "cpu"), ("tokenized", "no")])
def test_options_without_effect_on_a_loader_are_refused(option, value, checkpoint, data):
    with pytest.raises(ValueError, match=f"^{option} {value!r}: (give|pass) "):
        load_translator(checkpoint("transevolve"), data / "words", **{option: value})


@pytest.mark.parametrize(
    "load, name, option, remedy",
    [
        (load_classifier, "transject", "shorten_methd", "did you mean shorten_method"),
        (load_translator, "transevolve", "truncate_sorce", "did you mean truncate_source"),
        (load_language_model, "transject_lm", "xyz", "fairseq-train --task language_modeling .*"),
    ],
)
def test_an_unknown_option_is_named(load, name, option, remedy, checkpoint, data):
    with pytest.raises(ValueError, match=f"checkpoint.pt has no option {option}; {remedy}"):
        load(checkpoint(name), data / "words", **{option: "truncate"})


@pytest.mark.parametrize(
    "load, name, option, value",
    [
        (load_classifier, "transject", "shorten_method", "cut"),
        (load_classifier, "transject", "max_positions", "x"),
        (load_language_model, "transject_lm", "shorten_method", None),
    ],
)
def test_a_wrong_value_is_reported_with_its_option(load, name, option, value, checkpoint, data):
    with pytest.raises(ValueError, match=f"^{option} {value!r}: [^\n]* '{value}'[^\n]*$"):
        load(checkpoint(name), data / "words", **{option: value})


def test_truncation_is_reported_once(checkpoint, data, caplog):
    """A task that truncates by default warns once. It does not warn if the caller asked for it."""
    long = "1 2 " * 2000
    for options, times in (({"shorten_method": "truncate"}, 0), ({}, 1)):
        WARNED.clear()
        caplog.clear()
        classifier = load_classifier(checkpoint("transject"), data / "words", **options)
        classifier.task.towers = 1  # as long_range_arena, which always truncates
        results = classifier.classify([long, "1 2", long])
        assert results[0] == results[2] and results[0].label
        assert (
            len(re.findall(r"a text has 4,00\d tokens, and the model takes", caplog.text)) == times
        )


def test_an_empty_path_is_refused(checkpoint, data):
    """An empty path would mean the current folder, which may contain an export."""
    for path in ("", f"{checkpoint('transject')}:"):
        with pytest.raises(ValueError, match="^'' is not a checkpoint; pass a file"):
            load_classifier(path, data / "words")


@pytest.mark.parametrize("load", [load_translator, load_language_model])
def test_models_without_a_data_set_are_refused(load, checkpoint):
    line = "--task parity --arch node_transformer --criterion sequence_classification".split()
    cfg, path = configs(line), checkpoint("node_transformer")
    saved = torch.load(path, weights_only=True)
    for part in ("model", "task"):
        saved["cfg"][part] = OmegaConf.to_container(getattr(cfg, part))
    saved["model"] = setup_task(cfg.task).build_model(cfg.model).state_dict()
    torch.save(saved, path)
    with pytest.raises(ValueError, match="node_transformer, which is not a (trans|lang)"):
        load(path)


@pytest.mark.parametrize("codes", ["words/code", "words/bpecodes", "code"])
def test_bpe_codes_beside_the_data_are_applied(codes, checkpoint, data):
    """The codes are in the data's folder or the one above, where the preparation writes them."""
    (data / codes).write_text("#version: 0.2\n1 2</w>\n")
    try:
        translator = load_translator(checkpoint("transevolve"), data / "words")
        assert translator.apply_bpe("12 3") == "12 3"
        assert translator.apply_bpe("34") == "3@@ 4"
        assert translator.decode(translator.tgt_dict.encode_line("3 4")) == "3 4"
        assert load_translator(checkpoint("transevolve"), data / "words", bpe="characters")
    finally:
        (data / codes).unlink()


def test_explicit_languages_replace_inferred_ones(checkpoint, data):
    options = {"source_lang": "en", "target_lang": "de"}
    translator = load_translator(checkpoint("transevolve"), data / "words", **options)
    assert (translator.task.cfg.source_lang, translator.task.cfg.target_lang) == ("en", "de")


def from_pretrained(path, data):
    return MacaronTransformerModel.from_pretrained(str(path.parent), path.name, str(data))


def from_a_model_beside_its_data(path, data):
    """Load from a model's folder, where fairseq looks for the data by default."""
    assert path.parent == data
    return MacaronTransformerModel.from_pretrained(str(path.parent), path.name)


@pytest.mark.parametrize(
    "load",
    [
        *(load_translator, load_language_model, load_classifier),
        *(from_pretrained, from_a_model_beside_its_data),
    ],
)
def test_the_parent_folder_of_the_data_is_refused(load, checkpoint, data, tmp_path):
    names = {load_language_model: "transject_lm", load_classifier: "transject"}
    shutil.copytree(data / "words", tmp_path / "data-bin")
    with pytest.raises(ValueError, match=f"{tmp_path}: pass the binarised data in it, .*data-bin"):
        load(checkpoint(names.get(load, "macaron_transformer")), tmp_path)


@pytest.mark.parametrize(
    "folders, message",
    [
        (("absent", "model.pt"), "absent: no such folder; pass the one with model.pt"),
        ((".", "model.pt", "absent"), "absent: no such folder; pass the one with the dictionaries"),
    ],
)
@pytest.mark.parametrize("model", [MacaronTransformerModel, MacaronBertModel])
def test_a_missing_folder_is_named(model, folders, message):
    with pytest.raises(FileNotFoundError, match=f"^{message}$"):
        model.from_pretrained(*folders)


@pytest.mark.parametrize(
    "loader, name",
    [
        ("load_translator", "macaron_transformer"),
        ("load_classifier", "macaron_classifier"),
        ("load_language_model", "ode_transformer_lm"),
    ],
)
def test_the_listings_of_the_page_compute_states(loader, name, data, checkpoint, monkeypatch):
    """Each shows the calls of one kind of model, here of a small one with its data."""
    listings = re.findall(r"```python\n(.*?)```", (ROOT / "docs/using.md").read_text("utf-8"), re.S)
    (listing,) = (each for each in listings if loader in each)
    load = getattr(fairseq_odeformers, loader)
    path = checkpoint(name)
    monkeypatch.setattr(fairseq_odeformers, loader, lambda *paths: load(path, data / "words"))
    variables = {}
    exec(listing, variables)
    states = variables["states"]
    assert len(states) > 1 and all(state.dim() == 3 for state in states)
