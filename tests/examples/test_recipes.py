"""The recipes train with what the papers say, or the pages of the examples.

The schedule of Dutta et al. 2021, section 7.3, factor d^-0.5 min(step^-0.5, step warmup^-1.5), is
fairseq's ``inverse_sqrt`` with ``--lr`` factor (d warmup)^-0.5.
"""

import csv
import re
import shlex
from functools import cache

import pytest
from examples.recipes import options_of, read_recipe
from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import OLD, resolved
from script_helpers import ROOT, lines

from fairseq_odeformers.registry import declared_family
from odeformers.__main__ import COMMANDS
from odeformers.compare.recipe import read_parts
from odeformers.compare.variant import resolve_shares, training_words
from odeformers.prepare import CORPORA

TRANSEVOLVE = (
    "--optimizer adam --adam-eps 1e-8 --lr-scheduler inverse_sqrt --warmup-updates 8000 "
    "--lr 3.49e-4 --max-epoch 15 --encoder-embed-dim 256 --encoder-attention-heads 8"
)
TRANSLATION = (
    "--optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 --label-smoothing 0.1 "
    "--lr-scheduler inverse_sqrt --max-update 300000 --batch-size 512 --max-source-positions 256 "
    "--save-interval-updates 2000"
)
SHORT = (
    "--optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 --lr 5e-4 --lr-scheduler fixed "
    "--batch-size 32 --max-epoch 30 --patience 4 --best-checkpoint-metric nll_loss "
    "--max-positions 512 --encoder-embed-dim 512"
)
LONG = (
    "--optimizer adam --weight-decay 0 --lr-scheduler polynomial_decay --max-update 50000 "
    "--total-num-update 50000"
)
SKYFORMER = (
    "--encoder-embed-dim 64 --encoder-ffn-embed-dim 128 --encoder-attention-heads 2 "
    "--encoder-layers 2 --dropout 0.1 --attention-dropout 0.1 --pooling mean --encoder-learned-pos"
)
TRANSJECT_LRA = (
    "--encoder-embed-dim 512 --encoder-layers 2 --encoder-experts 4 --reconstruction-weight 1e-4"
)
PENN_TREEBANK = (
    "--optimizer adam --lr 0.01 --lr-scheduler fixed --max-epoch 10 --tokens-per-sample 35 "
    "--decoder-embed-dim 512 --decoder-layers 6 --batch-size 20"
)
MACARON = (
    "--optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 0 --lr-scheduler inverse_sqrt "
    "--warmup-updates 8000 --warmup-init-lr 1e-7 --label-smoothing 0.1 --share-all-embeddings"
)
BERT = (
    "--adam-betas '(0.9, 0.999)' --adam-eps 1e-6 --clip-norm 0 --weight-decay 0.01 --lr 3e-4 "
    "--max-update 800000 --max-tokens 6400 --update-freq 5 --tokens-per-sample 384"
)
SMALL_BERT = "--max-tokens 2048 --max-update 500 --encoder-layers 4 --encoder-embed-dim 256"
GLUE = (
    "--optimizer adam --adam-betas '(0.9, 0.999)' --adam-eps 1e-6 --clip-norm 0 --weight-decay 0 "
    "--lr-scheduler polynomial_decay --total-num-update 1000 --warmup-updates 100"  # of 1,000
)
ODE = (
    "--optimizer adam --adam-betas '(0.9, 0.997)' --clip-norm 0 --lr-scheduler inverse_sqrt "
    "--warmup-updates 16000 --warmup-init-lr 1e-7 --lr 0.002 --label-smoothing 0.1 "
    "--max-tokens 4096 --max-epoch 20 --attention-dropout 0.1 --activation-dropout 0.1"
)
CHARACTERS = (
    "--adam-betas '(0.9, 0.99)' --weight-decay 0.1 --lr 1e-3 --lr-scheduler cosine --min-lr 1e-4 "
    "--warmup-updates 100 --clip-norm 1 --tokens-per-sample 256 --batch-size 64 --update-freq 4 "
    "--max-update 5000 --dropout 0.2 --attention-dropout 0.2 --decoder-learned-pos"
)
CAPTIONS = (
    "--optimizer adam --lr 2e-3 --lr-scheduler polynomial_decay --warmup-updates 400 "
    "--total-num-update 1210 --max-epoch 10 --max-tokens 4096 --label-smoothing 0.1 --dropout 0.3 "
    "--encoder-embed-dim 256 --encoder-attention-heads 4 --decoder-attention-heads 4"
)
SOFTWARE = (
    "--lr 2e-3 --lr-scheduler polynomial_decay --warmup-updates 400 --total-num-update 1464 "
    "--max-epoch 1 --max-tokens 4096 --label-smoothing 0.1 --dropout 0.1 --encoder-embed-dim 256"
)
LAYERS = "--encoder-layers 4 --decoder-layers 4 --attention-dropout 0"
BLOCKS = "--encoder-ffn-embed-dim 1024 --attention-dropout 0 --encoder-blocks"
SMALL_TEXTS = (
    "--lr 5e-4 --warmup-updates 150 --max-epoch 6 --batch-size 32 --encoder-embed-dim 256 "
    "--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric"
)
SHORT_LISTOPS = (
    "--lr 5e-4 --warmup-updates 300 --total-num-update 3600 --max-epoch 6 --encoder-embed-dim 128"
)

# By source: recipe, part, architecture (the recipe's or another), and options.
STATED = f"""
Dutta et al. 2021, section 7.3, appendix C: 3.49e-4 = 0.5 (256 x 8000)^-0.5
    text_classification/transevolve imdb transevolve_classifier_fullff_2: {TRANSEVOLVE}
    text_classification/transevolve imdb transformer_classifier: --batch-size 80
    text_classification/transevolve agnews transformer_classifier: {TRANSEVOLVE}
    lra/transevolve text transevolve_classifier_randomff_1: {TRANSEVOLVE}
    lra/transevolve text transformer_classifier: --batch-size 48
    lra/transevolve text transformer-512: --encoder-embed-dim 512 --encoder-attention-heads 8
    lra/transevolve listops transformer_classifier: {TRANSEVOLVE} --batch-size 64
Dutta et al. 2021, section 7.1
    lra/transevolve text transevolve_classifier_fullff_1: --encoder-blocks 1 --encoder-depth 6
    lra/transevolve text transevolve_classifier_randomff_2: --encoder-blocks 2 --encoder-depth 3
Dutta et al. 2021, section 7.3, appendix C: 5.24e-4 = 1.5 (512 x 16000)^-0.5
    transevolve/wmt14 en-de transevolve_fullff_2: {TRANSLATION} --lr 5.24e-4 --warmup-updates 16000
    transevolve/wmt14 en-fr transevolve_fullff_2: {TRANSLATION} --lr 5.24e-4 --warmup-updates 16000
Dutta et al. 2021, appendix C, Figure 2: lr_max (512 x warm-up)^-0.5
    transevolve/figure2 en-de 1.0-4000: {TRANSLATION} --lr 6.99e-4 --warmup-updates 4000
    transevolve/figure2 en-de 1.0-8000: {TRANSLATION} --lr 4.94e-4 --warmup-updates 8000
    transevolve/figure2 en-fr 1.0-16000: {TRANSLATION} --lr 3.49e-4 --warmup-updates 16000
    transevolve/figure2 en-fr 1.5-4000: {TRANSLATION} --lr 1.05e-3 --warmup-updates 4000
    transevolve/figure2 en-fr 1.5-8000: {TRANSLATION} --lr 7.41e-4 --warmup-updates 8000
    transevolve/figure2 en-de 1.5-16000: --lr 5.24e-4 --warmup-updates 16000 --encoder-blocks 2
Dutta et al. 2021, Table 2: the base model of Vaswani et al. 2017
    transevolve/wmt14 en-de transformer: --share-all-embeddings --dropout 0.1 --encoder-layers 6
    transevolve/wmt14 en-fr transformer: --encoder-embed-dim 512 --encoder-ffn-embed-dim 2048
Sengupta et al. 2023, appendix B.1
    text_classification/transject imdb transject: {SHORT} --encoder-layers 6
    text_classification/transject agnews transject_random: {SHORT} --encoder-layers 6
    text_classification/transject imdb transformer_classifier_rezero: {SHORT}
    lra/transject text transject_lra: {TRANSJECT_LRA} --pooling mean
    lra/transject listops transject_lra: {TRANSJECT_LRA} --pooling max
    lra/transject image transject_lra: {TRANSJECT_LRA} --pooling max
    transject/ptb paper transject_lm: {PENN_TREEBANK}
    transject/ptb paper transject_lm_random: {PENN_TREEBANK}
    transject/ptb paper transformer_lm: {PENN_TREEBANK}
Sengupta et al. 2023, section 4 and Figure 6: one thing differs from the paper's models
    transject/figure6 imdb transject-paper: {SHORT} --encoder-experts 4
    transject/figure6 imdb transject-experts1: {SHORT} --encoder-experts 1
    transject/figure6 imdb transformer-paper: {SHORT} --dropout 0.1
    transject/figure6 imdb transformer-heads1: {SHORT} --encoder-attention-heads 1
    transject/figure6 imdb transformer-dropout0.5: {SHORT} --dropout 0.5
    transject/figure6 charimdb transject-layers6: {LONG} --batch-size 32 --encoder-layers 6
    transject/figure6 charimdb transformer-layers4: {LONG} --batch-size 32 --encoder-layers 4
Sengupta et al. 2023, Table 5: inner width 2048, in a Macaron layer twice half of it
    text_classification/transject imdb transformer_classifier: --encoder-ffn-embed-dim 2048
    text_classification/transject imdb macaron_classifier: --encoder-ffn-embed-dim 1024
    transject/ptb paper transformer_lm_rezero: --decoder-ffn-embed-dim 2048 --decoder-input-dim 512
Chen et al. 2021 (Skyformer), released configuration; Sengupta et al. 2023, appendix B.1
    lra/transject listops transject_lra: {LONG} --batch-size 32 --lr 1e-4 --warmup-updates 1000
    lra/transject text transject_lra: {LONG} --batch-size 32 --lr 1e-4 --warmup-updates 80
    lra/transject retrieval transject_lra: {LONG} --batch-size 16 --lr 2e-4
    lra/transject retrieval transformer_classifier: --warmup-updates 800
    lra/transject pathfinder transject_lra: {LONG} --batch-size 128 --lr 2e-4
    lra/transject pathfinder transformer_classifier: --warmup-updates 312
    lra/transject image transject_lra: {LONG} --batch-size 256 --lr 1e-4 --warmup-updates 175
    lra/transject image transformer_classifier: {SKYFORMER}
    lra/transject image transject_lra: --save-interval-updates 50 --adam-eps 1e-6
    lra/transject retrieval transject_lra: --save-interval-updates 1000
    lra/transject text transformer_classifier_lra: {SKYFORMER} {LONG} --activation-dropout 0.1
    lra/transject text transformer_classifier_lra: --activation-fn gelu --classifier-hidden-dim 128
    lra/transject listops transformer_classifier_rezero: {SKYFORMER} {LONG}
    lra/transject text transformer_classifier_orthogonal: {SKYFORMER} --lr 1e-4
Lu et al. 2019, Table 1: the authors' scripts
    macaron/iwslt14 macaron_transformer_iwslt_de_en: {MACARON} --lr 0.0015 --max-tokens 4096
    macaron/iwslt14 transformer_iwslt_de_en_v2: {MACARON} --dropout 0.3 --attention-dropout 0.1
    macaron/wmt14 base transformer_wmt_en_de_v2: {MACARON} --encoder-normalize-before --lr 0.0015
    macaron/iwslt14 transformer_iwslt_de_en: {MACARON} --dropout 0.3 --weight-decay 0.0001
    macaron/wmt14 base macaron_transformer_wmt_en_de: {MACARON} --lr 0.0015 --max-tokens 8192
    macaron/wmt14 big macaron_transformer_wmt_en_de_big: {MACARON} --lr 0.003 --max-tokens 4096
    macaron/wmt14 big transformer_wmt_en_de_big_t2t: --update-freq 16 --encoder-embed-dim 1024
Li et al. 2022, the authors' README
    ode_transformer/wmt14 en-de rk2-6: {ODE} --update-freq 4 --dropout 0.3 --encoder-layers 6
    ode_transformer/wmt14 en-de rk2-12: {ODE} --update-freq 4 --encoder-layers 12 --rk-order 2
    ode_transformer/wmt14 en-fr rk2-12: {ODE} --update-freq 8 --dropout 0.1 --rk-field released
    ode_transformer/wmt14 en-fr transformer-12: {ODE} --encoder-embed-dim 1024
    ode_transformer/wmt14 en-de rk2-12: --dense-history --decoder-layers 6
    ode_transformer/wmt14 en-ro rk2-12: --warmup-updates 8000 --dropout 0.3 --update-freq 1
    ode_transformer/wmt14 en-ro rk2-12: --share-decoder-input-output-embed --dense-history
Lu et al. 2019, the authors' scripts of pretraining
    macaron/pretraining base macaron_bert_base: {BERT} --task bert_pretraining
    macaron/pretraining base roberta_prenorm: {BERT} --criterion bert_pretraining
Lu et al. 2019, the authors' bert/macaron-scripts/test/test-our-best-setting.sh
    macaron/glue CoLA macaron_bert_base: {GLUE} --max-epoch 5 --batch-size 32 --lr 3e-5
    macaron/glue CoLA roberta_prenorm: {GLUE} --max-positions 384
    macaron/glue SST-2 macaron_bert_base: {GLUE} --max-epoch 3 --batch-size 24 --lr 5e-5
    macaron/glue MRPC macaron_bert_base: {GLUE} --max-epoch 4 --batch-size 16 --lr 5e-5
    macaron/glue STS-B macaron_bert_base: {GLUE} --max-epoch 5 --batch-size 16 --lr 5e-5
    macaron/glue QQP macaron_bert_base: {GLUE} --max-epoch 5 --batch-size 16 --lr 5e-5
    macaron/glue MNLI macaron_bert_base: {GLUE} --max-epoch 3 --batch-size 24 --lr 5e-5
    macaron/glue MNLI-mm macaron_bert_base: {GLUE} --max-epoch 3 --batch-size 16 --lr 5e-5
    macaron/glue QNLI macaron_bert_base: --max-epoch 4 --batch-size 16 --lr 3e-5 --weight-decay 0.01
    macaron/glue RTE macaron_bert_base: {GLUE} --max-epoch 4 --batch-size 16 --lr 5e-5
Kan et al. 2025, section 5, appendix I, and the released configuration; 0.00625 = 2 lambda / C
    ot_transformer/characters shakespeare ot: {CHARACTERS} --arclength-weight 0.00625
    ot_transformer/characters shakespeare ot: --decoder-embed-dim 320 --decoder-layers 5
    ot_transformer/characters shakespeare ot-10: {CHARACTERS} --ode-steps 10
    ot_transformer/characters shakespeare transformer: {CHARACTERS} --decoder-embed-dim 384
    ot_transformer/characters shakespeare transformer: --decoder-layers 6 --activation-fn gelu
docs/papers/macaron.md, A small trial
    macaron/pretraining small macaron_bert_base: {SMALL_BERT} --encoder-ffn-embed-dim 512
    macaron/pretraining small roberta_prenorm: {SMALL_BERT} --encoder-ffn-embed-dim 1024
    macaron/polarity macaron_bert_base: {GLUE} --max-epoch 4 --batch-size 32 --lr 3e-4
    macaron/polarity roberta_prenorm: --encoder-layers 4 --encoder-ffn-embed-dim 1024
examples/multi30k/README.md
    multi30k/recipe transformer: {CAPTIONS} {LAYERS} --encoder-ffn-embed-dim 1024
    multi30k/recipe macaron_transformer: {CAPTIONS} {LAYERS} --encoder-ffn-embed-dim 512
    multi30k/recipe transevolve_fullff_1: {CAPTIONS} {BLOCKS} 1 --decoder-depth 4
    multi30k/recipe transevolve_randomff_2: {CAPTIONS} {BLOCKS} 2 --decoder-depth 2
    multi30k/recipe node_transformer_mt: {CAPTIONS} --encoder-layers 2 --decoder-layers 2
docs/papers/ode_transformer.md
    ode_transformer/multi30k rk2-gated: {CAPTIONS} {LAYERS} --encoder-ffn-embed-dim 1024
    ode_transformer/multi30k rk4-released: {CAPTIONS} {LAYERS} --rk-order 4 --rk-field released
    ode_transformer/truncation small rk4-2: --rk-order 4 --decoder-layers 2 --max-epoch 6
    ode_transformer/truncation small residual-1: --decoder-layers 1 --max-epoch 6 --dropout 0.3
examples/l10n/README.md
    l10n/recipe transformer_prenorm: {SOFTWARE} {LAYERS} --encoder-ffn-embed-dim 1024
    l10n/recipe macaron_transformer: {SOFTWARE} {LAYERS} --encoder-ffn-embed-dim 512
    l10n/recipe transevolve_fullff_2_prenorm: {SOFTWARE} {BLOCKS} 2 --decoder-depth 2
    l10n/recipe transevolve_fullff_2: {SOFTWARE} {BLOCKS} 2 --decoder-depth 2
examples/text_classification/README.md, Small trials
    text_classification/small transevolve_classifier_fullff_1: {SMALL_TEXTS} --encoder-depth 6
    text_classification/small transject: {SMALL_TEXTS} --encoder-layers 6
    text_classification/small vanilla_transformer: {SMALL_TEXTS} --pooling mean
examples/text_classification/README.md, Short ListOps
    lra/small transformer_classifier: {SHORT_LISTOPS} --encoder-layers 6
    lra/small transevolve_classifier_fullff_2: {SHORT_LISTOPS} --encoder-blocks 2 --encoder-depth 3
    lra/small node_transformer: {SHORT_LISTOPS} --encoder-ffn-embed-dim 512
docs/papers/transject.md, Table 3: the trial
    lra/small transject: --encoder-layers 6 --reconstruction-weight 1e-4
    scoreboard/topic transformer_classifier_prenorm: --encoder-embed-dim 128 --max-positions 256
    scoreboard/modern_topic transformer_classifier_modern: --max-positions 256
    lra/long_text transject: --encoder-embed-dim 60 --encoder-layers 2 --pooling mean
    scoreboard/topic_tuned rates transject: --encoder-embed-dim 176 --max-positions 256
    scoreboard/structure node_transformer: --encoder-layers 3 --ode-method rk4 --max-epoch 3
    scoreboard/language_model node_transformer_lm: --decoder-layers 3 --max-epoch 6 --dropout 0.3
    scoreboard/newer_families yuriiformer_lm: --max-epoch 6 --dropout 0.3 --batch-size 20
    text_classification/small transject: --reconstruction-weight 1e-4
    transject/ptb paper transject_lm: --reconstruction-weight 1e-4 --batch-size 20
    transject/ptb small transformer_lm: --max-epoch 10 --decoder-embed-dim 128 --batch-size 20
"""


def rows():
    """Recipe and part, architecture, options and source of each line."""
    source = ""
    for line in STATED.strip().split("\n"):
        if line.startswith(" "):
            what, _, stated = line.strip().partition(": ")
            yield (*what.rsplit(" ", 1), stated, source)
        else:
            source = line


ROWS = list(rows())
RECIPES = {
    str(path.relative_to(ROOT / "examples").with_suffix("")): path
    for path in sorted(ROOT.glob("examples/*/*.yaml"))
    if "for Hydra" not in path.read_text(encoding="utf-8")
}


@cache
def recipe(name):
    """The recipe and part of a name in the table."""
    stem, *part = name.split()
    (experiment,) = read_recipe(RECIPES[stem], *part).values()
    return experiment


@cache
def command_line(name, arch):
    """The arguments of fairseq-train, with 1,000 updates where the recipe gives shares of them."""
    experiment = recipe(name)
    return training_words(experiment.data, resolve_shares(options_of(experiment, arch), 1000))


def parse(line):
    """The options that fairseq-train reads from a command line."""
    if OLD and any(word.startswith("--report-") for word in line):
        pytest.skip("fairseq has no such metric yet")
    return options.parse_args_and_arch(options.get_training_parser(), line)


@pytest.mark.parametrize("name, arch, stated, source", ROWS)
def test_a_recipe_has_the_options_of_its_source(name, arch, stated, source):
    """Adding the stated options to the command line changes none of them.

    Options are compared as text, since one that follows another has no type on the command line.
    """
    stated = shlex.split(stated)
    names = [word[2:].replace("-", "_") for word in stated if word.startswith("--")]
    line = command_line(name, arch)
    read = (parse([*line, *more]) for more in ([], stated))
    actual, expected = (resolved(args.arch, args) for args in read)
    for option in names:
        assert str(actual[option]) == str(expected[option]), source


@pytest.mark.parametrize("name", RECIPES)
def test_every_option_of_a_recipe_exists(name):
    """Options that the table does not parse are parsed for each architecture."""
    in_table = {(row[0], row[1]) for row in ROWS}
    for part in read_recipe(RECIPES[name]):
        key = f"{name} {part}".strip()
        for arch in recipe(key).architectures:
            if (key, arch) not in in_table:
                parse(command_line(key, arch))


@pytest.mark.parametrize("name", RECIPES)
def test_every_command_of_a_recipe_exists(name):
    """The first lines of a recipe say how to start it, and the list of all tables links it."""
    text = RECIPES[name].read_text(encoding="utf-8")
    path = f"examples/{name}.yaml"
    assert re.search(rf"^#     odeformers compare {path} .*--out ", text, re.M)
    assert f"({name}.yaml)" in (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    for experiment in read_parts(RECIPES[name]).values():
        if prepare := experiment.get("prepare"):
            program, command, corpus, *_ = shlex.split(prepare)
            assert (program, command) == ("odeformers", "prepare") and corpus in CORPORA
        scores = experiment.get("score", {})
        for score in scores.values():
            program, command, *_ = shlex.split(score)
            assert program == "odeformers" and command in COMMANDS
        assert set(scores) <= set(experiment.get("splits", []))


def test_every_recipe_is_in_the_table():
    assert {name.split()[0] for name, *_ in ROWS} == set(RECIPES)


def test_the_last_checkpoints_are_averaged():
    """Ten are averaged, one in 2,000 updates (Dutta et al.

    2021, section 7.3), or five epochs (Li et al. 2022). The latter's translate.sh also has a beam
    and a length penalty for each language.
    """
    for part in ("transevolve/wmt14 en-de", "transevolve/figure2 en-fr"):
        assert recipe(part).average == 10
    for language, beam, lenpen in (("de", 4, 0.6), ("fr", 5, 0.8), ("ro", 5, 1.3)):
        experiment = recipe(f"ode_transformer/wmt14 en-{language}")
        assert (experiment.average, experiment.evaluate["beam"], experiment.evaluate["lenpen"]) == (
            5,
            beam,
            lenpen,
        )


# Baselines that a paper trained itself, by the folder of its recipes. All other figures beside a
# baseline are cited from the paper's sources.
TRAINED_BASELINES = {
    "text_classification": {"transformer_classifier_rezero", "transformer_classifier_orthogonal"},
    "lra": {"transformer_classifier_rezero", "transformer_classifier_orthogonal"},
    "transject": {"transformer_lm", "transformer_lm_rezero", "transformer_lm_orthogonal"},
}


@pytest.mark.parametrize("name", RECIPES)
def test_figures_of_a_paper_belong_to_its_models(name):
    """Figures of other models have a source, and each figure occurs once beside a recipe's row."""
    text = RECIPES[name].read_text(encoding="utf-8")
    for experiment in read_recipe(RECIPES[name]).values():
        figures = [
            (arch, column)
            for each in (experiment.paper, *experiment.cited.values())
            for arch, columns in each.items()
            for column in columns
        ]
        assert len(figures) == len(set(figures))
        rows = set(experiment.architectures)
        assert "base:" in text or {arch for arch, _ in figures} <= rows
        for arch in rows & experiment.paper.keys() - TRAINED_BASELINES.get(
            name.split("/")[0], set()
        ):
            model = ARCH_MODEL_REGISTRY[experiment.architectures[arch].get("arch", arch)]
            family = declared_family(model)
            assert family and family.year and f"{family.authors} {family.year}" in text, arch
        assert all(re.search(r" et al\. \d{4}", source) for source in experiment.cited)


def test_trainings_on_long_text_take_equal_time():
    """The updates fill 60 CPU minutes, rounded to a multiple of the eight validations."""
    *rows, _ = csv.DictReader(lines(ROOT / "examples/scoreboard/long_text/updates.csv"))
    fitting = {row["architecture"]: int(row["updates"]) // 8 * 8 for row in rows}
    trained = recipe("lra/long_text").architectures
    assert {arch: options["max-update"] for arch, options in trained.items()} == fitting
