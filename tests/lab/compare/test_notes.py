"""Statistics with known values, and notes at both sides of their thresholds."""

import math
from dataclasses import replace

import pytest
from lab.compare.comparisons import (
    ENDED,
    LANGUAGE_MODEL,
    SIGNATURE,
    TRANSLATION,
    write_comparison,
    write_run,
)

from fairseq_odeformers.lab.compare.notes import (
    LEAVES_OPEN,
    REMARK,
    RULES_OUT,
    compare_over_texts,
    compare_seeds,
    compute_statistics,
    correct_by_holm,
    count_decimals,
    find_notes,
    over_seeds,
)
from fairseq_odeformers.lab.compare.results import Curve, Row, read_comparison

CLASSES = ["x", "y"] * 60
TEXTS = [
    f"the {noun} sleeps in the old house number {n}" for n, noun in enumerate("abcdefghij" * 12)
]


def notes_of(out, start):
    """The notes of a comparison that begin with a text."""
    comparison = read_comparison(out)
    notes = find_notes(comparison)
    for table in comparison.tables:
        found = [*notes, *find_notes(comparison, table)]
        notes = found + find_notes(comparison, table, compute_statistics(table, found))
    return [note for note in notes if note.sentence.startswith(start)]


# --- statistics ------------------------------------------------------------------------


def test_intervals_need_three_seeds():
    assert over_seeds([1.0], 1) == "1.0"
    assert over_seeds([1.0, 2.0], 1) == "1.5 ± 0.7"
    assert over_seeds([1.0, 2.0, 3.0], 1) == "2.0 ± 1.0 (-0.5 to 4.5)"
    assert over_seeds([5.0, 5.0, 5.0], 1) == "5.0 ± 0.0"


def test_a_score_below_100_does_not_read_100():
    assert over_seeds([99.953], 1) == "99.95" and over_seeds([99.7], 0) == "99.7"
    assert over_seeds([100.0 - 1e-12], 1) == "100.0" and over_seeds([99.94], 1) == "99.9"
    assert over_seeds([99.95, 99.97], 1) == "99.96 ± 0.01"


@pytest.mark.parametrize(
    "metric, texts, decimals",
    [
        *(("accuracy", 64, 1), ("macro_f1", None, 1), ("BLEU", 9_999, 1), ("BLEU", 10_000, 2)),
        *(("perplexity", 64, 2), ("loss", None, 3), ("mcc", None, 3)),
    ],
)
def test_few_texts_have_few_decimals(metric, texts, decimals):
    assert count_decimals(metric, texts) == decimals


@pytest.mark.parametrize(
    "metric, ours, told",
    [
        ("accuracy", [84.0, 86.0, 88.0], "+5.0 (+0.8 to +9.2)"),
        ("perplexity", [84.0, 86.0, 88.0], "-5.00 (-9.16 to -0.84)"),
        ("accuracy", [84.0, 84.0, 84.0], "+3.0"),
        ("accuracy", [80.99], "+0.0"),
    ],
)
def test_differences_are_positive_if_better_and_have_welch_s_interval(metric, ours, told):
    """Of three seeds on both sides that are not all equal.

    Here the half of it is 4.157, by variances over sizes of 4/3 and 1/3.
    """
    runs, others = (
        {seed: Row(metric=metric, score=score) for seed, score in enumerate(scores)}
        for scores in (ours, [80.0, 81.0, 82.0])
    )
    assert str(compare_seeds(runs, others)) == told


def test_several_comparisons_are_corrected():
    """Holm's example: factors of 4 to 1 in the order of the p-values, which stay in that order."""
    assert correct_by_holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert correct_by_holm([0.9, 0.8]) == [1, 1] and correct_by_holm([0.2]) == [0.2]


@pytest.mark.parametrize("better, p", [(0, 1), (1, 1), (3, 0.25), (5, 0.0625), (6, 0.03125)])
def test_classes_are_compared_by_mcnemars_exact_test(tmp_path, better, p):
    """One of two models is right on some texts more, of ten, and on no text less: 2 * 0.5**n."""
    runs = (
        write_run(tmp_path, name, outputs=["x"] * hits + ["y"] * (10 - hits), references=["x"] * 10)
        for name, hits in (("a", 4), ("b", 4 + better))
    )
    (table,) = read_comparison(write_comparison(tmp_path, *runs)).tables
    tested = compare_over_texts(table)
    assert tested["b"][1].p_value == pytest.approx(p) and math.isnan(tested["a"][1].p_value)
    share = 0.4 + better / 10
    assert tested["b"][1].error == pytest.approx(196 * math.sqrt(share * (1 - share) / 10))


def test_p_values_are_of_their_model_and_seed(tmp_path):
    """In no order, of models and seeds of different sizes; a seed without a baseline has none."""
    gains = {("b", 1): 4, ("b", 2): 9, ("c", 1): 12, ("c", 2): 2, ("c", 3): 5}
    references, runs = ["x"] * 120, []
    for (name, seed), hits in {("a", 1): 0, ("a", 2): 0, **gains}.items():
        outputs = ["x"] * (60 + hits) + ["y"] * (60 - hits)
        runs.append(write_run(tmp_path, name, seed, outputs=outputs, references=references))
    (table,) = read_comparison(write_comparison(tmp_path, *runs)).tables
    raw = {key: 2 * 0.5**gain for key, gain in gains.items() if key != ("c", 3)}
    holm = {("c", 1): 4, ("b", 2): 3, ("b", 1): 2, ("c", 2): 1}
    corrected, largest = {}, 0.0
    for key, factor in holm.items():
        largest = max(largest, factor * raw[key])
        corrected[key] = min(1, largest)
    found = compute_statistics(table, ()).p_values
    assert found["b"] == pytest.approx([corrected["b", 1], corrected["b", 2]])
    assert found["c"] == pytest.approx([corrected["c", 1], corrected["c", 2]])


def test_translations_are_compared_by_a_paired_bootstrap(tmp_path):
    """What differs in many sentences is significant, other sentences or the same ones are not."""
    worse = [text.replace("sleeps in the", "sleep on a") for text in TEXTS]
    outputs = {"a": TEXTS, "same": TEXTS, "worse": worse, "chance": worse[:4] + TEXTS[4:]}
    runs = [
        write_run(tmp_path, name, score=50.0, outputs=texts, references=TEXTS, **TRANSLATION)
        for name, texts in outputs.items()
    ]
    runs += [
        write_run(
            tmp_path,
            "a",
            2,
            score=50.0,
            outputs=TEXTS[:-4] + worse[-4:],
            references=TEXTS,
            **TRANSLATION,
        ),
        write_run(
            tmp_path,
            "chance",
            2,
            score=50.0,
            outputs=worse[:4] + TEXTS[4:],
            references=TEXTS,
            **TRANSLATION,
        ),
    ]
    (table,) = read_comparison(write_comparison(tmp_path, *runs)).tables
    tested = compare_over_texts(table)
    assert tested["same"][1].p_value == 1 and tested["worse"][1].p_value < 0.002
    assert tested["chance"][2].p_value > 0.3, "as many errors in other sentences"
    assert tested["chance"][1].error > 0 and tested["a"][1].error == 0


# --- notes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "a, b, kind",
    [
        ([60], [75], None),
        ([60], [76], REMARK),
        ([60], [91], RULES_OUT),
        ([90], [90], None),
        ([40, 80], [70, 70], None),  # seeds of one architecture have made the same effort
    ],
)
def test_unequal_effort(a, b, kind, tmp_path):
    """A note from a quarter on; from a half on, scores are not compared."""
    runs = [
        write_run(tmp_path, name, seed, 70.0, budget=1.0, cpu_seconds=float(time), seconds=60.0)
        for name, times in (("a", a), ("b", b))
        for seed, time in enumerate(times)
    ]
    write_comparison(tmp_path, *runs)
    found = notes_of(tmp_path, "Unequal effort")
    assert [note.kind for note in found] == [kind] * (kind is not None)
    (table,) = read_comparison(tmp_path).tables
    assert bool(compute_statistics(table, found).differences) == (kind != RULES_OUT)


@pytest.mark.parametrize("seconds, told", [(75, ""), (76, "27% longer"), (44, "27% less")])
def test_a_budget_that_was_missed(seconds, told, tmp_path):
    times = {"seconds": float(seconds), "cpu_seconds": 60.0}
    runs = (write_run(tmp_path, name, budget=1.0, **times) for name in "ab")
    found = notes_of(write_comparison(tmp_path, *runs), "The budget was missed")
    assert [told in note.sentence for note in found] == [True] * bool(told)


def test_unfinished_trainings_are_not_of_equal_effort(tmp_path):
    runs = (
        write_run(tmp_path, name, budget=1.0, cpu_seconds=float(s), seconds=60.0, state=state)
        for name, s, state in (("a", 60, ""), ("b", 10, "1 of 9 updates"))
    )
    write_comparison(tmp_path, *runs)
    assert not notes_of(tmp_path, "Unequal effort") and not notes_of(tmp_path, "The budget")


def test_a_budget_is_for_equal_time(tmp_path):
    faster = replace(ENDED, updates=[10, 20, 38])
    runs = (
        write_run(tmp_path, name, budget=0.1, seconds=6.0, cpu_seconds=6.0, curve=curve)
        for name, curve in (("a", ENDED), ("b", faster))
    )
    (note,) = notes_of(write_comparison(tmp_path, *runs), "The budget is for equal time")
    assert note.sentence.endswith("not equal updates: 30 to 38 in 0:00:06 to 0:00:06.")


@pytest.mark.parametrize("other, told", [(12.5, False), (12.6, True)])
def test_seeds_of_unequal_time_tell_no_cost(other, told, tmp_path):
    """By the CPU, since the clock depends on other processes."""
    runs = (
        write_run(tmp_path, "a", seed, cpu_seconds=cpu, seconds=seed * 100.0)
        for seed, cpu in ((1, 10.0), (2, other))
    )
    found = notes_of(write_comparison(tmp_path, *runs), "Seeds took unequal time")
    assert [note.subjects for note in found] == [("a",)] * told


def test_models_of_several_commands(tmp_path):
    runs = (write_run(tmp_path, name, command=f"10:0{name}") for name in "ab")
    write_comparison(tmp_path, *runs)
    assert len(notes_of(tmp_path, "Trained by 2 commands")) == 1


def improving(last, updates=(50, 100)):
    losses = [5.0, last]
    return Curve([*updates], [1.0, 2.0], losses, losses, losses, 1)


@pytest.mark.parametrize(
    "last, notes",
    [
        (4.91, []),
        (4.89, ["Still improving"]),  # 4.945 at 75, and 1% of 5 is 0.05
        (4.71, ["Still improving"]),
        (4.69, ["Still improving", "Too little"]),  # 3% of 5 is 0.15
    ],
)
def test_a_loss_that_falls_at_the_end(last, notes, tmp_path):
    """By 1% of the first one, the order is open; by 3%, there is too little training."""
    runs = [
        write_run(tmp_path, "a", score=70.0),
        write_run(tmp_path, "b", score=70.0, curve=improving(last)),
    ]
    write_comparison(tmp_path, *runs)
    found = [
        note for start in ("Still improving", "Too little") for note in notes_of(tmp_path, start)
    ]
    assert [note.sentence[: len(start)] for note, start in zip(found, notes, strict=True)] == notes
    assert [note.kind for note in found] == [LEAVES_OPEN, RULES_OUT][: len(notes)]
    assert all(note.subjects == ("b",) for note in found)


@pytest.mark.parametrize(
    "updates, losses",
    [
        ([25, 75, 100], [1.0, 0.05, 0.03]),  # near zero
        ([50, 90, 100], [5.0, 4.0, 4.1]),
        ([100], [5.0]),
    ],
)
def test_a_loss_that_has_ended_to_fall(updates, losses, tmp_path):
    curve = Curve(updates, [1.0] * len(losses), losses, losses, losses, 0)
    write_comparison(tmp_path, write_run(tmp_path, "a", score=70.0, curve=curve))
    assert not notes_of(tmp_path, "Too little")


def test_untuned_options_leave_the_order_open(tmp_path):
    """Nothing is to be said of one model."""
    runs = [write_run(tmp_path, name) for name in "ab"]
    write_comparison(tmp_path, *runs)
    (note,) = notes_of(tmp_path, "Options were not tuned")
    assert note.kind == LEAVES_OPEN
    write_comparison(tmp_path, runs[0])
    assert not notes_of(tmp_path, "Options were not tuned")


def test_values_at_an_edge_are_told(tmp_path):
    """A candidate without a value is none; values that are no numbers have no edge."""
    tried = {
        "a": {"1e-3": 3.0, "2e-3": 2.0, "4e-3": 1.0},
        "b": {"1e-3": 3.0, "2e-3": 2.0, "4e-3": 9.0},
    }
    runs = [
        write_run(tmp_path, name, tuned=f"lr {value} activation-fn relu", validation=loss)
        for name, values in tried.items()
        for value, loss in values.items()
    ]
    (note,) = notes_of(write_comparison(tmp_path, *runs), "a chose")
    assert note.sentence == "a chose the largest lr, 4e-3; values beyond it may be better."
    assert not notes_of(tmp_path, "b chose")


def test_norms_that_differ_by_default_are_told(tmp_path):
    """And other defaults are in the table of options alone."""
    defaults = {"a": '{"encoder-normalize-before": true, "fn": "relu"}'}
    defaults |= {
        "b": '{"encoder-normalize-before": false}',
        "c": '{"encoder-normalize-before": true, "fn": "x"}',
    }
    runs = (write_run(tmp_path, name, defaults=text) for name, text in defaults.items())
    (note,) = notes_of(write_comparison(tmp_path, *runs), "Norms or dropout differ")
    assert note.subjects == ("b",)


def test_less_than_an_epoch_is_too_little(tmp_path):
    runs = (
        write_run(tmp_path, name, score=70.0, epoch_updates=of_epoch)
        for name, of_epoch in (("a", 30), ("b", 31))
    )
    (note,) = notes_of(write_comparison(tmp_path, *runs), "Too little")
    assert "compare: b (less than an epoch); train" in note.sentence and note.subjects == ("b",)


def test_a_classifier_of_one_class_has_learned_too_little(tmp_path):
    """Unless the texts have no other, which rules out all."""
    outputs = {"a": CLASSES, "b": ["x"] * 120}
    runs = [write_run(tmp_path, n, outputs=o, references=CLASSES) for n, o in outputs.items()]
    (note,) = notes_of(write_comparison(tmp_path, *runs), "Too little")
    assert "compare: b (it predicts one class); train" in note.sentence
    other = tmp_path / "other"
    run = write_run(other, "a", outputs=["x"] * 120, references=["x"] * 120)
    (note,) = notes_of(write_comparison(other, run), "Nothing to compare")
    assert note.kind == RULES_OUT and "all texts of test have one class, x" in note.sentence
    assert not notes_of(other, "Too little")


@pytest.mark.parametrize(
    "right, last, told", [(72, 2.99, True), (72, 4.0, False), (82, 2.99, False)]
)
def test_a_classifier_near_the_majority_may_have_learned_too_little(right, last, told, tmp_path):
    """Only if its last validation is the best; 70 of 100 texts are of one class."""
    references = ["x"] * 70 + ["y"] * 30
    outputs = ["x"] * 70 + ["y"] * (right - 70) + ["x"] * (100 - right)
    curve = Curve([1, 2], [1.0, 2.0], [3.0, last], [3.0, last], [3.0, last], 1)
    run = write_run(tmp_path, "a", outputs=outputs, references=references, curve=curve)
    found = notes_of(write_comparison(tmp_path, run), "Too little")
    assert ["hardly better than always x" in note.sentence for note in found] == [True] * told


@pytest.mark.parametrize(
    "score, words, told",
    [
        (0.9, 60, "BLEU below 1"),
        (3.0, 2, "2 different words, the references have 60"),
        (3.0, 9, None),
    ],
)
def test_translations_that_are_hardly_words_of_the_references(score, words, told, tmp_path):
    """Whatever their BLEU: with fewer than a tenth of the references' words."""
    references = [" ".join(f"w{30 * n + i}" for i in range(30)) for n in range(2)]  # 60 words
    outputs = [" ".join(f"w{i % words}" for i in range(30)) for _ in references]
    run = write_run(
        tmp_path, "a", score=score, outputs=outputs, references=references, **TRANSLATION
    )
    found = notes_of(write_comparison(tmp_path, run), "Too little")
    assert [told in note.sentence for note in found] == [True] * bool(told)


@pytest.mark.parametrize("texts, told", [(99, True), (100, False)])
def test_few_texts_rule_a_comparison_out(texts, told, tmp_path):
    run = write_run(tmp_path, "a", outputs=CLASSES[:texts], references=CLASSES[:texts])
    found = notes_of(write_comparison(tmp_path, run), "Too few texts to compare: 99")
    assert [note.kind for note in found] == [RULES_OUT] * told


@pytest.mark.parametrize("share, told", [(0.009, False), (0.121, True)])
def test_unknown_words_make_a_perplexity_look_better(share, told, tmp_path):
    run = write_run(tmp_path, "a", score=100.0, unknown=share, **LANGUAGE_MODEL)
    found = notes_of(write_comparison(tmp_path, run), "12.1% of the words of test are unknown")
    assert len(found) == told


@pytest.mark.parametrize("more, told", [("", False), ("|restored:46.7%", True)])
def test_references_whose_spaces_do_not_come_back_are_told(more, told, tmp_path):
    run = write_run(tmp_path, "a", score=20.0, **TRANSLATION)
    run[1] = replace(run[1], signature=SIGNATURE + more)
    found = notes_of(write_comparison(tmp_path, run), "46.7% of the references have spaces")
    assert len(found) == told


@pytest.mark.parametrize("ours, told", [([60.0, 61.0, 62.0], True), ([68.0, 71.0, 75.0], False)])
def test_seeds_that_agree_where_texts_do_not_leave_the_order_open(ours, told, tmp_path):
    """A difference in the mean that the same outputs of both models do not show."""
    runs = [
        write_run(tmp_path, name, seed, score, CLASSES, CLASSES)
        for name, scores in (("a", [70.0, 71.0, 72.0]), ("b", ours))
        for seed, score in enumerate(scores)
    ]
    write_comparison(tmp_path, *runs)
    found = notes_of(tmp_path, "b: other seeds would probably agree, other texts may not")
    assert [note.kind for note in found] == [LEAVES_OPEN] * told


def test_one_seed_leaves_the_order_open(tmp_path):
    write_comparison(tmp_path, *(write_run(tmp_path, name, score=70.0) for name in "ab"))
    assert len(notes_of(tmp_path, "One seed says nothing")) == 1


@pytest.mark.parametrize("early, compared", [("b", ["c"]), ("a", [])])
def test_a_model_with_too_little_training_withholds_its_own_statistics(early, compared, tmp_path):
    """All if it is the baseline."""
    runs = (
        write_run(
            tmp_path,
            name,
            epoch_updates=31 if name == early else 30,
            outputs=CLASSES,
            references=CLASSES,
        )
        for name in "abc"
    )
    comparison = read_comparison(write_comparison(tmp_path, *runs))
    (table,) = comparison.tables
    statistics = compute_statistics(table, find_notes(comparison, table))
    assert list(statistics.differences) == list(statistics.p_values) == compared
    assert list(statistics.errors) == ["a", "b", "c"], "each score has its own"
