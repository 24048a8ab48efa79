"""Tables repeat examples/results.csv, the results of trainings; summaries are its means."""

import csv
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLES = {  # page, what stands before the table, and the columns of the results
    "multi30k": ("multi30k", "The recipe as it stands", slice(3, 6)),
    "multi30k-embedding-dropout": ("multi30k", "With 0.3 of the embeddings", slice(3, 6)),
    "agnews": ("text_classification", "**A part of AG News**", slice(2, 5)),
    "imdb": ("text_classification", "**All of IMDb**", slice(2, 3)),
    "polarity": ("text_classification", "**Sentence polarity**", slice(2, 3)),
    "listops": ("lra", "## Short ListOps", slice(1, 2)),
    "ptb": ("transject", "## Table 3", slice(5, 6)),
}


def read_results():
    with open(ROOT / "examples/results.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def numbers(cells):
    """What the cells begin with, if it is a number with decimals, but no percentage."""
    return [number for cell in cells for number in re.findall(r"^\d+\.\d+(?!%)\b", cell)]


@pytest.mark.parametrize("experiment", TABLES)
def test_tables_repeat_the_results(experiment):
    page, start, columns = TABLES[experiment]
    text = (ROOT / "examples" / page / "README.md").read_text("utf-8")
    table = re.search(r"^\|.*(\n\|.*)*", text[text.index(start) :], re.M).group()
    found, expected = defaultdict(list), defaultdict(list)
    for line in table.splitlines()[2:]:
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        found[re.sub("`| \\(fairseq\\)", "", cells[0])] += numbers(cells[columns])
    for row in read_results():
        if row["experiment"] == experiment:
            expected[row["arch"]].append(row["value"])
    assert {arch: values for arch, values in found.items() if values} == expected


def summaries():
    """Pages, and what they say of means over the seeds, by today's results."""
    values = defaultdict(list)
    for row in read_results():
        values[row["experiment"], row["measure"], row["arch"]].append(float(row["value"]))

    def means(experiment, measure):
        return lambda arch: f"{fmean(values[experiment, measure, arch]):.1f}"

    def transevolve(mean):
        all_four = [f"{ff}_{blocks}" for ff in ("randomff", "fullff") for blocks in (1, 2)]
        lowest, *_, highest = sorted(mean(f"transevolve_classifier_{name}") for name in all_four)
        return f"{lowest} to {highest}"

    bleu, news = means("multi30k", "BLEU"), means("agnews", "accuracy")
    listops, perplexity = means("listops", "accuracy"), means("ptb", "perplexity")
    transformer, macaron = bleu("transformer_prenorm"), bleu("macaron_transformer")
    prenorm, fullff = bleu("transevolve_fullff_2_prenorm"), bleu("transevolve_fullff_2")
    baseline = news("transformer_classifier")
    for page, texts in {
        "README": (
            f"Macaron Net {macaron} | Transformer (pre-norm) {transformer} |",
            f"TransEvolve {prenorm}, with its paper's norms {fullff} | "
            f"Transformer (pre-norm) {transformer} |",
            f"TransJect {news('transject')}, TransEvolve {transevolve(news)} | "
            f"Transformer {baseline} |",
        ),
        "docs/choosing": (
            f"Multi30k, BLEU: {transformer} (three seeds) and {macaron} (",
            f"BLEU at the end on Multi30k ({prenorm}, three seeds)",
            f"AG News, accuracy: {news('transject')} (three seeds), "
            f"{news('transformer_classifier_rezero')} (one); Transformer {baseline}",
            f"ListOps: {transevolve(listops)}, Transformer {listops('transformer_classifier')} |",
            f"`transject` has {listops('transject')} there",
            f"perplexity {perplexity('transject_lm')}, Transformer {perplexity('transformer_lm')}",
        ),
        "examples/README": (
            f"best checkpoint: {macaron} Macaron Net, {transformer} Transformer (pre-norm)",
            f"best checkpoint: {prenorm} fullFF-2 pre-norm, {transformer} Transformer pre-norm",
            f"{fullff} fullFF-2 (paper's norms)",
            f"{transevolve(news)} against {baseline}",
            f"{transevolve(listops)} against {listops('transformer_classifier')}",
            f"{news('transject')}, Transformer {baseline}",
            f"{listops('transject')} against {listops('transformer_classifier')}",
            f"{perplexity('transject_lm')} against {perplexity('transformer_lm')}",
        ),
    }.items():
        yield from (pytest.param(page, text, id=f"{page}: {text}") for text in texts)


@pytest.mark.parametrize("page, text", summaries())
def test_summaries_are_means_of_the_results(page, text):
    assert text in (ROOT / f"{page}.md").read_text("utf-8")
