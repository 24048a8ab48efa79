"""Pages repeat examples/results.csv and docs/speed.csv, and their summaries follow from these."""

import csv
import importlib
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean, stdev

import pytest
import yaml
from scipy.stats import ttest_ind

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/scoreboard"))
correct_by_holm = importlib.import_module("questions").correct_by_holm
BASELINE = "transformer_classifier_prenorm"
TABLES = {  # page, what stands before the table, and the columns of the results
    "multi30k": ("examples/multi30k/README.md", "BLEU is fairseq's", slice(3, 6)),
    "l10n": ("examples/l10n/README.md", "BLEU and chrF", slice(3, 6)),
    "agnews": ("examples/text_classification/README.md", "## Small trials", slice(1, 2)),
    "listops": ("examples/lra/README.md", "## Short ListOps", slice(1, 2)),
    "ptb": ("docs/papers/transject.md", "### Table 3", slice(3, 4)),
    "truncation": ("docs/papers/ode_transformer.md", "### Truncation error", slice(1, 3)),
}


COSTS = {
    "Macaron Net": "macaron_classifier",
    "TransEvolve": "transevolve_classifier_fullff_1_prenorm",
    "TransJect": "transject",
    "ODE Transformer": "ode_transformer_classifier",
    "N-ODE Transformer": "node_transformer",
}


def read(path):
    with open(ROOT / path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def table(page, start):
    """The cells of the first table of a page after some text, with its head, without backticks."""
    text = (ROOT / page).read_text("utf-8").replace("`", "")
    lines = re.search(r"^\|.*(\n\|.*)*", text[text.index(start) :], re.M).group().splitlines()
    head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    return head, rows


def numbers(cell):
    """What a cell has between commas, one for each seed: numbers with decimals, no percentages."""
    return re.findall(r"(?:^|, )(\d+\.\d+)(?!%)\b", cell)


@pytest.mark.parametrize("experiment", TABLES)
def test_tables_repeat_the_results(experiment):
    """A row has one architecture, a column one measure, and a cell the values of all seeds."""
    page, start, columns = TABLES[experiment]
    found = {
        cells[0].removesuffix(" (fairseq)"): [*map(numbers, cells[columns])]
        for cells in table(page, start)[1]
    }
    expected = defaultdict(lambda: defaultdict(list))
    for row in read("examples/results.csv"):
        if row["experiment"] == experiment:
            expected[row["arch"]][row["measure"]].append(row["value"])
    expected = {arch: [*measures.values()] for arch, measures in expected.items()}
    assert {arch: values for arch, values in found.items() if any(values)} == expected


def read_updates():
    """CPU seconds of an update of each model of long text, by the length of its texts."""
    *rows, _ = read("examples/scoreboard/long_text/updates.csv")
    lengths = [name for name in rows[0] if name.isdecimal()]
    return {row["architecture"]: {n: float(row[n]) for n in lengths} for row in rows}


def test_speed_at_equal_size_is_the_ratio_of_the_updates():
    (_, *models), rows = table("docs/speed.md", "**At equal size**")
    seconds = read_updates()
    for length, *cells in rows:
        place = length.replace(",", "")
        ratios = [seconds[BASELINE][place] / seconds[model][place] for model in models]
        assert cells == [f"{ratio:.2f}" for ratio in ratios]


def test_trainings_of_long_text_take_equal_time():
    """The recipe's updates are what fill 60 CPU minutes, a multiple of its eight validations."""
    text = (ROOT / "examples/lra/long_text.yaml").read_text("utf-8")
    architectures = yaml.safe_load(text)["architectures"]
    *rows, _ = read("examples/scoreboard/long_text/updates.csv")
    fitting = {row["architecture"]: int(row["updates"]) // 8 * 8 for row in rows}
    assert {arch: options["max-update"] for arch, options in architectures.items()} == fitting
    _, shown = table("examples/scoreboard/PROTOCOL.md", "--rounds 5")
    assert {row[0]: int(row[3].replace(",", "")) for row in shown} == fitting


SPEED = defaultdict(list)
for row in read("docs/speed.csv"):
    SPEED[row["page"], row["table"]].append(row)


@pytest.mark.parametrize("page, start", (key for key in SPEED if all(key)))
def test_tables_repeat_the_measurements_of_speed(page, start):
    head, rows = table(page, start)
    found = {(row[0], name): cell for row in rows for name, cell in zip(head[1:], row[1:])}
    expected = {(row["row"], row["column"]): row["value"] for row in SPEED[page, start]}
    assert {place: cell for place, cell in found.items() if cell != "not run"} == expected


def test_table_of_memory_repeats_growth():
    rows = (row for row in read("docs/growth.csv") if row["table"] == "memory-length")
    measured = {(row["length"], row["model"]): f"{float(row['value']):,.0f}" for row in rows}
    head, shown = table("docs/speed.md", "## Memory")
    for length, *cells in shown:
        keys = ((length.replace(",", ""), name) for name in head[1:])
        assert cells == [measured[key] for key in keys]


@pytest.mark.parametrize("row", SPEED["docs/speed.md", ""], ids=lambda row: row["value"])
def test_text_repeats_the_measurements_of_speed(row):
    paragraphs = re.split(r"\n\n|\n- ", (ROOT / row["page"]).read_text("utf-8"))
    texts = [" ".join(paragraph.split()) for paragraph in paragraphs]
    assert any(row["row"] in text and row["value"] in text for text in texts), row


def summaries():
    """Pages, and what they say of means over the seeds, or of speed, by today's results."""
    values = defaultdict(list)
    for row in read("examples/results.csv"):
        values[row["experiment"], row["measure"], row["arch"]].append(float(row["value"]))

    def means(experiment, measure):
        return lambda arch: f"{fmean(values[experiment, measure, arch]):.1f}"

    def per_seed(experiment, measure, arch):
        texts = [f"{value:g}" for value in values[experiment, measure, arch]]
        return ", ".join(texts)

    def transevolve(mean):
        all_four = [f"{ff}_{blocks}" for ff in ("randomff", "fullff") for blocks in (1, 2)]
        lowest, *_, highest = sorted(mean(f"transevolve_classifier_{name}") for name in all_four)
        return f"{lowest} to {highest}"

    speed = {(r["table"], r["row"], r["column"]): r["value"] for r in read("docs/speed.csv")}

    growth = {(r["table"], r["model"], r["length"]): r for r in read("docs/growth.csv")}

    def at_lengths(name, model):  # 1,024 to 8,192 tokens
        rows = (growth[name, model, str(2**power)] for power in range(10, 14))
        return [float(row["ratio"]) for row in rows]

    transevolve_speed = at_lengths("encoder-length", "transevolve_fullff_1")
    slowest, fastest = (f"{f(transevolve_speed):.1f}" for f in (min, max))
    shortest, *_, longest = at_lengths("encoder-length", "transject")
    least, *_, most = (f"{1 / r:.1f}" for r in at_lengths("memory-length", "transevolve_fullff_1"))
    base, *sizes = (
        int(growth["encoder-length", name, "8192"]["parameters"])
        for name in ("transformer", "transevolve_fullff_1", "transevolve_randomff_1", "transject")
    )
    full, random, injective = (f"{size / base:.2f}" for size in sizes)
    slower = min(
        float(growth["encoder-node", "node_transformer_mt", length]["value"])
        / float(growth["encoder-length", "transformer", length]["value"])
        for length in ("128", "256", "512")
    )
    node_memory = {
        length: float(growth["memory-node", "node_transformer_mt", length]["value"])
        for length in ("128", "512")
    }
    linear = [f"{x:.1f}" for x in at_lengths("encoder-length", "transformer_classifier_linear")]
    randomff, matrix = (
        float(speed["**The largest batch", name, "tokens/s"])
        for name in ("transevolve_randomff_1", "transformer[--attention matrix]")
    )
    (parity,) = table("docs/papers/node_transformer.md", "## Results: parity")[1]
    vanilla, node = (parity[place].split()[0] for place in (3, 5))
    runs = defaultdict(list)
    for row in read("examples/parity/table1.csv"):
        runs[row["ensemble"].partition("-")[0]].append(float(row["accuracy"]))
    every_node, every_vanilla = (
        f"{fmean(runs[arch]):.1f} ± {stdev(runs[arch]):.1f}%"
        for arch in ("node_transformer", "vanilla_transformer")
    )
    bleu, news = means("multi30k", "BLEU"), means("agnews", "accuracy")
    listops, perplexity = means("listops", "accuracy"), means("ptb", "perplexity")
    imdb = means("imdb", "accuracy")
    captions, programs = (
        [values[data, "BLEU", f"transevolve_fullff_2{norm}"][0] for norm in ("_prenorm", "")]
        for data in ("multi30k", "l10n")  # seed 1
    )
    transformer, macaron = bleu("transformer_prenorm"), bleu("macaron_transformer")
    prenorm, fullff = bleu("transevolve_fullff_2_prenorm"), bleu("transevolve_fullff_2")
    baseline = news("transformer_classifier")
    bootstrap = "multi30k-paired-bootstrap", "transevolve_fullff_2_prenorm"
    on_captions, on_averaged = (
        per_seed(bootstrap[0], f"p, {which}", bootstrap[1])
        for which in ("best checkpoint", "last three averaged")
    )
    on_software, macaron_on_software = (
        per_seed("l10n-paired-bootstrap", "p", arch)
        for arch in ("transevolve_fullff_2_prenorm", "macaron_transformer")
    )
    updates = read_updates()

    def faster_at_equal_size(arch):
        return f"{updates[BASELINE]['2048'] / updates[arch]['2048']:.1f}"

    perplexities = defaultdict(list)
    for name in ("trainings", "language_model"):
        for row in read(f"examples/scoreboard/{name}.csv"):
            if row["metric"] == "perplexity":
                perplexities[name, row["architecture"]].append(float(row["score"]))
    first, again, evolving, predicting = (
        fmean(perplexities[name, f"{arch}_lm{norm}"])
        for name, arch, norm in (
            ("trainings", "transformer", "_prenorm"),
            ("language_model", "transformer", "_prenorm"),
            ("language_model", "diffeq_transformer", ""),
            ("language_model", "pcformer", ""),
        )
    )
    accuracies = defaultdict(list)
    for row in read("examples/scoreboard/long_text/results.csv"):
        if row["metric"] == "accuracy":
            accuracies[row["architecture"]].append(float(row["score"]))
    on_bytes, softmax, elu = (
        f"{fmean(accuracies[arch]):.1f} ({len(accuracies[arch])}"
        for arch in ("transject", BASELINE, "transformer_classifier_linear")
    )
    others = [accuracies[arch] for arch in (BASELINE, "transformer_classifier_linear")]
    lead, lead_over_linear = correct_by_holm(
        [ttest_ind(accuracies["transject"], each, equal_var=False).pvalue for each in others]
    )
    costs = {row["architecture"]: row["seconds"] for row in read("examples/scoreboard/cost.csv")}
    del costs["batches per epoch"]
    seconds = {arch: float(value) for arch, value in costs.items()}
    cost = {arch: each / seconds[BASELINE] for arch, each in seconds.items()}
    for page, texts in {
        "README": (
            f"TransEvolve {1 / cost['transevolve_classifier_fullff_1_prenorm']:.1f}, Macaron Net "
            f"{1 / cost['macaron_classifier']:.1f}, TransJect {1 / cost['transject']:.1f}, ODE "
            f"Transformer {1 / cost['ode_transformer_classifier']:.1f}, N-ODE Transformer "
            f"{1 / cost['node_transformer']:.1f} (`rk4`; adaptive, pictured: below "
            f"{1 / (10 * (slower // 10)):.2f})",
            "relative to fairseq's encoder of equal width, 1,024–8,192 tokens: TransJect "
            f"[{shortest:.1f}–{longest:.0f}](docs/speed.md#growth-with-length), linear attention "
            f"(`transformer_classifier_linear`) {linear[0]}–{linear[-1]}, TransEvolve (fullFF-1) "
            f"{slowest}–{fastest} (equal size, 2,048 bytes: "
            f"{faster_at_equal_size('transevolve_classifier_fullff_1_prenorm')}) with {least}–"
            f"{most} times the memory",
            f"trains [{shortest:.1f}–{longest:.0f} times as fast](#results) as a Transformer's "
            "of equal width on a CPU",
        ),
        "docs/results": (
            *(f"{name} {cost[arch]:.2f}" for name, arch in COSTS.items()),
            f"is {on_captions.replace(', 0.001', ' and 0.001')} on captions, "
            f"{on_software.replace(', ', ' and ')} on Debian texts",
            f"scores {again:.1f} instead of {first:.1f}; they are {predicting - again:.1f} and "
            f"{evolving - again:.1f} above that",
            f"`transject`, tuned; {cost['transject']:.1f} times",
            f"trains {faster_at_equal_size('transformer_classifier_linear')} times as fast as the "
            f"Transformer, TransJect {faster_at_equal_size('transject')} times",
            f"TransJect {on_bytes} seeds), the Transformer {softmax}), linear attention {elu})",
            f"has p = {lead:.2f} over seeds (Welch, corrected), over linear attention p = "
            f"{lead_over_linear:.2f};",
            f"no gain, {cost['node_transformer']:.1f} times the time (`rk4`)",
            f"TransEvolve scores {captions[0]} instead of {captions[1]} BLEU on captions, and "
            f"{programs[0]} instead of {programs[1]} on Debian texts",
        ),
        "docs/speed": (
            f"TransEvolve's encoder has {full} (full FFNs) or {random} (random FFNs) times its "
            f"parameters, TransJect's {injective}",
            f"Here it has {randomff / matrix:.1f} times",
            f"{node_memory['128']:.0f} at 128 tokens, {node_memory['512']:,.0f} at 512",
        ),
        "docs/papers/node_transformer": (
            f"the N-ODE Transformer has a training accuracy of {every_node}, "
            f"the vanilla Transformer {every_vanilla} (p",
        ),
        "examples/multi30k/README": (
            f"p = {on_captions} and {on_averaged}",
            *(
                f"`{arch}` {per_seed('multi30k-embedding-dropout', 'BLEU', arch)}"
                for arch in ("transformer", "macaron_transformer", "node_transformer_mt")
            ),
        ),
        "examples/l10n/README": (f"| {on_software} |", f"| {macaron_on_software} |"),
        "examples/text_classification/README": (
            f"`transformer_classifier` {imdb('transformer_classifier')} (95% interval",
            f"`transevolve_classifier_fullff_1` {imdb('transevolve_classifier_fullff_1')} (",
        ),
        "examples/README": (
            f"{macaron} Macaron Net, {transformer} Transformer (pre-norm)",
            f"{prenorm} fullFF-2 pre-norm, {transformer} Transformer pre-norm",
            f"{fullff} fullFF-2 (paper's norms",
            f"{transevolve(news)} against {baseline}",
            f"{transevolve(listops)} against {listops('transformer_classifier')}",
            f"{news('transject')}, Transformer {baseline}",
            f"{listops('transject')} against {listops('transformer_classifier')}",
            f"{perplexity('transject_lm')} against {perplexity('transformer_lm')}",
            f"{node} against {vanilla}, the best 20",
        ),
    }.items():
        yield from (pytest.param(page, text, id=f"{page}: {text}") for text in texts)


@pytest.mark.parametrize("page, text", summaries())
def test_summaries_are_means_of_the_results(page, text):
    assert text in " ".join((ROOT / f"{page}.md").read_text("utf-8").split())
