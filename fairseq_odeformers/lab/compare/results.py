"""Results: the trainings and outcomes of a comparison so far, read from the folders of runs."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_odeformers.files import check_regular, naming_faults, read_lines
from fairseq_odeformers.models.common.kinds import Kind

from .entry import Entry
from .logs import Training, read_training, report_progress
from .outcomes import Classes, Outcome, Perplexity, Translations
from .plan import PLAN, Plan, load_plan
from .recipe import Recipe, find_test_sets, texts_path
from .runs import AVERAGED, BEST, LOG, SCORE, Run, make_runs, prediction_name
from .tuning import choose_best, validate_candidates


@dataclass
class Results:
    """The results of a comparison: trainings that have been validated, by architecture and seed.

    Outcomes are by split and checkpoint as well, and scores are the lines that the recipe's own
    command has printed, each with its run.
    """

    plan: Plan  # with one candidate of each architecture
    trainings: dict[str, dict[int, Training]] = field(default_factory=lambda: defaultdict(dict))
    outcomes: dict[tuple[str, str], dict[str, dict[int, Outcome]]] = field(default_factory=dict)
    scores: dict[tuple[str, str], list[list[str]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # by split, files of texts that are gone
    # What runs that have been begun still lack, by architecture.
    unfinished: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    # The candidates of tuned architectures, each with its best validation, None if it has none.
    candidates: list[tuple[Entry, float | None]] = field(default_factory=list)


def count_seeds(number: int) -> str:
    return "one seed" if number == 1 else f"{number} seeds"


def read_results(out: Path) -> Results:
    """The results in a folder of runs, also of earlier commands."""
    check_regular(out)
    if not (out / PLAN).is_file():  # a run, or the folder of a recipe with parts
        near = [path for path in (out.parent, *sorted(out.glob("*"))) if (path / PLAN).is_file()]
        if near:
            raise ValueError(f"{out}: no comparison; give {' or '.join(map(str, near))}")
    plan = load_plan(out)
    if plan.test_sets is None:
        plan = replace(plan, test_sets=locate_test_sets_of_old_plan(plan.recipe, out))
    validated = validate_candidates(plan, out)
    candidates = [(entry, validated.get(entry.label)) for entry in plan.entries if entry.tried]
    plan = choose_best(plan, validated)
    results = Results(plan, candidates=candidates)
    names = [entry.name for entry in plan.entries]
    runs = sorted(make_runs(plan, out), key=lambda run: names.index(run.name))
    for run in runs:
        add_training(results, run)
    for split, path in (plan.test_sets or {}).items():
        texts = None
        if path and Path(path).is_file():
            texts = read_split_texts(Path(path))
        elif path:
            results.missing[split] = path
        for checkpoint in (BEST, AVERAGED):
            add_outcomes(results, runs, split, checkpoint, texts)
    return results


def add_training(results: Results, run: Run) -> None:
    """Add what the log of a run tells, and what the run lacks."""
    log = run.folder / LOG
    with naming_faults(log):
        training, unfinished = read_training(log, results.plan.recipe.metric), run.unfinished
    if training.losses:
        results.trainings[run.name][run.seed] = training
    if unfinished:
        results.unfinished[run.name].append(unfinished)


def add_outcomes(
    results: Results, runs: Sequence[Run], split: str, checkpoint: str, texts: Sequence[str] | None
) -> None:
    """Add the outcomes of a checkpoint of all runs on a split, and the recipe's own scores."""
    recipe = results.plan.recipe
    outcomes, scores = defaultdict(dict), []
    for run in runs:
        predictions = run.folder / prediction_name(recipe, checkpoint, split)
        if predictions.exists():
            report_progress(f"reading {predictions}")
            with naming_faults(predictions):
                outcomes[run.name][run.seed] = read_outcome(recipe, predictions, texts)
        printed = predictions.with_suffix(SCORE)
        if printed.exists():
            scores += [[f"{run.name}, seed {run.seed}", line] for line in read_lines(printed)]
    if outcomes:
        results.outcomes[split, checkpoint] = outcomes
        results.scores[split, checkpoint] = scores


def locate_test_sets_of_old_plan(recipe: Recipe, out: Path) -> dict[str, str | None]:
    """The test sets of a comparison that was begun before plans kept them.

    If the data are gone, the predictions in *out* tell the splits.
    """
    if Path(recipe.data).is_dir():
        return find_test_sets(recipe)
    splits = recipe.splits
    if splits is None:
        start, ending = prediction_name(recipe, BEST, "*").split("*")
        names = {path.name for path in out.glob(f"*/{start}*{ending}")}
        splits = sorted(name.removeprefix(start).removesuffix(ending) for name in names)
    paths = {split: texts_path(recipe, split) for split in splits}
    return {split: path and str(path) for split, path in paths.items()}


def read_outcome(recipe: Recipe, path: Path, texts: Sequence[str] | None) -> Outcome:
    """The outcome of a file of predictions, by the kind of the recipe.

    Args:
        texts: the references as published, or the texts that have labels; None if not kept.
    """
    if recipe.kind is Kind.TRANSLATION:
        return Translations(path, recipe.train["target-lang"], texts, recipe.bleu_tokenize)
    return Classes(path, texts) if recipe.kind is Kind.CLASSIFICATION else Perplexity(path)


def read_split_texts(path: Path) -> list[str]:
    """The texts of a file that :func:`find_test_sets` names, one per line or binarised."""
    if path.suffix != ".idx":
        return list(read_lines(path))
    with naming_faults(path):
        dictionary = Dictionary.load(str(path.with_name("dict.txt")))
        dataset = MMapIndexedDataset(str(path.with_suffix("")))
        # Word pieces that continue a word begin with ##.
        return [dictionary.string(tokens).replace(" ##", "") for tokens in dataset]
