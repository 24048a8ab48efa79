"""fairseq's features and commands work for a model of each family."""

import copy
import re

import pytest
import torch
from fairseq import options
from fairseq_cli import eval_lm, generate, interactive, validate
from helpers import COPY
from make_checkpoints import parsed, training_config
from script_helpers import IN_MAIN_THREAD, trainings

ALIGNED = ["macaron_transformer", "pcformer", "ot_transformer", "yuriiformer"]
OTHERS = ["transevolve", "node_transformer_mt"]
FAMILIES = [*ALIGNED, *OTHERS, "transject_lm"]


@pytest.fixture(scope="module")
def trained(training_data):
    """The checkpoint of each model, and of each family and feature."""
    still = {"lr_scheduler": {"lr": [0.0]}, "optimization": {"lr": [0.0]}}
    names, configs = [], []
    for arch in FAMILIES:
        start = str(path(training_data, "plain", arch))
        features = [
            ("plain", {}, {}),
            ("ema", {}, {"ema": {"store_ema": True}}),
            ("finetuned", {"finetune_from_model": start}, still),
        ]
        for feature, saving, parts in features:
            saving["save_dir"] = str(path(training_data, feature, arch).parent)
            # A gradient that is zero up to rounding changes nothing.
            smooth = {"adam_eps": 0.01}
            configs.append(training_config(arch, checkpoint=saving, optimizer=smooth, **parts))
            names.append((feature, arch))
    trainings(configs, training_data)
    return {name: torch.load(path(training_data, *name)) for name in names}


def path(folder, feature, arch):
    return folder / feature / arch / "checkpoint_last.pt"


@pytest.mark.parametrize("arch", FAMILIES)
@pytest.mark.parametrize("feature", ["ema", "finetuned"])
def test_a_feature_does_not_change_the_weights(feature, arch, trained):
    """A moving average is saved beside the weights.

    After three updates the average is still near its start, unlike the weights.
    """
    plain, state = (trained[name, arch]["model"] for name in ("plain", feature))
    assert state.keys() == plain.keys()
    for name in filter(lambda name: not COPY.search(name), plain):
        torch.testing.assert_close(state[name], plain[name], msg=name)
    if feature == "ema":
        average = trained[feature, arch]["extra_state"]["ema"]
        names = average.keys() & state.keys()
        assert any(not torch.equal(average[name], state[name]) for name in names)


LANGUAGES = "--source-lang de --target-lang en --max-len-b 5 --beam 2"
VALIDATING = validate.main, options.get_validation_parser, "--task translation"
PERPLEXITY = "--tokens-per-sample 16 --task language_modeling --gen-subset valid"
SCORING = eval_lm.main, options.get_eval_lm_parser, PERPLEXITY
GENERATING = generate.main, options.get_generation_parser, f"{LANGUAGES} --gen-subset valid"
ASKED = f"{LANGUAGES} --input asked.de --buffer-size 4"
ASKING = interactive.main, options.get_interactive_generation_parser, ASKED


@pytest.mark.parametrize(
    "command, archs, changes, printed",
    [
        (VALIDATING, FAMILIES, {}, r"valid on 'valid' subset \| loss [\d.]+"),
        (SCORING, FAMILIES[-1:], {}, r"Loss \(base 2\): [0-9.]+, Perplexity: [0-9.]+"),
        (GENERATING, ALIGNED, {}, r"(?s)(H-\d.*){8}"),
        (
            GENERATING,
            OTHERS,
            {"score_reference": True, "beam": 1},
            r"(?s)T-(\d+)\t([^\n]*)\n.*H-\1\t\S+\t\2\n",
        ),
        (ASKING, OTHERS, {}, r"(?s)(H-\d.*){2}"),
        (
            ASKING,
            ALIGNED,
            {"print_alignment": "hard", "replace_unk": ""},
            r"(?m)^A-\d+\t(\d+-\d+ ?)*$",
        ),
    ],
)
def test_fairseqs_commands_work(command, archs, changes, printed, training_data, trained):
    """Each command prints its expected output, also for a word that is not in the dictionary.

    Commands that generate from data generate the same from a file, with the scores of training.
    """
    main, get_parser, line = command
    (training_data / "asked.de").write_text("1 2 3\n4 unheard 6\n")
    common = "words --cpu --batch-size 4 --required-batch-size-multiple 1 --path none"
    config = parsed([*common.split(), *IN_MAIN_THREAD, *line.split()], get_parser)
    for name, value in changes.items():
        config.generation[name] = value
    configs = [copy.deepcopy(config) for _ in archs]
    for arch, config in zip(archs, configs):
        config.common_eval.path = str(path(training_data, "plain", arch))
    for log in trainings(configs, training_data, main=main):
        assert re.search(printed, log), log
