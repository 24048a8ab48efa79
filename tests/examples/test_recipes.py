"""The recipes train with what the papers say, or the pages of the examples.

The schedule of Dutta et al. 2021, section 7.3, factor d^-0.5 min(step^-0.5, step warmup^-1.5), is
fairseq's ``inverse_sqrt`` with ``--lr`` factor (d warmup)^-0.5.
"""

import re
import shlex
from dataclasses import replace
from functools import cache

import pytest
from fairseq import options
from helpers import resolved
from script_helpers import ROOT

from fairseq_odeformers.cli import COMMANDS, CORPORA
from fairseq_odeformers.compare.plan import make_entry, scheduled, train_options
from fairseq_odeformers.compare.recipe import read_recipe

TRANSEVOLVE = (
    "--optimizer adam --adam-eps 1e-8 --lr-scheduler inverse_sqrt --warmup-updates 8000 "
    "--lr 3.49e-4 --max-epoch 15 --encoder-embed-dim 256 --encoder-attention-heads 8"
)
TRANSLATION = (
    "--optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 --label-smoothing 0.1 "
    "--lr-scheduler inverse_sqrt --max-update 300000 --batch-size 512 --max-source-positions 256 "
    "--save-interval-updates 2000"
)
SHORT_TEXTS = (
    "--optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 --lr 5e-4 --lr-scheduler fixed "
    "--batch-size 32 --max-epoch 30 --patience 4 --best-checkpoint-metric loss "
    "--max-positions 512 --encoder-embed-dim 512"
)
LONG_TEXTS = (
    "--optimizer adam --weight-decay 0 --lr-scheduler polynomial_decay --max-update 50000 "
    "--total-num-update 50000"
)
SKYFORMER = (
    "--encoder-embed-dim 64 --encoder-ffn-embed-dim 128 --encoder-attention-heads 2 "
    "--encoder-layers 2 --dropout 0.1 --attention-dropout 0.1 --pooling mean --encoder-learned-pos"
)
PENN_TREEBANK = (
    "--optimizer adam --lr 0.01 --lr-scheduler fixed --max-epoch 10 --tokens-per-sample 35 "
    "--decoder-embed-dim 512 --decoder-layers 6 --batch-size 20"
)
MACARON = (
    "--optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 0 --lr-scheduler inverse_sqrt "
    "--warmup-updates 8000 --warmup-init-lr 1e-7 --label-smoothing 0.1 --share-all-embeddings"
)
GLUE = (
    "--optimizer adam --adam-betas '(0.9, 0.999)' --adam-eps 1e-6 --clip-norm 0 "
    "--lr-scheduler polynomial_decay --total-num-update 1000 --warmup-updates 100"  # of 1,000
)
MULTI30K = (
    "--optimizer adam --lr 2e-3 --lr-scheduler polynomial_decay --warmup-updates 400 "
    "--total-num-update 1210 --max-epoch 10 --max-tokens 4096 --label-smoothing 0.1 --dropout 0.3 "
    "--encoder-embed-dim 256 --encoder-attention-heads 4 --decoder-attention-heads 4"
)
LAYERS = "--encoder-layers 4 --decoder-layers 4 --attention-dropout 0"
BLOCKS = "--encoder-ffn-embed-dim 1024 --attention-dropout 0 --encoder-blocks"
SMALL_TEXTS = "--lr 5e-4 --warmup-updates 150 --max-epoch 6 --batch-size 32 --encoder-embed-dim 256"
SHORT_LISTOPS = (
    "--lr 5e-4 --warmup-updates 300 --total-num-update 3600 --max-epoch 6 --encoder-embed-dim 128"
)

# What a source says: a recipe and its part, an architecture of it or another, and options.
STATED = {
    "Dutta et al. 2021, section 7.3, appendix C: 3.49e-4 = 0.5 (256 x 8000)^-0.5": [
        ("text_classification/transevolve imdb", "transevolve_classifier_fullff_2", TRANSEVOLVE),
        ("text_classification/transevolve imdb", "transformer_classifier", "--batch-size 80"),
        ("text_classification/transevolve agnews", "transformer_classifier", TRANSEVOLVE),
        ("lra/transevolve text", "transevolve_classifier_randomff_1", TRANSEVOLVE),
        ("lra/transevolve text", "transformer_classifier", "--batch-size 48"),
        ("lra/transevolve listops", "transformer_classifier", f"{TRANSEVOLVE} --batch-size 64"),
    ],
    "Dutta et al. 2021, section 7.1": [
        (
            "lra/transevolve text",
            f"transevolve_classifier_{ff}_{blocks}",
            f"--encoder-blocks {blocks} --encoder-depth {6 // blocks}",
        )
        for ff, blocks in [("fullff", 1), ("randomff", 2)]
    ],
    "Dutta et al. 2021, section 7.3, appendix C: 5.24e-4 = 1.5 (512 x 16000)^-0.5": [
        (
            f"transevolve/wmt14 {pair}",
            "transevolve_fullff_2",
            f"{TRANSLATION} --lr 5.24e-4 --warmup-updates 16000",
        )
        for pair in ("en-de", "en-fr")
    ],
    "Dutta et al. 2021, appendix C, Figure 2: lr_max (512 x warm-up)^-0.5": [
        (
            f"transevolve/figure2 {pair}",
            f"{factor}-{warmup}",
            f"{TRANSLATION} --lr {rate} --warmup-updates {warmup} --encoder-blocks 2",
        )
        for pair in ("en-de", "en-fr")
        for factor, warmup, rate in [
            ("1.0", 4000, 6.99e-4),
            ("1.0", 8000, 4.94e-4),
            ("1.0", 16000, 3.49e-4),
            ("1.5", 4000, 1.05e-3),
            ("1.5", 8000, 7.41e-4),
            ("1.5", 16000, 5.24e-4),
        ]
    ],
    "Dutta et al. 2021, Table 2: the base model of Vaswani et al. 2017": [
        (
            "transevolve/wmt14 en-de",
            "transformer",
            "--share-all-embeddings --dropout 0.1 --encoder-embed-dim 512 --encoder-layers 6",
        ),
    ],
    "Sengupta et al. 2023, appendix B.1": [
        *(
            (f"text_classification/transject {part}", arch, f"{SHORT_TEXTS} --encoder-layers 6")
            for part, arch in [
                ("imdb", "transject"),
                ("agnews", "transject_random"),
                ("imdb", "transformer_classifier_rezero"),
            ]
        ),
        *(
            (
                f"lra/transject {part}",
                "transject_lra",
                "--encoder-embed-dim 512 --encoder-layers 2 --encoder-experts 4 "
                f"--pooling {pooling} --reconstruction-weight 1e-4",
            )
            for part, pooling in [("text", "mean"), ("listops", "max"), ("image", "max")]
        ),
        *(
            ("transject/ptb paper", arch, PENN_TREEBANK)
            for arch in ("transject_lm", "transject_lm_random", "transformer_lm")
        ),
    ],
    "Sengupta et al. 2023, section 4 and Figure 6: one thing differs from the paper's models": [
        ("transject/figure6 imdb", "transject-paper", f"{SHORT_TEXTS} --encoder-experts 4"),
        ("transject/figure6 imdb", "transject-experts1", f"{SHORT_TEXTS} --encoder-experts 1"),
        ("transject/figure6 imdb", "transformer-paper", f"{SHORT_TEXTS} --dropout 0.1"),
        ("transject/figure6 imdb", "transformer-heads1", "--encoder-attention-heads 1"),
        ("transject/figure6 imdb", "transformer-dropout0.5", f"{SHORT_TEXTS} --dropout 0.5"),
        (
            "transject/figure6 charimdb",
            "transject-layers6",
            f"{LONG_TEXTS} --batch-size 32 --encoder-experts 4 --encoder-layers 6",
        ),
        (
            "transject/figure6 charimdb",
            "transformer-layers4",
            f"{LONG_TEXTS} --batch-size 32 --encoder-embed-dim 64 --encoder-layers 4",
        ),
    ],
    "Sengupta et al. 2023, Table 5: inner width 2048, in a Macaron layer twice half of it": [
        (
            "text_classification/transject imdb",
            "transformer_classifier",
            "--encoder-ffn-embed-dim 2048",
        ),
        (
            "text_classification/transject imdb",
            "macaron_classifier",
            "--encoder-ffn-embed-dim 1024",
        ),
        (
            "transject/ptb paper",
            "transformer_lm_rezero",
            "--decoder-ffn-embed-dim 2048 --decoder-input-dim 512 --decoder-output-dim 512",
        ),
    ],
    "Chen et al. 2021 (Skyformer), released configuration; Sengupta et al. 2023, appendix B.1": [
        *(
            (f"lra/transject {part}", arch, f"{LONG_TEXTS} {stated}")
            for part, stated in [
                ("listops", "--batch-size 32 --lr 1e-4 --warmup-updates 1000"),
                ("text", "--batch-size 32 --lr 1e-4 --warmup-updates 80"),
                ("retrieval", "--batch-size 16 --lr 2e-4 --warmup-updates 800"),
                ("pathfinder", "--batch-size 128 --lr 2e-4 --warmup-updates 312"),
                ("image", "--batch-size 256 --lr 1e-4 --warmup-updates 175"),
            ]
            for arch in ("transject_lra", "transformer_classifier_orthogonal")
        ),
        ("lra/transject image", "transformer_classifier", SKYFORMER),
        ("lra/transject listops", "transformer_classifier_rezero", SKYFORMER),
    ],
    "Lu et al. 2019, Table 1: the authors' scripts": [
        (
            "macaron/iwslt14",
            "macaron_transformer_iwslt_de_en",
            f"{MACARON} --dropout 0.3 --weight-decay 0.0001 --lr 0.0015 --max-tokens 4096 "
            "--encoder-embed-dim 512 --encoder-ffn-embed-dim 512",
        ),
        (
            "macaron/wmt14 base",
            "macaron_transformer_wmt_en_de",
            f"{MACARON} --lr 0.0015 --max-tokens 8192 --encoder-ffn-embed-dim 1024",
        ),
        (
            "macaron/wmt14 big",
            "macaron_transformer_wmt_en_de_big",
            f"{MACARON} --lr 0.003 --max-tokens 4096 --update-freq 16 --encoder-embed-dim 1024",
        ),
    ],
    "Lu et al. 2019, the authors' scripts of pretraining": [
        (
            "macaron/pretraining base",
            "macaron_bert_base",
            "--adam-betas '(0.9, 0.999)' --adam-eps 1e-6 --clip-norm 0 --weight-decay 0.01 "
            "--lr 3e-4 --max-update 800000 --max-tokens 6400 --update-freq 5 "
            "--tokens-per-sample 512",
        ),
    ],
    "Lu et al. 2019, the authors' bert/macaron-scripts/test/test-our-best-setting.sh": [
        (f"macaron/glue {task}", "macaron_bert_base", f"{GLUE} {stated}")
        for task, stated in [
            ("CoLA", "--max-epoch 5 --batch-size 32 --lr 3e-5 --weight-decay 0"),
            ("SST-2", "--max-epoch 3 --batch-size 24 --lr 5e-5 --weight-decay 0"),
            ("MRPC", "--max-epoch 4 --batch-size 16 --lr 5e-5 --weight-decay 0"),
            ("STS-B", "--max-epoch 5 --batch-size 16 --lr 5e-5 --weight-decay 0"),
            ("QQP", "--max-epoch 5 --batch-size 16 --lr 5e-5 --weight-decay 0"),
            ("MNLI", "--max-epoch 3 --batch-size 24 --lr 5e-5 --weight-decay 0"),
            ("QNLI", "--max-epoch 4 --batch-size 16 --lr 3e-5 --weight-decay 0.01"),
            ("RTE", "--max-epoch 4 --batch-size 16 --lr 5e-5 --weight-decay 0"),
        ]
    ],
    "examples/macaron/README.md, A small trial": [
        *(
            (
                "macaron/pretraining small",
                arch,
                "--max-tokens 2048 --max-update 500 --encoder-layers 4 --encoder-embed-dim 256 "
                f"--encoder-ffn-embed-dim {inner}",
            )
            for arch, inner in [("macaron_bert_base", 512), ("roberta_prenorm", 1024)]
        ),
        (
            "macaron/polarity",
            "macaron_bert_base",
            f"{GLUE} --max-epoch 4 --batch-size 32 --lr 3e-4 --encoder-layers 4 "
            "--encoder-embed-dim 256 --encoder-ffn-embed-dim 512",
        ),
    ],
    "examples/multi30k/README.md": [
        ("multi30k/recipe", "transformer", f"{MULTI30K} {LAYERS} --encoder-ffn-embed-dim 1024"),
        (
            "multi30k/recipe",
            "macaron_transformer",
            f"{MULTI30K} {LAYERS} --encoder-ffn-embed-dim 512 --activation-dropout 0",
        ),
        (
            "multi30k/recipe",
            "transevolve_fullff_1",
            f"{MULTI30K} {BLOCKS} 1 --decoder-blocks 1 --encoder-depth 4 --decoder-depth 4",
        ),
        (
            "multi30k/recipe",
            "transevolve_randomff_2",
            f"{MULTI30K} {BLOCKS} 2 --decoder-blocks 2 --encoder-depth 2 --decoder-depth 2",
        ),
        (
            "multi30k/recipe",
            "node_transformer_mt",
            f"{MULTI30K} --encoder-layers 2 --decoder-layers 2 --encoder-ffn-embed-dim 1024",
        ),
    ],
    "examples/text_classification/README.md, Small trials": [
        (
            "text_classification/small",
            "transevolve_classifier_fullff_1",
            f"{SMALL_TEXTS} --encoder-attention-heads 8 --encoder-depth 6 "
            "--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric",
        ),
        (
            "text_classification/small",
            "transject",
            f"{SMALL_TEXTS} --encoder-layers 6 --reconstruction-weight 1e-4",
        ),
        (
            "text_classification/small",
            "vanilla_transformer",
            f"{SMALL_TEXTS} --encoder-ffn-embed-dim 256 --pooling mean",
        ),
    ],
    "examples/lra/README.md, Short ListOps": [
        (
            "lra/small",
            "transformer_classifier",
            f"{SHORT_LISTOPS} --encoder-attention-heads 8 --encoder-ffn-embed-dim 512 "
            "--encoder-layers 6",
        ),
        (
            "lra/small",
            "transevolve_classifier_fullff_2",
            f"{SHORT_LISTOPS} --encoder-blocks 2 --encoder-depth 3",
        ),
        ("lra/small", "transject", f"{SHORT_LISTOPS} --encoder-layers 6"),
        ("lra/small", "node_transformer", f"{SHORT_LISTOPS} --encoder-ffn-embed-dim 512"),
    ],
    "examples/transject/README.md, Table 3: the trial": [
        (
            "transject/ptb small",
            "transformer_lm",
            "--max-epoch 10 --decoder-embed-dim 128 --decoder-ffn-embed-dim 512 --batch-size 20",
        ),
    ],
}
ROWS = [(*row, source) for source, rows in STATED.items() for row in rows]
RECIPES = {
    str(path.relative_to(ROOT / "examples").with_suffix("")): path
    for path in sorted(ROOT.glob("examples/*/*.yaml"))
    if "for Hydra" not in path.read_text(encoding="utf-8")
}


@cache
def recipe(name):
    """The recipe and part of a name in the table."""
    stem, *part = name.split()
    (found,) = read_recipe(RECIPES[stem], *part).values()
    return found


@cache
def command_line(name, arch):
    """The arguments of fairseq-train, of 1,000 updates where the recipe gives shares of them."""
    found = recipe(name)
    entry = make_entry(found, arch, found.architectures.get(arch, {}), "")
    given = {**scheduled(entry.options, 1000), "user-dir": None}  # the plugin is imported
    return train_options(found, replace(entry, options=given))


def parsed(line):
    """What fairseq-train makes of a command line."""
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, line)
    return resolved(args.arch, args)


@pytest.mark.parametrize("name, arch, stated, source", ROWS)
def test_a_recipe_trains_as_its_source_says(name, arch, stated, source):
    """It takes the stated options, given or by default: to give them as well changes none.

    An option that follows another unless it is given has no type on the command line.
    """
    stated = shlex.split(stated)
    names = [word[2:].replace("-", "_") for word in stated if word.startswith("--")]
    line = command_line(name, arch)
    found, expected = (parsed([*line, *more]) for more in ([], stated))
    for option in names:
        assert str(found[option]) == str(expected[option]), source


@pytest.mark.parametrize("name", RECIPES)
def test_every_option_of_a_recipe_exists(name):
    """Those that the table does not parse, one architecture after the other."""
    in_table = {(row[0], row[1]) for row in ROWS}
    for part in read_recipe(RECIPES[name]):
        key = f"{name} {part}".strip()
        for arch in recipe(key).architectures:
            if (key, arch) not in in_table:
                parsed(command_line(key, arch))


@pytest.mark.parametrize("name", RECIPES)
def test_every_command_of_a_recipe_exists(name):
    """Its first lines tell how to start it, and the list of all tables links it."""
    text = RECIPES[name].read_text(encoding="utf-8")
    path = f"examples/{name}.yaml"
    assert re.search(rf"^#     odeformers compare {path} .*--out ", text, re.M)
    assert f"({name}.yaml)" in (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    for found in read_recipe(RECIPES[name]).values():
        if found.prepare:
            program, command, corpus, *_ = shlex.split(found.prepare)
            assert (program, command) == ("odeformers", "prepare") and corpus in CORPORA
        for score in found.score.values():
            program, command, *_ = shlex.split(score)
            assert program == "odeformers" and command in COMMANDS
        assert set(found.score) <= set(found.splits or [])


def test_the_last_ten_checkpoints_are_averaged():
    """One in 2,000 updates: Dutta et al. 2021, section 7.3."""
    for name in ("transevolve/wmt14 en-de", "transevolve/figure2 en-fr"):
        assert recipe(name).average == 10


def test_every_table_is_of_a_recipe():
    names = {name.split()[0] for name, *_ in ROWS}
    assert names == set(RECIPES)
