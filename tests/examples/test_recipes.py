"""The scripts of the experiments train with what the papers say, or the pages of the examples.

The schedule of Dutta et al. 2021, section 7.3, factor d^-0.5 min(step^-0.5, step warmup^-1.5), is
fairseq's ``inverse_sqrt`` with ``--lr`` factor (d warmup)^-0.5.
"""

import shlex

import pytest
from fairseq import options
from helpers import resolved
from script_helpers import ROOT, training_options

TRANSEVOLVE = "--optimizer adam --adam-eps 1e-8 --lr-scheduler inverse_sqrt --warmup-updates 8000"
TRANSLATION = (
    "--optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 --label-smoothing 0.1 "
    "--lr 5.24e-4 --lr-scheduler inverse_sqrt --warmup-updates 16000 --max-update 300000 "
    "--batch-size 512 --max-source-positions 256"
)
SHORT_TEXTS = (
    "--optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 --lr 5e-4 --lr-scheduler fixed "
    "--batch-size 32 --max-epoch 30 --patience 4 --best-checkpoint-metric loss "
    "--max-positions 512 "
    "--encoder-embed-dim 512 --encoder-layers 6"
)
LONG_TEXTS = (
    "--optimizer adam --weight-decay 0 --lr-scheduler polynomial_decay --max-update 50000 "
    "--total-num-update 50000"
)
SMALL = (
    "--encoder-embed-dim 64 --encoder-ffn-embed-dim 128 --encoder-attention-heads 2 "
    "--encoder-layers 2 --dropout 0.1 --attention-dropout 0.1 --pooling mean --encoder-learned-pos"
)
PENN_TREEBANK = (
    "--optimizer adam --lr 0.01 --lr-scheduler fixed --max-epoch 10 --tokens-per-sample 35 "
    "--decoder-embed-dim 512 --decoder-layers 6"
)
GLUE = "--optimizer adam --adam-betas '(0.9, 0.999)' --adam-eps 1e-6 --clip-norm 0"
MULTI30K = (
    "--optimizer adam --lr 2e-3 --lr-scheduler polynomial_decay --warmup-updates 400 "
    "--total-num-update 1210 --max-epoch 10 --max-tokens 4096 --label-smoothing 0.1 --dropout 0.3 "
    "--encoder-embed-dim 256 --encoder-attention-heads 4 --decoder-attention-heads 4"
)
MULTI30K_LAYERS = f"{MULTI30K} --encoder-layers 4 --decoder-layers 4"

# A command, options that it trains with, and where they are from.
RECIPES = {
    "Dutta et al. 2021, section 7.3, appendix C: 3.49e-4 = 0.5 (256 x 8000)^-0.5": [
        *(
            (f"RECIPE=transevolve examples/{command}", f"{TRANSEVOLVE} --lr 3.49e-4 {batches}")
            for command, batches in [
                (
                    "text_classification/run.sh imdb transevolve_classifier_fullff_2",
                    "--batch-size 80 --max-epoch 15 --max-positions 512 --encoder-embed-dim 256",
                ),
                (
                    "text_classification/run.sh agnews transformer_classifier",
                    "--batch-size 80 --max-epoch 15 --max-positions 512",
                ),
                (
                    "lra/run.sh text transevolve_classifier_randomff_1",
                    "--batch-size 48 --max-epoch 15",
                ),
                ("lra/run.sh listops transformer_classifier", "--batch-size 64 --max-epoch 15"),
            ]
        ),
    ],
    "Dutta et al. 2021, section 7.1": [
        (
            "RECIPE=transevolve examples/lra/run.sh text transevolve_classifier_fullff_1",
            "--encoder-embed-dim 256 --encoder-attention-heads 8 --encoder-blocks 1 "
            "--encoder-depth 6",
        ),
        (
            "RECIPE=transevolve examples/lra/run.sh text transevolve_classifier_randomff_2",
            "--encoder-embed-dim 256 --encoder-attention-heads 8 --encoder-blocks 2 "
            "--encoder-depth 3",
        ),
    ],
    "Dutta et al. 2021, section 7.3, appendix C: 5.24e-4 = 1.5 (512 x 16000)^-0.5": [
        (f"examples/transevolve/wmt14.sh {pair} transevolve_fullff_2", TRANSLATION)
        for pair in ("en-de", "en-fr")
    ],
    "Dutta et al. 2021, appendix C, Figure 2: lr_max (512 x warm-up)^-0.5": [
        (
            f"SEEDS=1 examples/transevolve/figure2.sh --part {pair}-{factor}-{warmup}",
            f"--lr {rate} --warmup-updates {warmup} --lr-scheduler inverse_sqrt "
            "--max-update 300000 --batch-size 512",
        )
        for pair, factor, warmup, rate in [
            ("en-de", "1.0", 4000, 6.99e-4),
            ("en-de", "1.0", 8000, 4.94e-4),
            ("en-fr", "1.0", 16000, 3.49e-4),
            ("en-fr", "1.5", 4000, 1.05e-3),
            ("en-fr", "1.5", 8000, 7.41e-4),
            ("en-de", "1.5", 16000, 5.24e-4),
        ]
    ],
    "Dutta et al. 2021, section 7.3: the last ten checkpoints, one in 2,000 updates": [
        (
            "examples/transevolve/wmt14.sh en-de transevolve_randomff_1",
            "--save-interval-updates 2000 --keep-interval-updates 10",
        ),
    ],
    "Dutta et al. 2021, Table 2: the base model of Vaswani et al. 2017": [
        (
            "examples/transevolve/wmt14.sh en-de transformer",
            "--share-all-embeddings --dropout 0.1 --encoder-embed-dim 512 --encoder-layers 6",
        ),
    ],
    "Sengupta et al. 2023, appendix B.1": [
        *(
            (f"RECIPE=transject examples/text_classification/run.sh {command}", SHORT_TEXTS)
            for command in (
                "imdb transject",
                "agnews transject_random",
                "imdb transformer_classifier_rezero",
            )
        ),
        *(
            (
                f"examples/lra/run.sh {task} transject_lra",
                "--encoder-embed-dim 512 --encoder-layers 2 --encoder-experts 4 "
                f"--pooling {pooling}",
            )
            for task, pooling in [("text", "mean"), ("listops", "max"), ("image", "max")]
        ),
        *(
            (f"examples/transject/ptb.sh {arch}", PENN_TREEBANK)
            for arch in ("transject_lm", "transject_lm_random", "transformer_lm")
        ),
    ],
    "Sengupta et al. 2023, section 4 and Figure 6: one thing differs from the paper's models": [
        (f"SEEDS=1 examples/transject/figure6.sh --part {part}", stated)
        for part, stated in [
            ("imdb-transject-paper", f"{SHORT_TEXTS} --encoder-experts 4"),
            ("imdb-transject-experts1", f"{SHORT_TEXTS} --encoder-experts 1"),
            ("imdb-transformer-paper", f"{SHORT_TEXTS} --dropout 0.1"),
            ("imdb-transformer-heads1", f"{SHORT_TEXTS} --encoder-attention-heads 1"),
            ("imdb-transformer-dropout0.5", f"{SHORT_TEXTS} --dropout 0.5"),
            (
                "charimdb-transject-layers6",
                f"{LONG_TEXTS} --batch-size 32 --encoder-experts 4 --encoder-layers 6",
            ),
            (
                "charimdb-transformer-layers4",
                f"{LONG_TEXTS} --batch-size 32 --encoder-embed-dim 64 --encoder-layers 4",
            ),
        ]
    ],
    "Sengupta et al. 2023, Table 5: inner width 2048, in a Macaron layer twice half of it": [
        (
            "RECIPE=transject examples/text_classification/run.sh imdb transformer_classifier",
            "--encoder-ffn-embed-dim 2048",
        ),
        (
            "RECIPE=transject examples/text_classification/run.sh imdb macaron_classifier",
            "--encoder-ffn-embed-dim 1024",
        ),
        (
            "examples/transject/ptb.sh transformer_lm_rezero",
            "--decoder-ffn-embed-dim 2048 --decoder-input-dim 512 --decoder-output-dim 512",
        ),
    ],
    "Chen et al. 2021 (Skyformer), released configuration; Sengupta et al. 2023, appendix B.1": [
        *(
            (f"examples/lra/run.sh {task} {arch}", f"{LONG_TEXTS} {batches}")
            for task, batches in [
                ("listops", "--batch-size 32 --lr 1e-4 --warmup-updates 1000"),
                ("text", "--batch-size 32 --lr 1e-4 --warmup-updates 80"),
                ("retrieval", "--batch-size 16 --lr 2e-4 --warmup-updates 800"),
                ("pathfinder", "--batch-size 128 --lr 2e-4 --warmup-updates 312"),
                ("image", "--batch-size 256 --lr 1e-4 --warmup-updates 175"),
            ]
            for arch in ("transject_lra", "transformer_classifier_orthogonal")
        ),
        *(
            (f"examples/lra/run.sh {task} {arch}", SMALL)
            for task, arch in [
                ("image", "transformer_classifier"),
                ("listops", "transformer_classifier_rezero"),
            ]
        ),
    ],
    "examples/transject/README.md, What the paper leaves open": [
        *(
            (f"RECIPE={recipe} examples/{command}", f"--reconstruction-weight {weight}")
            for recipe, command, weight in [
                ("transject", "text_classification/run.sh imdb transject", "1e-4"),
                ("small", "text_classification/run.sh agnews transject", "1e-4"),
                ("transject", "lra/run.sh image transject_lra", "1e-4"),
                ("small", "lra/run.sh listops-short transject", "1e-4"),
                ("paper", "transject/ptb.sh transject_lm", "1e-4"),
            ]
        ),
        ("examples/transject/ptb.sh transject_lm", "--batch-size 20"),
    ],
    "examples/transject/README.md, Table 3: the trial": [
        (
            "RECIPE=small examples/transject/ptb.sh transformer_lm",
            "--max-epoch 10 --decoder-embed-dim 128 --decoder-ffn-embed-dim 512 --batch-size 20",
        ),
    ],
    "Lu et al. 2019, the authors' bert/macaron-scripts/test/test-our-best-setting.sh": [
        (f"examples/macaron/glue.sh {task} none", f"{GLUE} {batches}")
        for task, batches in [
            ("CoLA", "--max-epoch 5 --batch-size 32 --lr 3e-5 --weight-decay 0"),
            ("SST-2", "--max-epoch 3 --batch-size 24 --lr 5e-5 --weight-decay 0"),
            ("MRPC", "--max-epoch 4 --batch-size 16 --lr 5e-5 --weight-decay 0"),
            ("STS-B", "--max-epoch 5 --batch-size 16 --lr 5e-5 --weight-decay 0"),
            ("QQP", "--max-epoch 5 --batch-size 16 --lr 5e-5 --weight-decay 0"),
            ("MNLI", "--max-epoch 3 --batch-size 24 --lr 5e-5 --weight-decay 0"),
            ("QNLI", "--max-epoch 4 --batch-size 16 --lr 3e-5 --weight-decay 0.01"),
            # 2,490 examples are 156 batches; a tenth of the updates warms up.
            (
                "RTE",
                "--max-epoch 4 --batch-size 16 --lr 5e-5 --weight-decay 0 --warmup-updates 62 "
                "--lr-scheduler polynomial_decay --total-num-update 624",
            ),
        ]
    ],
    "examples/macaron/README.md, A small trial": [
        (
            f"examples/macaron/pretrain.sh train.txt valid.txt {arch}",
            "--max-tokens 2048 --max-update 500 --encoder-layers 4 --encoder-embed-dim 256 "
            f"--encoder-ffn-embed-dim {inner}",
        )
        for arch, inner in [("macaron_bert_base", 512), ("roberta_prenorm", 1024)]
    ],
    "examples/multi30k/README.md": [
        (
            "examples/multi30k/run.sh transformer",
            f"{MULTI30K_LAYERS} --encoder-ffn-embed-dim 1024 --attention-dropout 0",
        ),
        (
            "examples/multi30k/run.sh macaron_transformer",
            f"{MULTI30K_LAYERS} --encoder-ffn-embed-dim 512 --attention-dropout 0 "
            "--activation-dropout 0",
        ),
        (
            "examples/multi30k/run.sh transevolve_fullff_1",
            f"{MULTI30K} --encoder-blocks 1 --encoder-depth 4 --decoder-blocks 1 "
            "--decoder-depth 4 --encoder-ffn-embed-dim 1024 --attention-dropout 0",
        ),
        (
            "examples/multi30k/run.sh transevolve_randomff_2",
            f"{MULTI30K} --encoder-blocks 2 --encoder-depth 2 --decoder-blocks 2 "
            "--decoder-depth 2 --encoder-ffn-embed-dim 1024 --attention-dropout 0",
        ),
        (
            "examples/multi30k/run.sh node_transformer_mt",
            f"{MULTI30K} --encoder-layers 2 --decoder-layers 2 --encoder-ffn-embed-dim 1024",
        ),
    ],
    "examples/text_classification/README.md, Small trials: six epochs; 704 batches are an IMDb": [
        (
            "RECIPE=small examples/text_classification/run.sh imdb transevolve_classifier_fullff_1",
            "--lr 5e-4 --warmup-updates 150 --max-epoch 6 --batch-size 32 --encoder-embed-dim 256 "
            "--encoder-attention-heads 8 --encoder-depth 6",
        ),
        (
            "RECIPE=small examples/text_classification/run.sh agnews transject",
            "--max-epoch 6 --batch-size 32 --encoder-embed-dim 256 --encoder-layers 6",
        ),
    ],
    "examples/lra/README.md, Short ListOps": [
        (
            "examples/lra/run.sh listops-short transformer_classifier",
            "--max-epoch 6 --encoder-embed-dim 128 --encoder-attention-heads 8 "
            "--encoder-ffn-embed-dim 512 --encoder-layers 6",
        ),
        (
            "examples/lra/run.sh listops-short transevolve_classifier_fullff_2",
            "--max-epoch 6 --encoder-embed-dim 128 --encoder-blocks 2 --encoder-depth 3",
        ),
        (
            "examples/lra/run.sh listops-short transject",
            "--max-epoch 6 --encoder-embed-dim 128 --encoder-layers 6",
        ),
    ],
}
ROWS = [(*row, source) for source, rows in RECIPES.items() for row in rows]

# The data that the scripts ask for.
PREPARED = [
    *("agnews/data-bin", "imdb/data-bin", "ptb/data-bin", "pretrain/data-bin/dict.txt"),
    *("multi30k/data-bin/dict.de.txt", "lra/listops-short/data-bin"),
    *(f"wmt14-{pair}/data-bin/dict.en.txt" for pair in ("en-de", "en-fr")),
    *(f"lra/{task}-bin" for task in ("listops", "text", "retrieval", "pathfinder", "image")),
    *(
        f"glue/{task}-bin"
        for task in ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE")
    ),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder that stands for the repository's, with data that nothing reads."""
    folder = tmp_path_factory.mktemp("repository")
    for path in PREPARED:
        (folder / "data" / path).mkdir(parents=True)
    return folder


def read(command):
    """The environment, the script and the arguments of a command line."""
    words = command.split()
    environment = dict(word.split("=") for word in words if "=" in word)
    script, *args = words[len(environment) :]
    return environment, script.removeprefix("examples/"), args


@pytest.mark.parametrize("command, stated, source", ROWS, ids=[command for command, *_ in ROWS])
def test_training(root, command, stated, source):
    """It takes the stated options, given or by default: to give them as well changes none."""
    environment, script, args = read(command)
    line = training_options(root, script, *args, **environment)
    stated = shlex.split(stated)
    names = [word[2:].replace("-", "_") for word in stated if word.startswith("--")]
    found, expected = (trained_with([*line, *more], names) for more in ([], stated))
    assert found == expected, source


@pytest.mark.parametrize("recipe, metric", [("transject", "loss"), ("small", "accuracy")])
def test_the_best_checkpoint(root, recipe, metric):
    """Of the lowest loss in Sengupta et al. 2023, appendix B.1; else of the highest accuracy."""
    script = ["text_classification/run.sh", "imdb", "transject"]
    line = training_options(root, *script, RECIPE=recipe)
    names = ["best_checkpoint_metric", "maximize_best_checkpoint_metric"]
    assert list(trained_with(line, names).values()) == [metric, str(metric == "accuracy")]


def trained_with(line, names):
    """What a command line of ``fairseq-train`` makes of some options, as text.

    One that follows another unless it is given has no type on the command line.
    """
    plugin = line.index("--user-dir")  # it is imported
    line = [*line[:plugin], *line[plugin + 2 :]]
    args = options.parse_args_and_arch(options.get_training_parser(), line)
    config = resolved(args.arch, args)
    return {name: str(config[name]) for name in names}


def test_every_script_is_in_the_table():
    scripts = {f"{path.parent.name}/{path.name}" for path in ROOT.glob("examples/*/*.sh")}
    assert {read(command)[1] for command, *_ in ROWS} == scripts
