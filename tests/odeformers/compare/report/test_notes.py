"""Notes at both sides of their thresholds."""

import json
from dataclasses import replace

import pytest

from odeformers.compare.report.judge import judge
from odeformers.compare.report.notes import (
    EDGE_REASON,
    LEAVES_OPEN,
    REMARK,
    RULES_OUT,
    different_defaults,
)
from odeformers.compare.results.curves import Curve
from odeformers.compare.results.rows import read_comparison
from tests.odeformers.compare.comparisons import (
    LANGUAGE_MODEL,
    SIGNATURE,
    TRANSLATION,
    write_comparison,
    write_run,
)

CLASSES = ["x", "y"] * 60


def notes_of(out, start):
    """The notes of a comparison that begin with a text."""
    notes, judged = judge(read_comparison(out))
    notes += [note for each in judged for note in each.notes]
    return [note for note in notes if note.sentence.startswith(start)]


@pytest.mark.parametrize("equal", [None, "seconds", "cpu_seconds"])
@pytest.mark.parametrize(
    "a, b, kind",
    [
        ([60], [75], None),
        ([60], [76], REMARK),
        ([60], [91], RULES_OUT),
        ([90], [90], None),
        ([40, 80], [70, 70], None),  # seeds of one architecture are not compared
    ],
)
def test_unequal_effort_is_noted(a, b, kind, equal, tmp_path):
    """Times that differ by a quarter get a note, and by a half rule the comparison out.

    Other processes affect the clock's times and several cores the CPU's, so that one of both may
    differ.
    """
    kind = None if equal else kind
    runs = []
    for name, times in (("a", a), ("b", b)):
        for seed, time in enumerate(map(float, times)):
            spent = {"seconds": time, "cpu_seconds": 2 * time} | ({equal: 50.0} if equal else {})
            runs.append(write_run(tmp_path, name, seed, 70.0, budget=1.0, **spent))
    write_comparison(tmp_path, *runs)
    notes = notes_of(tmp_path, "Unequal effort")
    assert [note.kind for note in notes] == [kind] * (kind is not None)
    _, (judged,) = judge(read_comparison(tmp_path))
    assert bool(judged.statistics.differences) == (kind != RULES_OUT)


@pytest.mark.parametrize(
    "lengths, times, noted",
    [((1, 3), (2, 6), True), ((1, 3), (5, 6), False), ((1, 1), (2, 6), False)],
)
def test_unequal_lengths_leave_the_order_open(lengths, times, noted, tmp_path):
    """Without a budget, models of unequal speed may take unequal times for equal lengths."""
    runs = [
        write_run(tmp_path, name, cpu_seconds=float(time), options=f'{{"max-epoch": {length}}}')
        for name, length, time in zip("ab", lengths, times)
    ]
    notes = notes_of(write_comparison(tmp_path, *runs), "Unequal training")
    assert [note.kind for note in notes] == [LEAVES_OPEN] * noted


def test_unfinished_trainings_have_no_note_on_effort(tmp_path):
    runs = (
        write_run(tmp_path, name, budget=1.0, seconds=float(s), state=state)
        for name, s, state in (("a", 60, ""), ("b", 10, "1 of 9 updates"))
    )
    write_comparison(tmp_path, *runs)
    assert not notes_of(tmp_path, "Unequal effort")


@pytest.mark.parametrize(
    "one, other, noted", [(40, 50, False), (40, 51, True), (10, 30, True), (1, 29, False)]
)
def test_seeds_of_unequal_time_are_noted(one, other, noted, tmp_path):
    """CPU time counts, as clocks depend on other processes, and only of trainings of minutes."""
    runs = (
        write_run(tmp_path, "a", seed, cpu_seconds=float(cpu), seconds=seed * 100.0)
        for seed, cpu in ((1, one), (2, other))
    )
    notes = notes_of(write_comparison(tmp_path, *runs), "Seeds took unequal time")
    assert [note.subjects for note in notes] == [("a",)] * noted


@pytest.mark.parametrize(
    "clock, cpu, noted", [(125, 100, 0), (126, 100, 1), (100, 200, 0), (9, 5, 1)]
)
def test_a_busy_machine_is_noted(clock, cpu, noted, tmp_path):
    """The note is on short trainings, too, but not on several threads."""
    runs = (
        write_run(tmp_path, "a", seconds=float(clock), cpu_seconds=float(cpu)),
        write_run(tmp_path, "b", seconds=500.0, cpu_seconds=500.0),
    )
    notes = notes_of(write_comparison(tmp_path, *runs), "Other processes")
    assert [note.subjects for note in notes] == [("a",)] * noted


def test_models_of_several_commands_are_noted(tmp_path):
    runs = (write_run(tmp_path, name, command=f"10:0{name}") for name in "ab")
    write_comparison(tmp_path, *runs)
    assert len(notes_of(tmp_path, "The models were trained by 2 commands")) == 1


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
def test_a_loss_that_still_falls_is_noted(last, notes, tmp_path):
    """A fall by 1% of the first loss leaves the order open, and by 3% the training is too short."""
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
def test_a_loss_that_no_longer_falls_has_no_note(updates, losses, tmp_path):
    curve = Curve(updates, [1.0] * len(losses), losses, losses, losses, 0)
    write_comparison(tmp_path, write_run(tmp_path, "a", score=70.0, curve=curve))
    assert not notes_of(tmp_path, "Too little")


def test_untuned_options_leave_the_order_open(tmp_path):
    """A single model has no such note."""
    runs = [write_run(tmp_path, name) for name in "ab"]
    write_comparison(tmp_path, *runs)
    (note,) = notes_of(tmp_path, "Options were not tuned")
    assert note.kind == LEAVES_OPEN
    write_comparison(tmp_path, runs[0])
    assert not notes_of(tmp_path, "Options were not tuned")


def test_values_at_an_edge_are_noted(tmp_path):
    """A candidate without a value does not count, and words have no edge."""
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


@pytest.mark.parametrize("best, noted", [("0", False), ("0.3", True)])
def test_zero_is_no_edge(best, noted, tmp_path):
    """No dropout is smaller."""
    runs = [
        write_run(tmp_path, "a", tuned=f"dropout {value}", validation=float(value != best))
        for value in ("0", "0.1", "0.3")
    ]
    assert bool(notes_of(write_comparison(tmp_path, *runs), "a chose")) is noted


def test_an_edge_that_all_models_chose_is_noted_once(tmp_path):
    runs = [
        write_run(tmp_path, name, tuned=f"lr {value}", validation=loss)
        for name in "ab"
        for value, loss in {"1e-3": 3.0, "2e-3": 2.0}.items()
    ]
    (note,) = notes_of(write_comparison(tmp_path, *runs), "All architectures chose the largest lr")
    assert note.subjects == ("a", "b")


@pytest.mark.parametrize(
    "rates, score, verdict",
    [
        ({"a": "2e-3", "b": "4e-3"}, 90.0, "better"),
        ({"a": "4e-3", "b": "2e-3"}, 90.0, f"better over these seeds, but {EDGE_REASON}"),
        ({"a": "4e-3", "b": "2e-3"}, 50.0, "worse"),
        ({"a": "2e-3", "b": "1e-3"}, 50.0, f"worse over these seeds, but {EDGE_REASON}"),
        ({"a": "2e-3", "b": "1e-3"}, 70.1, f"equivalent over these seeds, but {EDGE_REASON}"),
        ({"a": "2e-3", "b": "2e-3"}, 70.1, "equivalent"),
    ],
)
def test_an_edge_leaves_open_only_what_it_could_change(rates, score, verdict, tmp_path):
    """Values beyond an edge could only make a model better."""
    runs = [
        write_run(tmp_path, name, seed, score + seed / 10, tuned=f"lr {rate}", validation=loss)
        for name, score in {"a": 70.0, "b": score}.items()
        for rate, loss in {"1e-3": 3.0, "2e-3": 3.0, "4e-3": 3.0, rates[name]: 2.0}.items()
        for seed in ((1, 2, 3) if rate == rates[name] else (1,))
    ]
    _, (judged,) = judge(read_comparison(write_comparison(tmp_path, *runs)))
    judgement = judged.verdicts["b"]
    assert verdict in (judgement.word, judgement.reason) and (judgement.word == "inconclusive") == (
        " " in verdict
    )


@pytest.mark.parametrize(
    "state, edge",
    [
        ("1 of 9 updates", False),
        ("failed: fairseq-train: killed by signal 9, often for lack of memory", False),
        ("failed: fairseq-train: the loss or the gradients became NaN or infinite (...)", True),
    ],
)
def test_unfinished_tuning_is_noted_instead_of_its_edge(state, edge, tmp_path):
    """A killed training does not judge its rate, but a diverged one does."""
    runs = [
        write_run(tmp_path, "a", tuned="lr 1e-3", validation=1.0),
        write_run(tmp_path, "a", tuned="lr 2e-3", validation=None),
        write_run(tmp_path, "a", tuned="lr 4e-3", validation=3.0, state=state),
    ]
    write_comparison(tmp_path, *runs)
    assert bool(notes_of(tmp_path, "a chose")) is edge
    assert bool(notes_of(tmp_path, "Tuning has not finished: a.")) is not edge


@pytest.mark.parametrize(
    "base, ours, differ",
    [
        ({"encoder-normalize-before": True}, {"encoder-normalize-before": False}, True),
        ({"encoder-normalize-before": True}, {}, False),
        ({}, {"pooled-layer-norm": True}, False),
        ({"dropout": "0.1"}, {"dropout": "0.10"}, False),
        ({}, {"attention-weights-dropout": "0.0"}, False),
        ({}, {"retain-dropout": "False"}, False),
        ({}, {"attention-weights-dropout": "0.1"}, True),
        ({"dropout": "0.0"}, {}, False),
        ({"activation-fn": "relu"}, {"activation-fn": "gelu"}, False),
    ],
)
def test_norms_and_dropouts_of_other_defaults_are_noted(base, ours, differ, tmp_path):
    """A missing dropout is 0, and norms that only one model has belong to it."""
    defaults = {"a": base, "b": ours}
    runs = (write_run(tmp_path, name, defaults=json.dumps(d)) for name, d in defaults.items())
    notes = notes_of(write_comparison(tmp_path, *runs), "Norms or dropout differ")
    assert [note.subjects for note in notes] == [("b",)] * differ


def test_blocks_of_a_single_layer_are_noted(tmp_path):
    """An option or a default may set the depth; architectures of unknown plugins are left out."""
    settings = {
        "a": {"options": '{"arch": "transformer", "encoder-depth": 1}'},
        "b": {"options": '{"arch": "transevolve", "encoder-depth": 1, "decoder-depth": "2"}'},
        "c": {"options": '{"arch": "transevolve"}', "defaults": '{"encoder-depth": "1"}'},
        "d": {"options": '{"arch": "transevolve", "encoder-depth": 3}'},
        "e": {"options": '{"arch": "transevolve_of_a_plugin", "encoder-depth": 1}'},
    }
    runs = [write_run(tmp_path, name, **columns) for name, columns in settings.items()]
    (note,) = notes_of(write_comparison(tmp_path, *runs), "Blocks of a single layer")
    assert note.subjects == ("b", "c") and note.kind == REMARK


def test_defaults_are_compared_with_the_baselines_options(tmp_path):
    """An option that is set for a model is not one of its defaults."""
    runs = [
        write_run(tmp_path, "a", options='{"dropout": 0.3}', defaults='{"activation-dropout": 0}'),
        write_run(tmp_path, "b", options='{"dropout": 0.1}'),
        write_run(tmp_path, "c", defaults='{"dropout": "0.1", "width": "1"}'),
        write_run(tmp_path, "d"),
    ]
    comparison = read_comparison(write_comparison(tmp_path, *runs))
    base, ours, default, none = (rows[0] for rows in comparison.runs.values())
    assert different_defaults(ours, base) == {}
    assert different_defaults(default, base) == {"dropout": "0.1"}
    assert different_defaults(none, base) == {"dropout": "0"}


def test_less_than_an_epoch_is_too_little(tmp_path):
    runs = (
        write_run(tmp_path, name, score=70.0, epoch_updates=of_epoch)
        for name, of_epoch in (("a", 30), ("b", 31))
    )
    (note,) = notes_of(write_comparison(tmp_path, *runs), "Too little")
    assert "compare: b (less than an epoch). Train" in note.sentence and note.subjects == ("b",)


def test_an_unfinished_training_rules_nothing_out(tmp_path):
    """An unfinished training is not part of means either, and its candidate is not chosen."""
    half = Curve([10], [2.0], [0.5], [0.5], [0.5], 0)
    runs = [
        write_run(tmp_path, name, seed, score=70.0, epoch_updates=20)
        for name in "ab"
        for seed in (1, 2)
    ]
    for state in ("10 of 30 updates", "failed: no memory"):
        seed = 3 + len(state)
        runs.append(write_run(tmp_path, "b", seed, curve=half, epoch_updates=20, state=state))
    assert not notes_of(write_comparison(tmp_path, *runs), "Too little")
    assert [len(rows) for rows in read_comparison(tmp_path).trained.values()] == [2, 2]
    other = tmp_path / "tuned"
    runs = [
        write_run(other, "a", tuned=f"lr {rate}", validation=loss, state=state)
        for rate, loss, state in (("1", 0.1, "failed: diverged"), ("2", 2.0, ""), ("3", 3.0, ""))
    ]
    (row,) = read_comparison(write_comparison(other, *runs)).runs["a"]
    assert row.tuned == "lr 2"


def test_a_classifier_of_one_class_has_learned_too_little(tmp_path):
    """If the texts have only one class, nothing can be compared."""
    outputs = {"a": CLASSES, "b": ["x"] * 120}
    runs = [write_run(tmp_path, n, outputs=o, references=CLASSES) for n, o in outputs.items()]
    (note,) = notes_of(write_comparison(tmp_path, *runs), "Too little")
    assert "compare: b (it predicts one class). Train" in note.sentence
    other = tmp_path / "other"
    run = write_run(other, "a", outputs=["x"] * 120, references=["x"] * 120)
    (note,) = notes_of(write_comparison(other, run), "Nothing to compare")
    assert note.kind == RULES_OUT and "all texts of test have one class, x" in note.sentence
    assert not notes_of(other, "Too little")


def answers(gained, lost):
    """Outputs for 70 texts of one class and 30 of another; some of them are wrong."""
    return ["y"] * lost + ["x"] * (70 - lost) + ["y"] * gained + ["x"] * (30 - gained)


@pytest.mark.parametrize(
    "gained, lost, noted", [(0, 5, True), (2, 0, True), (5, 0, False), (20, 13, True)]
)
def test_a_classifier_must_beat_the_constant_class(gained, lost, noted, tmp_path):
    """A model must be better than by chance over texts, and other models are still compared."""
    references = ["x"] * 70 + ["y"] * 30
    each = {"a": answers(30, 0), "b": answers(gained, lost), "c": answers(25, 1)}
    runs = [
        write_run(tmp_path, name, seed, outputs=outputs, references=references)
        for name, outputs in each.items()
        for seed in (1, 2, 3)
    ]
    notes = notes_of(write_comparison(tmp_path, *runs), "No better than predicting x for every")
    assert all("text, which scores 70.0 on test: b (" in note.sentence for note in notes)
    assert [(note.kind, note.subjects) for note in notes] == [(RULES_OUT, ("b",))] * noted
    _, (judged,) = judge(read_comparison(tmp_path))
    reasons = {name: verdict.reason for name, verdict in judged.verdicts.items()}
    assert ("predicting x for every text" in reasons["b"]) == noted
    assert "predicting" not in reasons["c"]


def test_one_seed_at_chance_does_not_rule_a_model_out(tmp_path):
    """The median of the seeds counts, since one seed is part of their spread."""
    references = ["x"] * 70 + ["y"] * 30
    gains = {"a": (30, 30, 30), "b": (30, 1, 29)}
    runs = [
        write_run(tmp_path, name, seed, outputs=answers(gained, 0), references=references)
        for name, of_seeds in gains.items()
        for seed, gained in enumerate(of_seeds)
    ]
    assert not notes_of(write_comparison(tmp_path, *runs), "No better than")


@pytest.mark.parametrize(
    "score, words, reason",
    [
        (0.9, 60, "BLEU below 1"),
        (3.0, 2, "2 distinct words, 60 in the references"),
        (3.0, 9, None),
    ],
)
def test_translations_with_few_words_of_the_references(score, words, reason, tmp_path):
    """Fewer than a tenth of the references' words are too little, whatever the BLEU."""
    references = [" ".join(f"w{30 * n + i}" for i in range(30)) for n in range(2)]  # 60 words
    outputs = [" ".join(f"w{i % words}" for i in range(30)) for _ in references]
    run = write_run(
        tmp_path, "a", score=score, outputs=outputs, references=references, **TRANSLATION
    )
    notes = notes_of(write_comparison(tmp_path, run), "Too little")
    assert [reason in note.sentence for note in notes] == [True] * bool(reason)


@pytest.mark.parametrize("texts, noted", [(99, True), (100, False)])
def test_few_texts_rule_a_comparison_out(texts, noted, tmp_path):
    run = write_run(tmp_path, "a", outputs=CLASSES[:texts], references=CLASSES[:texts])
    notes = notes_of(write_comparison(tmp_path, run), "Too few texts to compare: 99")
    assert [note.kind for note in notes] == [RULES_OUT] * noted


@pytest.mark.parametrize("share, noted", [(0.009, False), (0.121, True)])
def test_unknown_words_of_a_perplexity_are_noted(share, noted, tmp_path):
    """The first run may lack the share of unknown words."""
    runs = [
        write_run(tmp_path, name, score=100.0, unknown=of_run, **LANGUAGE_MODEL)
        for name, of_run in (("a", None), ("b", share))
    ]
    notes = notes_of(write_comparison(tmp_path, *runs), "12.1% of the words of test are unknown")
    assert len(notes) == noted


@pytest.mark.parametrize("share, noted", [(0.009, False), (0.031, True)])
def test_leaked_test_texts_are_noted(share, noted, tmp_path):
    """The first run may lack the share of leaked texts."""
    runs = [
        write_run(tmp_path, name, score=20.0, leaked=of_run, **TRANSLATION)
        for name, of_run in (("a", None), ("b", share))
    ]
    notes = notes_of(
        write_comparison(tmp_path, *runs), "3.1% of the pairs of test share a side with"
    )
    assert len(notes) == noted


def test_empty_references_are_noted(tmp_path):
    run = write_run(
        tmp_path, "a", score=20.0, outputs=["x", "y"], references=["x", " "], **TRANSLATION
    )
    assert notes_of(write_comparison(tmp_path, run), "1 of the references of test are empty")


@pytest.mark.parametrize("more, noted", [("", False), ("|restored:46.7%", True)])
def test_references_with_lost_spaces_are_noted(more, noted, tmp_path):
    run = write_run(tmp_path, "a", score=20.0, **TRANSLATION)
    run[1] = replace(run[1], signature=SIGNATURE + more)
    notes = notes_of(write_comparison(tmp_path, run), "The spaces of 46.7% of the references")
    assert len(notes) == noted


@pytest.mark.parametrize("ours, noted", [([60.0, 61.0, 62.0], True), ([68.0, 71.0, 75.0], False)])
def test_disagreement_of_seeds_and_texts_leaves_the_order_open(ours, noted, tmp_path):
    """Means differ over seeds, but the outputs of both models are the same."""
    runs = [
        write_run(tmp_path, name, seed, score, CLASSES, CLASSES)
        for name, scores in (("a", [70.0, 71.0, 72.0]), ("b", ours))
        for seed, score in enumerate(scores)
    ]
    write_comparison(tmp_path, *runs)
    notes = notes_of(tmp_path, "b: the interval over seeds excludes zero")
    assert [note.kind for note in notes] == [LEAVES_OPEN] * noted


def test_one_seed_leaves_the_order_open(tmp_path):
    write_comparison(tmp_path, *(write_run(tmp_path, name, score=70.0) for name in "ab"))
    assert len(notes_of(tmp_path, "One seed says nothing")) == 1


@pytest.mark.parametrize("early, compared", [("b", ["c"]), ("a", [])])
def test_too_little_training_withholds_a_models_statistics(early, compared, tmp_path):
    """If the model is the baseline, no statistics remain."""
    runs = (
        write_run(tmp_path, n, score=70.0, epoch_updates=31 if n == early else 30) for n in "abc"
    )
    _, (judged,) = judge(read_comparison(write_comparison(tmp_path, *runs)))
    assert list(judged.statistics.differences) == compared
    whose = "for the baseline, " * (early == "a")
    withheld = {judged.verdicts[name].reason for name in {*"bc"} - {*compared}}
    assert withheld == {f"{whose}training was too short"}
