"""What logs and outputs of runs come to, on ones with known statistics."""

import json
import re

import numpy as np
import pytest
from fairseq.data import indexed_dataset
from sacrebleu import corpus_bleu, corpus_chrf

from fairseq_odeformers.data.classification import make_dictionary
from odeformers.compare.outcome import make_rows
from odeformers.compare.results.curves import (
    read_likelihoods,
    read_log,
    read_progress,
    write_likelihoods,
)
from odeformers.compare.results.scores import (
    read_texts,
    score_classes,
    score_language_model,
    score_translations,
)
from odeformers.compare.variant import Variant
from tests.odeformers.compare.comparisons import tried

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


def test_of_what_an_interrupted_training_repeats_the_last_counts(tmp_path):
    """Seconds are of training alone, and a curve's are the CPU's."""
    log = write_log(tmp_path / "log", (10, 5.0, 7), (20, 4.5, 100), (20, 4.0, 9), (30, 4.2, 4))
    curve, found = read_log(log, "mcc", maximize=True)
    assert (found["seconds"], found["cpu_seconds"], found["tokens"]) == (20, 10, 180)
    assert (curve.updates, curve.seconds) == ([10, 20, 30], [3.5, 8, 10])
    assert (curve.loss, curve.metric, curve.best) == ([5.0, 4.0, 4.2], [5.0, 6.0, 5.8], 1)


def test_a_training_on_a_gpu_has_the_clock_s_seconds(tmp_path):
    log = write_log(tmp_path / "log", (10, 5.0, 7), (20, 4.5, 9), cpu=False)
    curve, found = read_log(log)
    assert (found["seconds"], found["cpu_seconds"], curve.seconds) == (16, None, [7, 16])


def test_seconds_of_short_epochs_are_not_those_that_fairseq_rounds(tmp_path):
    """Where training.py has logged them; fairseq-train's own log has only its own."""
    log = write_log(tmp_path / "log", (10, 5.0, 0), (20, 4.5, 0))
    log.write_text(log.read_text().replace('"train_wpb"', '"train_clock": "0.4", "train_wpb"'))
    assert read_log(log)[1]["seconds"] == 0.8


def test_the_best_the_last_and_the_smallest_loss_are_told_apart(tmp_path):
    """The metric chooses, and its checkpoint's loss is reported; without the metric, the loss."""
    log = write_log(tmp_path / "log", (10, 3.0, 1), (20, 1.0, 1), (30, 2.0, 1), (40, 2.5, 1))
    assert read_log(log, "mcc", maximize=False)[0].best == 0
    assert read_log(log, "loss")[0].best == 1
    curve, found = read_log(log, "accuracy", maximize=True)
    assert (curve.best, found["validated"], found["maximized"]) == (1, "loss", False)
    write_log(log, (10, 3.0, 1), (20, 1.0, 1), (30, 1.0, 1), (40, 2.5, 1))
    assert read_log(log, "loss")[0].best == 2, "of equal ones, fairseq keeps the last"


@pytest.mark.parametrize("subset", ["valid1", "valid1,valid"])
def test_the_first_validation_set_is_read(subset, tmp_path):
    """As fairseq chooses the best checkpoint by it, whatever its name."""
    log = write_log(tmp_path / "train.log", (10, 5.0, 7), (20, 4.0, 9))
    text = log.read_text()
    others = [line.replace("4.0", "1.0") for line in text.splitlines(True) if "| valid |" in line]
    log.write_text(text.replace("valid", "valid1") + "".join(others))
    options = {"arch": "transformer_classifier", "valid-subset": subset}
    variant = Variant("a", "sentence_prediction", "/data", options)
    (row,) = make_rows(tried(variant), tmp_path)
    assert (row.updates, row.validation) == (20, 4.0)
    assert read_progress(log, variant.valid_subset)["loss"] == "4.0"


def test_a_validation_within_an_epoch_has_its_share_of_the_time(tmp_path):
    """Epochs of 10 updates and 7 and 9 seconds; validations after 5 and 15 updates."""
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
    """The last epoch may end after a batch, whose loss says little."""
    log = write_log(tmp_path / "log", (10, 5.0, 7), (20, 4.0, 9), (21, 0.5, 1))
    assert read_log(log)[0].train_loss == [5.0, 4.0, 4.0]


def test_the_updates_are_those_of_the_last_line(tmp_path):
    """That of an epoch's end, too, which --log-interval may not divide."""
    log = tmp_path / "train.log"
    assert read_progress(log)["updates"] == 0
    start = "2026-11-24 08:31:02 | INFO |"
    inner = f'{start} train_inner | {{"epoch": 2, "num_updates": "140", "ups": "1.5"}}\n'
    log.write_text(inner)
    assert read_progress(log) == {"updates": 140, "epoch": "2", "ups": "1.5"}
    valid = f'{start} valid | {{"epoch": 2, "valid_loss": "8.1", "valid_num_updates": "150"}}\n'
    log.write_text(inner + valid + "half of a li")
    assert read_progress(log) == {"updates": 150, "epoch": "2", "ups": "1.5", "loss": "8.1"}


def test_scores_are_those_of_sacrebleu_on_detokenised_text(tmp_path):
    """In the order of the sentences, without case where the data have none."""
    detokenised = [text.replace(" ,", ",").replace(" .", ".") for text in WORSE]
    detokenised = [text.replace(" &apos;", "'") for text in detokenised]
    references = [list(map(str.lower, REFERENCES))]
    bleu, chrf = (score(detokenised, references).score for score in (corpus_bleu, corpus_chrf))
    found = score_translations(print_translations(tmp_path / "out", WORSE), "en", REFERENCES)
    assert found.values == pytest.approx({"BLEU": bleu, "chrF": chrf})
    assert "case:lc" in found.signatures["BLEU"] and "tok:13a" in found.signatures["BLEU"]
    assert found.predictions.output == detokenised and found.predictions.reference == REFERENCES
    perfect = score_translations(print_translations(tmp_path / "out", PERFECT), "en", REFERENCES)
    assert perfect.values == pytest.approx({"BLEU": 100, "chrF": 100})


def test_cased_data_are_scored_with_their_case(tmp_path):
    cased = ["The dog sleeps in the Old house ."]
    path = print_translations(tmp_path / "out", [cased[0].lower()], cased)
    found = score_translations(path, "en")
    assert found.values["BLEU"] < 60 and "case:mixed" in found.signatures["BLEU"]


@pytest.mark.parametrize("cased, case", [(0, "lc"), (1, "mixed"), (len(PERFECT), "mixed")])
def test_one_capital_makes_the_data_cased(cased, case, tmp_path):
    """The signatures say so, and a translation without it is not perfect."""
    of_data = [text.capitalize() if n < cased else text for n, text in enumerate(PERFECT)]
    found = score_translations(print_translations(tmp_path / "out", PERFECT, of_data), "en")
    for name, signature in found.signatures.items():
        assert f"case:{case}" in signature
        assert (found.values[name] < 100) == (cased > 0)


def test_translations_of_other_sentences_are_refused(tmp_path):
    path = print_translations(tmp_path / "out", PERFECT[1:])
    with pytest.raises(ValueError, match=f"{tmp_path}/out has 11 translations, .* 12 references"):
        score_translations(path, "en", REFERENCES)


@pytest.mark.parametrize("language", ["zh", "zh-CN", "zh.hans", "ja", "th", "ko"])
def test_a_perfect_translation_without_spaces_has_a_bleu_of_100(tmp_path, language):
    """The signature names the tokenizer; a half of it right is more than 0."""
    text = "今天天气很好我们去公园散步吧"
    path = print_translations(tmp_path / "test.txt", [text], [text])
    found = score_translations(path, language, [text])
    assert found.values["BLEU"] == pytest.approx(100)
    tokenizer = "zh" if language.startswith("zh") else "char|mecab"
    assert re.search(f"tok:[a-z-]*({tokenizer})", found.signatures["BLEU"])
    assert score_translations(path, language, [text[: len(text) // 2] + "x"]).values["BLEU"] > 0


def test_a_perfect_translation_scores_100_whatever_the_spaces_of_the_reference(tmp_path):
    """The signature has the share of references whose spaces do not come back."""
    tokens = ["either this and / or that one .", "that dog ’ s bone is “ here ” ."]
    path = print_translations(tmp_path / "out", tokens, tokens)
    published = ["Either this and/or that one.", "That dog’s bone is “here”."]
    found = score_translations(path, "en", published)
    assert found.values == pytest.approx({"BLEU": 100, "chrF": 100})
    assert all(signature.endswith("|restored:50.0%") for signature in found.signatures.values())
    assert found.predictions.reference == ["either this and / or that one.", published[1]]
    exact = score_translations(print_translations(tmp_path / "out", PERFECT), "en", REFERENCES)
    assert "restored" not in exact.signatures["BLEU"]


def test_of_several_hypotheses_the_best_is_scored(tmp_path):
    """That is the first one; with --nbest, worse ones follow."""
    path = print_translations(tmp_path / "out", PERFECT)
    lines = path.read_text().splitlines(keepends=True)
    more = [[line, line.replace("-0.1", "-9")[:-5] + "x\n"] for line in lines if line[0] == "H"]
    path.write_text("".join([line for line in lines if line[0] != "H"] + sum(more, [])))
    found = score_translations(path, "en", REFERENCES)
    assert found.values == pytest.approx({"BLEU": 100, "chrF": 100})


def test_a_tokenizer_may_be_chosen(tmp_path):
    path = print_translations(tmp_path / "out", ["b c d e"], ["b c d e"])
    found = score_translations(path, "en", ["b c d e"], tokenize="char")
    assert "tok:char" in found.signatures["BLEU"]


def test_classes(tmp_path):
    """Seven of ten right, of one class: F1 of 2 * 7 / 17, and 0 of the other, as in the log."""
    rows = [f"{n}\ta\t{'a' if n < 7 else 'b'}\t0.{n}\t0.5\n" for n in range(10)]
    path = tmp_path / "test.tsv"
    path.write_text(HEADER + "".join(rows))
    found = score_classes(path)
    assert found.values == pytest.approx({"accuracy": 70, "macro-F1": 100 * 7 / 17})
    assert found.predictions.probability == pytest.approx([n / 10 for n in range(10)])
    assert found.predictions.source[3] == "example 3"


@pytest.mark.parametrize(
    "row",
    [
        *("0\t\ta\t0.5\t0.5", "0\ta\t\t0.5\t0.5", "0\ta", "0\ta\ta\t"),
        *("0\tc\ta\t0.5\t0.5", "0\ta\tc\t0.5\t0.5", "0\ta\ta\t0.5\t0.5\t1", ""),
    ],
)
def test_what_is_no_prediction_is_no_result(tmp_path, row):
    """A row without a class or a probability, of a class that is no column, too long, or none."""
    path = tmp_path / "test.tsv"
    path.write_text(f"{HEADER}{row}\n")
    place = "line 2 is not the prediction" if row else "has no predictions"
    with pytest.raises(ValueError, match=f"{path},? {place}.*; delete it"):
        score_classes(path)


def test_a_table_without_all_texts_is_no_result(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text(HEADER + "".join(f"{n}\ta\ta\t0.5\t0.5\n" for n in range(9)))
    assert score_classes(path, ["text"] * 9).predictions.source == ["text"] * 9
    with pytest.raises(ValueError, match=f"{path} has 9 predictions, .* 10 texts; delete it"):
        score_classes(path, ["text"] * 10)


def test_a_perplexity_of_no_token_is_none(tmp_path):
    """fairseq-eval-lm logs 1.00 if all texts are longer than it is told to take."""
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
def test_likelihoods_of_texts_are_those_of_the_log(start, tmp_path):
    """In the order of the texts, of any words, and without infinite values, as in fairseq."""
    path = tmp_path / "checkpoint_best.test.out"
    lines = ["1 | [-2.500000]\ta [-1.000000]", "0 the [-0.500000]\tx | y [-inf]\t</s> [-0.250000]"]
    lines += ["Evaluated 4 tokens in 0.1s", "Loss (base 2): 1.53, Perplexity: 2.89"]
    path.write_text("".join(f"{start}{line}\n" for line in lines))
    found = score_language_model(path)
    told = found.likelihoods
    assert told.nll.tolist() == [0.75, 3.5] and told.tokens.tolist() == [2, 2]
    assert told.perplexity == pytest.approx(found.values["perplexity"], abs=0.006)
    write_likelihoods(tmp_path / "kept.csv", told)
    kept = read_likelihoods(tmp_path / "kept.csv")
    assert np.array_equal(kept.tokens, told.tokens) and kept.nll == pytest.approx(told.nll)
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


def test_texts_of_word_pieces_are_words(tmp_path):
    path = write_text(tmp_path, "test", ["un ##believ ##able film"])
    assert read_texts(path) == ["unbelievable film"]


def test_rows_have_the_scores_of_all_checkpoints_and_the_training(tmp_path):
    """Of each checkpoint and split, and what the recipe's own command has printed."""
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
    rows = make_rows(tried(variant), folder, "not evaluated", flaws, seed=2)
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
