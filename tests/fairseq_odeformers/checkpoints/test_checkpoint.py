"""Only known models and tasks are loaded, and no code of a checkpoint runs."""

import gzip
import itertools
import json
import shutil
import threading
import zipfile
from argparse import Namespace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_INV_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    register_model_architecture,
)
from helpers import OLD
from make_checkpoints import PATHS, make_dictionary

from fairseq_odeformers import load_classifier, load_translator
from fairseq_odeformers.checkpoints import Checkpoint, weights
from fairseq_odeformers.checkpoints.checkpoint import naming_missing
from fairseq_odeformers.models.macaron.models import MacaronTransformerModel
from odeformers import average, export
from odeformers.analyse import sentence

CODE = "__import__('pathlib').Path('trace').touch()"


@pytest.fixture
def change(data, tmp_path, monkeypatch):
    """Writes a changed golden checkpoint to the current folder; its data are in ``words``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words").symlink_to(data / "words")

    def write(name, edit):
        with gzip.open(PATHS[name]) as file:
            state = torch.load(file, weights_only=True)
        edit(state)
        torch.save(state, "checkpoint.pt")
        return "checkpoint.pt"

    return write


def fconv(state, **model):
    """A model of fairseq's that evaluates its option ``encoder_layers``."""
    state["cfg"]["model"] = {"encoder_layers": CODE, **model}


DISGUISES = {
    "_name": lambda state: fconv(state, _name="fconv"),
    "arch": lambda state: fconv(state, arch="fconv"),
    "nested": lambda state: state["cfg"].update(model={"fconv": {"encoder_layers": CODE}}),
    "args": lambda state: state.update(
        args=Namespace(arch="fconv", encoder_layers=CODE, task="translation", data="words")
    ),
    "task": lambda state: state["cfg"]["task"].update(task="audio_pretraining"),
}
USES = {
    "load_translator": lambda path: load_translator(path, "words"),
    "from_pretrained": lambda path: MacaronTransformerModel.from_pretrained(".", path, "words"),
    "weights": lambda path: export.main([path, "out"]),
    "program": lambda path: export.main([path, "out.pt2", "--data", "words"]),
}


@pytest.mark.parametrize(
    "disguise, use",
    [
        *itertools.product(DISGUISES, ["load_translator", "from_pretrained"]),
        *(("_name", use) for use in ("weights", "program")),  # read as by the first
    ],
)
def test_other_models_and_tasks_of_fairseq_are_not_built(disguise, use, change, tmp_path):
    if OLD and disguise == "task":
        pytest.skip("the task has no such option there, so that it is left out")
    path = change("macaron_transformer", DISGUISES[disguise])
    with pytest.raises(ValueError, match="checkpoint.pt has (the|fairseq's) (arch|task)"):
        USES[use](path)
    assert not {"trace", "out", "out.pt2"}.intersection(entry.name for entry in tmp_path.iterdir())


SENTENCE = Namespace(data="words", text="1 2", device="cpu", tokenized=False)
TOKENIZED = Namespace(**{**vars(SENTENCE), "tokenized": True})
READERS = {
    **{name: ("macaron_transformer", USES[name]) for name in ("load_translator", "weights")},
    "classifier": ("transject", lambda path: load_classifier(path, "words")),
    "sentence of a classifier": ("transject", lambda path: sentence.encode(path, SENTENCE)),
    "sentence": ("macaron_transformer", lambda path: sentence.encode(path, TOKENIZED)),
    "average": ("transject", lambda path: average.average([path])),
}


def test_different_classes_are_the_only_error(change, caplog):
    """The error about other classes comes without the warning that the head does not fit."""
    path = change("transject", lambda state: None)
    shutil.copytree("words", "two")
    make_dictionary(2).save("two/label/dict.txt")
    with pytest.raises(ValueError, match="^checkpoint.pt was trained on 3 classes, but two has 2"):
        load_classifier(path, "two", num_classes=2)
    assert "initial values" not in caplog.text


@pytest.mark.parametrize("task_state", [3, [1], {"classes": 3}, {"classes": [1]}])
def test_an_invalid_task_state_is_an_error(task_state, change):
    path = change("transject", lambda state: state.update(task_state=task_state))
    with pytest.raises(ValueError, match="^checkpoint.pt does not fit its model or words"):
        Checkpoint.read(path).build("words")


@pytest.mark.parametrize("use", ["load_translator", "from_pretrained", "program"])
def test_options_of_a_larger_model_than_the_weights_are_refused(use, change):
    path = change("macaron_transformer", lambda s: s["cfg"]["model"].update(encoder_layers=999))
    with pytest.raises(ValueError, match="checkpoint.pt: its options describe a larger model"):
        USES[use](path)


@pytest.mark.parametrize("reader", READERS)
def test_a_checkpoint_is_read_once(reader, change, monkeypatch):
    """Each file of an ensemble is read once, and its checksums are compared once."""
    name, use = READERS[reader]
    path, calls = change(name, lambda state: None), []
    load, compare = torch.load, zipfile.ZipFile.testzip
    monkeypatch.setattr(torch, "load", lambda *args, **k: calls.append("load") or load(*args, **k))
    monkeypatch.setattr(zipfile.ZipFile, "testzip", lambda s: calls.append("sums") or compare(s))
    use(path)
    assert calls == ["sums", "load"]
    if reader in ("classifier", "load_translator"):
        use(f"{path}:{path}")
        assert calls == ["sums", "load"] * 3


@pytest.mark.parametrize(
    "part, options, refusal",
    [
        ("model", {"_name": "fconv", "encoder_layers": CODE}, "out has fairseq's architecture"),
        (
            "task",
            {"data": "${oc.env:HOME}"},
            r"out/config.json is not loaded: .* '\${oc.env:HOME}'",
        ),
    ],
)
def test_an_export_gets_the_checks_of_a_checkpoint(part, options, refusal, change, tmp_path):
    """Unsafe options of an export are refused even if its checksums fit."""
    pytest.importorskip("safetensors")
    original = Checkpoint.read(change("macaron_transformer", lambda state: None))
    original.export(tmp_path / "out")
    config = json.loads((tmp_path / "out/config.json").read_text())
    config["config"][part] = options
    del config[weights.OWN_SUM]
    config[weights.OWN_SUM] = weights.checksum(config)
    (tmp_path / "out/config.json").write_text(json.dumps(config))
    for use in (USES["load_translator"], USES["program"]):
        with pytest.raises(ValueError, match=refusal):
            use("out")
    assert not (tmp_path / "trace").exists()


@pytest.fixture
def server():
    """A server that lists in ``asked`` what is fetched from it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server.asked.append(self.path)
            self.send_response(404)
            self.end_headers()

        do_HEAD = do_GET

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("use", ["load_translator", "from_pretrained"])
@pytest.mark.parametrize(
    "section",
    [
        lambda files: {"_name": "gpt2", **files},
        lambda files: Namespace(_name="characters", bpe="gpt2", **files),
    ],
)
def test_urls_in_a_checkpoint_are_not_fetched(section, use, change, server):
    """A checkpoint's URLs are never requested, even if the caller sets other subwords."""
    url = f"http://127.0.0.1:{server.server_port}"
    bpe = section({"gpt2_encoder_json": f"{url}/a", "gpt2_vocab_bpe": f"{url}/b"})
    path = change("macaron_transformer", lambda state: state["cfg"].update(bpe=bpe))
    with pytest.raises(ValueError, match="checkpoint.pt has the bpe gpt2, .* with bpe='gpt2'"):
        USES[use](path)
    assert load_translator(path, "words", bpe="characters").apply_bpe("12") == "1 2"
    Path("code").write_text("#version: 0.2\n1 2</w>\n")
    options = {"bpe": "subword_nmt", "bpe_codes": "code"}
    assert load_translator(path, "words", **options).apply_bpe("34") == "3@@ 4"
    assert server.asked == []


def test_a_checkpoint_sets_subwords_and_tokenizer_if_they_read_no_files(change):
    parts = {"bpe": {"_name": "characters"}, "tokenizer": {"_name": "space"}}
    path = change("macaron_transformer", lambda state: state["cfg"].update(parts))
    translator = load_translator(path, "words")
    assert translator.apply_bpe(translator.tokenize("1   2")) == "1 \N{LOWER ONE EIGHTH BLOCK} 2"


@pytest.mark.parametrize(
    "edit",
    [
        lambda state: state["cfg"]["task"].update(data="${oc.env:HOME}"),
        lambda state: state["cfg"]["model"].update(names=["${${task.data}:HOME}"]),
        lambda state: state.update(
            cfg=None, args=Namespace(arch="fconv", task="translation", data="/${oc.env:HOME}")
        ),
    ],
)
def test_a_configuration_calls_no_functions(edit, change):
    """A resolver such as ``oc.env`` is refused; interpolations of other options are resolved."""
    path = change("macaron_transformer", edit)
    for read in (Checkpoint.read, checkpoint_utils.load_checkpoint_to_cpu):
        with pytest.raises(
            ValueError, match="^checkpoint.pt is not loaded: .*:HOME}', which calls"
        ):
            read(path)
    path = change(
        "macaron_transformer", lambda s: s["cfg"]["task"].update(data="${task.target_lang}")
    )
    assert Checkpoint.read(path).cfg.task.data == "en"


@pytest.mark.parametrize(
    "name, options",
    [
        ("macaron_transformer", {"encoder_xformers_att_config": CODE}),
        ("macaron_transformer_lm", {"character_embeddings": True, "character_filters": CODE}),
        ("transformer_lm_orthogonal", {"adaptive_input": True, "adaptive_input_cutoff": CODE}),
    ],
)
def test_options_of_models_are_not_evaluated(name, options, change, tmp_path):
    """Neither the loaders nor fairseq's own commands evaluate the text of an option."""
    path = change(name, lambda state: state["cfg"]["model"].update(options))
    with pytest.raises(ValueError, match="checkpoint.pt does not fit its model"):
        Checkpoint.read(path).build("words")
    with pytest.raises(Exception):  # noqa: B017  whatever fairseq makes of it
        checkpoint_utils.load_model_ensemble_and_task([path], {"data": "words"})
    assert not (tmp_path / "trace").exists()


def test_a_translator_without_languages_needs_data_of_pairs(change, tmp_path):
    """A checkpoint whose training inferred the languages needs data with sentence pairs to load."""
    no_languages = {"source_lang": None, "target_lang": None}
    path = change("macaron_transformer", lambda state: state["cfg"]["task"].update(no_languages))
    (tmp_path / "texts").mkdir()
    with pytest.raises(
        FileNotFoundError, match="^texts has no sentence pairs, .*; pass translation data"
    ):
        Checkpoint.read(path).build("texts")


def test_a_missing_dictionary_is_named_with_its_remedy(tmp_path):
    missing = tmp_path / "dict.de.txt"
    with pytest.raises(FileNotFoundError, match=f"^{missing}: no such file; pass .* of a.pt$"):
        with naming_missing("a.pt", f"other:{tmp_path}"):
            open(missing)
    with pytest.raises(FileNotFoundError, match="^.Errno 2.") as of_another_folder:
        with naming_missing("a.pt", "other"):
            open(missing)
    assert of_another_folder.value.filename == str(missing)


@pytest.fixture
def plugin_architecture():
    """The name of an architecture that a plugin registers for a model of this package."""
    model, name = "transformer_classifier", "transformer_classifier_of_a_plugin"
    register_model_architecture(model, name)(lambda args: None)
    yield name
    for registry in (ARCH_MODEL_REGISTRY, ARCH_MODEL_NAME_REGISTRY, ARCH_CONFIG_REGISTRY):
        del registry[name]
    ARCH_MODEL_INV_REGISTRY[model].remove(name)


def test_a_preset_of_a_plugin_gets_newer_options(change, plugin_architecture):
    """fairseq adds newer options only to the preset named as its model, this package to all."""

    def make_old(state):
        state["cfg"]["model"] |= {"_name": plugin_architecture, "arch": plugin_architecture}
        state["cfg"]["model"].pop("pair_encoding", None)

    label, _ = load_classifier(change("transformer_classifier", make_old), "words").classify("1 2")
    original = change("transformer_classifier", lambda state: None)
    assert label == load_classifier(original, "words").classify("1 2").label
