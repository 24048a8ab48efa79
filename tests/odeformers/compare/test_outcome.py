"""Rows that logs and outputs of runs give, with known statistics."""

import json
import re

import numpy as np
import pytest
from fairseq.data import indexed_dataset
from sacrebleu import corpus_bleu, corpus_chrf

from fairseq_odeformers.data.classification import make_dictionary
from odeformers.compare.outcome import (
    make_rows,
    read_texts,
    score_classes,
    score_language_model,
    score_translations,
)
from odeformers.compare.results.curves import (
    read_likelihoods,
    read_log,
    read_predictions,
    read_progress,
    write_likelihoods,
)
from odeformers.compare.variant import Variant
from tests.odeformers.compare.comparisons import estimated

REFERENCES = [
    "Two young, White males are outside near many bushes.",
    "Several men in hard hats are operating a giant pulley system.",
    "A man in a blue shirt is standing on a ladder cleaning a window.",
    "Someone's dog isn't in the house.",
] * 3
PERFECT = [
    "two young , white males are outside near many bushes .",
    "several men in hard hats are operating a giant pulley system .",
    "a man in a blue shirt is standing on a ladder cleaning a window .",
    "someone &apos;s dog isn &apos;t in the house .",
] * 3
WORSE = [text.replace("a ", "one ").replace("are", "is") for text in PERFECT]
HEADER = "id\ttarget\tprediction\tp(a)\tp(b)\n"
EVALUATED = "INFO:fairseq_cli.eval_lm:Evaluated {} tokens in 0.1s\nLoss: 3, Perplexity: {}\n"


def write_log(path, *epochs, cpu=True):
    """A log as fairseq writes it, of epochs of updates so far, validation loss and seconds.

    An update has 6 tokens, and takes half of the seconds on the CPU.
    """
    text = (
        "2026-11-22 16:38:37 | INFO | train | num. shared model params: 1,300 (num. trained: "
        "1,234)\n"
    )
    for updates, loss, seconds in epochs:
        valid = {"valid_loss": loss, "valid_num_updates": updates, "valid_mcc": 10 - loss}
        valid["epoch"] = 1
        train = {"train_train_wall": seconds, "train_num_updates": updates, "train_loss": loss}
        train |= {"train_wpb": 6, **({"train_cpu": seconds / 2} if cpu else {})}
        for kind, stats in (("valid", valid), ("train", train)):
            stats = json.dumps({name: str(value) for name, value in stats.items()})
            text += f"2026-11-22 16:38:37 | INFO | {kind} | {stats}\n"
    path.write_text(text)
    return path


def print_translations(path, texts, of_data=PERFECT):
    """Translations as fairseq-generate prints them, the last sentence first."""
    pairs = enumerate(zip(of_data, texts))
    lines = [f"S-{n}\tein\nT-{n}\t{right}\nH-{n}\t-0.1\t{text}\n" for n, (right, text) in pairs]
    path.write_text("".join(reversed(lines)))
    return path


def test_repeated_epochs_count_once(tmp_path):
    """The last record of an epoch counts.

    Seconds exclude validation, and a curve has CPU seconds.
    """
    log = write_log(tmp_path / "log", (10, 5.0, 7), (20, 4.5, 100), (20, 4.0, 9), (30, 4.2, 4))
    curve, totals = read_log(log, "mcc", maximize=True)
    assert (totals["seconds"], totals["cpu_seconds"], totals["tokens"]) == (20, 10, 180)
    assert (curve.updates, curve.seconds) == ([10, 20, 30], [3.5, 8, 10])
    assert (curve.loss, curve.metric, curve.best) == ([5.0, 4.0, 4.2], [5.0, 6.0, 5.8], 1)


def test_a_training_on_a_gpu_has_wall_clock_seconds(tmp_path):
    log = write_log(tmp_path / "log", (10, 5.0, 7), (20, 4.5, 9), cpu=False)
    curve, totals = read_log(log)
    assert (totals["seconds"], totals["cpu_seconds"], curve.seconds) == (16, None, [7, 16])


def test_seconds_of_short_epochs_are_not_rounded(tmp_path):
    """training.py logs them, while fairseq-train's own log has only rounded ones."""
    log = write_log(tmp_path / "log", (10, 5.0, 0), (20, 4.5, 0))
    log.write_text(log.read_text().replace('"train_wpb"', '"train_clock": "0.4", "train_wpb"'))
    assert read_log(log)[1]["seconds"] == 0.8


def test_the_metric_chooses_the_best_checkpoint(tmp_path):
    """The best checkpoint's loss is reported; without the metric in the log, the loss chooses."""
    log = write_log(tmp_path / "log", (10, 3.0, 1), (20, 1.0, 1), (30, 2.0, 1), (40, 2.5, 1))
    assert read_log(log, "mcc", maximize=False)[0].best == 0
    assert read_log(log, "loss")[0].best == 1
    curve, totals = read_log(log, "accuracy", maximize=True)
    assert (curve.best, totals["validated"], totals["maximized"]) == (1, "loss", False)
    write_log(log, (10, 3.0, 1), (20, 1.0, 1), (30, 1.0, 1), (40, 2.5, 1))
    assert read_log(log, "loss")[0].best == 2, "of equal ones, fairseq keeps the last"


@pytest.mark.parametrize("subset", ["valid1", "valid1,valid"])
def test_the_first_validation_set_is_read(subset, tmp_path):
    """fairseq chooses the best checkpoint by the first set, whatever its name."""
    log = write_log(tmp_path / "train.log", (10, 5.0, 7), (20, 4.0, 9))
    text = log.read_text()
    others = [line.replace("4.0", "1.0") for line in text.splitlines(True) if "| valid |" in line]
    log.write_text(text.replace("valid", "valid1") + "".join(others))
    options = {"arch": "transformer_classifier", "valid-subset": subset}
    variant = Variant("a", "sentence_prediction", "/data", options)
    (row,) = make_rows(estimated(variant), tmp_path)
    assert (row.updates, row.validation) == (20, 4.0)
    assert read_progress(log, variant.valid_subset)["loss"] == "4.0"


def test_a_validation_within_an_epoch_has_its_share_of_the_time(tmp_path):
    """Epochs are of 10 updates and 7 and 9 seconds, with validations after 5 and 15 updates."""
    log = write_log(tmp_path / "log", (10, 5.0, 7), (20, 4.0, 9))
    text = log.read_text()
    for update in (5, 15):
        stats = json.dumps({"valid_loss": "3", "valid_num_updates": str(update)})
        text += f"2026-11-22 16:38:37 | INFO | valid | {stats}\n"
    log.write_text(text)
    curve, _ = read_log(log)
    assert curve.updates == [5, 10, 15, 20]
    assert curve.seconds == pytest.approx([1.75, 3.5, 5.75, 8])
    assert curve.train_loss == pytest.approx([5, 5, 4.5, 4])


def test_a_training_loss_is_of_a_full_epoch(tmp_path):
    """The last epoch may end after one batch, and the loss of a batch is not representative."""
    log = write_log(tmp_path / "log", (10, 5.0, 7), (20, 4.0, 9), (21, 0.5, 1))
    assert read_log(log)[0].train_loss == [5.0, 4.0, 4.0]


def test_progress_is_read_from_the_last_line(tmp_path):
    """The line of an epoch's end counts, too, as --log-interval may not divide its updates."""
    log = tmp_path / "train.log"
    assert read_progress(log)["updates"] == 0
    start = "2026-11-24 08:31:02 | INFO |"
    inner = f'{start} train_inner | {{"epoch": 2, "num_updates": "140", "ups": "1.5"}}\n'
    log.write_text(inner)
    assert read_progress(log) == {"updates": 140, "epoch": "2", "ups": "1.5"}
    valid = f'{start} valid | {{"epoch": 2, "valid_loss": "8.1", "valid_num_updates": "150"}}\n'
    log.write_text(inner + valid + "half of a li")
    assert read_progress(log) == {"updates": 150, "epoch": "2", "ups": "1.5", "loss": "8.1"}


def test_scores_equal_sacrebleus_on_detokenised_text(tmp_path):
    """Sentences are in their order, and lowercased if the data are."""
    detokenised = [text.replace(" ,", ",").replace(" .", ".") for text in WORSE]
    detokenised = [text.replace(" &apos;", "'") for text in detokenised]
    references = [list(map(str.lower, REFERENCES))]
    bleu, chrf = (score(detokenised, references).score for score in (corpus_bleu, corpus_chrf))
    scored = score_translations(print_translations(tmp_path / "out", WORSE), "en", REFERENCES)
    assert scored.values == pytest.approx({"BLEU": bleu, "chrF": chrf})
    assert "case:lc" in scored.signatures["BLEU"] and "tok:13a" in scored.signatures["BLEU"]
    assert scored.predictions.output == detokenised and scored.predictions.reference == REFERENCES
    perfect = score_translations(print_translations(tmp_path / "out", PERFECT), "en", REFERENCES)
    assert perfect.values == pytest.approx({"BLEU": 100, "chrF": 100})


def test_predictions_of_translations_hold_text_on_both_sides(tmp_path):
    """Each side is detokenised by the rules of its language; fairseq prints tokens."""
    printed = [
        ("S", "l &apos; homme dort ."),
        ("T", "he &apos;s here ."),
        ("H", "he is , here ."),
    ]
    folder = tmp_path / "a-seed1"
    folder.mkdir()
    lines = [f"{kind}-0\t{'-0.1' * (kind == 'H')}\t{text}\n" for kind, text in printed]
    (folder / "checkpoint_best.test.out").write_text("".join(lines).replace("0\t\t", "0\t"))
    options = {"arch": "transformer", "source-lang": "fr", "target-lang": "en"}
    variant = Variant("a", "translation", "/data", options, test_sets={"test": None})
    make_rows(estimated(variant), folder)
    found = read_predictions(folder / "checkpoint_best.test.csv")
    assert found.source == ["l'homme dort."]
    assert (found.reference, found.output) == (["he's here."], ["he is, here."])


def test_cased_data_are_scored_with_their_case(tmp_path):
    cased = ["The dog sleeps in the Old house ."]
    path = print_translations(tmp_path / "out", [cased[0].lower()], cased)
    scored = score_translations(path, "en")
    assert scored.values["BLEU"] < 60 and "case:mixed" in scored.signatures["BLEU"]


@pytest.mark.parametrize("cased, case", [(0, "lc"), (1, "mixed"), (len(PERFECT), "mixed")])
def test_one_capital_makes_the_data_cased(cased, case, tmp_path):
    """The signatures say so, and a translation without the capital is not perfect."""
    of_data = [text.capitalize() if n < cased else text for n, text in enumerate(PERFECT)]
    scored = score_translations(print_translations(tmp_path / "out", PERFECT, of_data), "en")
    for name, signature in scored.signatures.items():
        assert f"case:{case}" in signature
        assert (scored.values[name] < 100) == (cased > 0)


def test_translations_of_other_sentences_are_refused(tmp_path):
    path = print_translations(tmp_path / "out", PERFECT[1:])
    with pytest.raises(ValueError, match=f"{tmp_path}/out has 11 translations, .* 12 references"):
        score_translations(path, "en", REFERENCES)


@pytest.mark.parametrize("language", ["zh", "zh-CN", "zh.hans", "ja", "th", "ko"])
def test_a_perfect_translation_without_spaces_has_a_bleu_of_100(tmp_path, language):
    """The signature names the tokenizer, and half of the translation scores above 0."""
    text = "今天天气很好我们去公园散步吧"
    path = print_translations(tmp_path / "test.txt", [text], [text])
    scored = score_translations(path, language, [text])
    assert scored.values["BLEU"] == pytest.approx(100)
    tokenizer = "zh" if language.startswith("zh") else "char|mecab"
    assert re.search(f"tok:[a-z-]*({tokenizer})", scored.signatures["BLEU"])
    assert score_translations(path, language, [text[: len(text) // 2] + "x"]).values["BLEU"] > 0


def test_a_perfect_translation_scores_100_for_any_spaces(tmp_path):
    """The signature has the share of references whose spaces are lost."""
    tokens = ["either this and / or that one .", "that dog ’ s bone is “ here ” ."]
    path = print_translations(tmp_path / "out", tokens, tokens)
    published = ["Either this and/or that one.", "That dog’s bone is “here”."]
    scored = score_translations(path, "en", published)
    assert scored.values == pytest.approx({"BLEU": 100, "chrF": 100})
    assert all(signature.endswith("|restored:50.0%") for signature in scored.signatures.values())
    assert scored.predictions.reference == ["either this and / or that one.", published[1]]
    exact = score_translations(print_translations(tmp_path / "out", PERFECT), "en", REFERENCES)
    assert "restored" not in exact.signatures["BLEU"]


def test_the_first_of_several_hypotheses_is_scored(tmp_path):
    """--nbest lists worse hypotheses after the best."""
    path = print_translations(tmp_path / "out", PERFECT)
    lines = path.read_text().splitlines(keepends=True)
    more = [[line, line.replace("-0.1", "-9")[:-5] + "x\n"] for line in lines if line[0] == "H"]
    path.write_text("".join([line for line in lines if line[0] != "H"] + sum(more, [])))
    scored = score_translations(path, "en", REFERENCES)
    assert scored.values == pytest.approx({"BLEU": 100, "chrF": 100})


def test_a_tokenizer_may_be_chosen(tmp_path):
    path = print_translations(tmp_path / "out", ["b c d e"], ["b c d e"])
    scored = score_translations(path, "en", ["b c d e"], tokenize="char")
    assert "tok:char" in scored.signatures["BLEU"]


def test_classes_are_scored_by_accuracy_and_f1(tmp_path):
    """Seven of ten are right, of one class: F1 is 2 * 7 / 17 for it and 0 for the other."""
    rows = [f"{n}\ta\t{'a' if n < 7 else 'b'}\t0.{n}\t0.5\n" for n in range(10)]
    path = tmp_path / "test.tsv"
    path.write_text(HEADER + "".join(rows))
    scored = score_classes(path)
    assert scored.values == pytest.approx({"accuracy": 70, "macro-F1": 100 * 7 / 17})
    assert scored.predictions.probability == pytest.approx([n / 10 for n in range(10)])
    assert scored.predictions.source[3] == "example 3"


@pytest.mark.parametrize(
    "row",
    [
        *("0\t\ta\t0.5\t0.5", "0\ta\t\t0.5\t0.5", "0\ta", "0\ta\ta\t"),
        *("0\tc\ta\t0.5\t0.5", "0\ta\tc\t0.5\t0.5", "0\ta\ta\t0.5\t0.5\t1", ""),
    ],
)
def test_a_table_with_a_bad_prediction_is_refused(tmp_path, row):
    """A row may lack its class or probability, have an unknown class, or be too long or missing."""
    path = tmp_path / "test.tsv"
    path.write_text(f"{HEADER}{row}\n")
    place = "line 2 is not the prediction" if row else "has no predictions"
    with pytest.raises(ValueError, match=f"{path},? {place}.*; delete it"):
        score_classes(path)


def test_a_table_that_lacks_texts_is_refused(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text(HEADER + "".join(f"{n}\ta\ta\t0.5\t0.5\n" for n in range(9)))
    assert score_classes(path, ["text"] * 9).predictions.source == ["text"] * 9
    with pytest.raises(ValueError, match=f"{path} has 9 predictions, .* 10 texts; delete it"):
        score_classes(path, ["text"] * 10)


def test_a_perplexity_without_tokens_is_refused(tmp_path):
    """fairseq-eval-lm logs 1.00 if all texts are longer than its limit."""
    path = tmp_path / "checkpoint_best.test.out"
    path.write_text(EVALUATED.format(120, 8.25))
    assert score_language_model(path).values == {"perplexity": 8.25}
    path.write_text(EVALUATED.format(0, 1.0))
    with pytest.raises(ValueError, match=f"{path} has no perplexity; delete it"):
        score_language_model(path)


@pytest.mark.parametrize(
    "start",
    ["2026-11-28 10:00:00 | INFO | fairseq_cli.eval_lm | ", "INFO:fairseq_cli.eval_lm:"],
)
def test_likelihoods_of_texts_are_read_from_the_log(start, tmp_path):
    """Texts are in their order, of any words, and infinite values are left out as in fairseq."""
    path = tmp_path / "checkpoint_best.test.out"
    lines = ["1 | [-2.500000]\ta [-1.000000]", "0 the [-0.500000]\tx | y [-inf]\t</s> [-0.250000]"]
    lines += ["Evaluated 4 tokens in 0.1s", "Loss (base 2): 1.53, Perplexity: 2.89"]
    path.write_text("".join(f"{start}{line}\n" for line in lines))
    scored = score_language_model(path)
    likelihoods = scored.likelihoods
    assert likelihoods.nll.tolist() == [0.75, 3.5] and likelihoods.tokens.tolist() == [2, 2]
    assert likelihoods.perplexity == pytest.approx(scored.values["perplexity"], abs=0.006)
    write_likelihoods(tmp_path / "kept.csv", likelihoods)
    kept = read_likelihoods(tmp_path / "kept.csv")
    assert np.array_equal(kept.tokens, likelihoods.tokens) and kept.nll == pytest.approx(
        likelihoods.nll
    )
    path.write_text(f"{start}{lines[-1]}\n")
    assert score_language_model(path).likelihoods is None, "of an earlier version"


def write_text(folder, split, lines, language=""):
    """Binarised text in a folder."""
    dictionary = make_dictionary(["un", "##believ", "##able", "film"])
    dictionary.save(str(folder / ("dict.txt" if not language else f"dict.{language}.txt")))
    builder = indexed_dataset.make_builder(str(folder / f"{split}.bin"), "mmap", len(dictionary))
    for line in lines:
        tokens = dictionary.encode_line(line, add_if_not_exist=False, append_eos=True)
        builder.add_item(tokens.long())
    builder.finalize(str(folder / f"{split}.idx"))
    return folder / f"{split}.idx"


def test_word_pieces_are_joined_to_words(tmp_path):
    path = write_text(tmp_path, "test", ["un ##believ ##able film"])
    assert read_texts(path) == ["unbelievable film"]


def test_rows_cover_the_training_and_all_checkpoints(tmp_path):
    """Each checkpoint and split has its scores and the output of the recipe's own command."""
    (folder := tmp_path / "a-lr-1-seed2").mkdir()
    write_log(folder / "train.log", (10, 5.0, 7), (20, 4.0, 9))
    for name, perplexity in (("checkpoint_best", 8), ("averaged", 7)):
        (folder / f"{name}.test.out").write_text(EVALUATED.format(120, perplexity))
    (folder / "averaged.test.score").write_text("one\ntwo\n")
    variant = Variant(
        architecture="a",
        task="language_modeling",
        data="/data",
        options={"arch": "transformer_lm_prenorm", "lr": "1"},
        tried={"lr": "1"},
        average=3,
        test_sets={"test": None},
        score={"test": "measure {output}"},
    )
    flaws = {"test": {"unknown": 0.25, "leaked": 0.0}}
    rows = make_rows(estimated(variant), folder, "not evaluated", flaws, seed=2)
    training, best, averaged, *printed = rows
    assert (training.metric, training.score, training.state) == ("", None, "not evaluated")
    assert (best.checkpoint, best.score) == ("best checkpoint", 8)
    assert (averaged.checkpoint, averaged.score) == ("average of the last 3 checkpoints", 7)
    assert [row.printed for row in printed] == ["one", "two"]
    assert {row.metric for row in printed} == {"measure {output}"}
    assert best.unknown == 0.25 and best.leaked == 0 and best.family == "pre-norm Transformer"
    assert (best.updates, best.validation, best.tuned) == (20, 4.0, "lr 1")
    assert json.loads(best.options) == variant.options
    assert np.genfromtxt(tmp_path / best.curve, delimiter=",", names=True)["loss"].tolist() == [
        5,
        4,
    ]
