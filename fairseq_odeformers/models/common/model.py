"""The base of all models of this package: it declares and checks their options."""

import os
from argparse import SUPPRESS
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.file_utils import load_archive_file
from fairseq.tasks.sentence_prediction import SentencePredictionTask

from fairseq_odeformers.checkpoints.checkpoint import checking
from fairseq_odeformers.data.classification import check_classes
from fairseq_odeformers.files import check_binarised
from fairseq_odeformers.options import add_choices, flag, validate
from fairseq_odeformers.registry import check_kind, import_plugins, transformer_sizes

from .dictionary_digest import DictionaryDigest


class BaseModel(DictionaryDigest):
    """Mixin for all models: options from a dataclass, checked before a model is built.

    It comes before a base class of fairseq and replaces its options.

    Some switches are on by default, or follow another option. Each of them gets a second form that
    turns it off: ``--no-NAME`` for ``--NAME``, and ``--NAME`` for ``--no-NAME``. Otherwise, fairseq
    would turn a switch that is on by default off when it is given, and a switch that follows
    another option would expect a value.

    Attributes:
        unsupported: options that the model does not support, with the reasons; a class names those
            that its base classes support, and has theirs as well.
        training_options: switches for the backward pass; they stay off in a model that is only
            evaluated.
        ffns_per_layer: number of FFNs per layer; they share the inner width of a Transformer.

    Raises:
        ValueError: a subclass is registered without a dataclass.
    """

    unsupported: Mapping[str, str] = {}
    training_options: tuple[str, ...] = ("checkpoint_activations",)
    ffns_per_layer = 1

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        each = [vars(base).get("unsupported", {}) for base in reversed(cls.__mro__)]
        cls.unsupported = {name: reason for options in each for name, reason in options.items()}

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path,
        checkpoint_file="model.pt",
        data_name_or_path=".",
        *args,
        **kwargs,
    ):
        """Load a model from a folder with fairseq's method, after checks of the folder and files.

        The checkpoint is trusted or refused as in the loaders of this package.

        Raises:
            FileNotFoundError: the folder does not exist.
            ValueError: as in :func:`~fairseq_odeformers.checkpoints.trust.check_trust`; or the
                data are in a folder below the given one.
        """
        if "user_dir" in kwargs:
            import_plugins([kwargs["user_dir"]])
        beside = data_name_or_path.startswith(".")  # relative to the model's folder, for fairseq
        content = {str(model_name_or_path): checkpoint_file}
        if not beside:
            content[data_name_or_path] = "the dictionaries"
        # fairseq downloads models by these names, and from URLs.
        named = cls.hub_models()  # pyright: ignore[reportAttributeAccessIssue]
        for place, files in content.items():
            if not ("://" in place or place in named or Path(place).exists()):
                raise FileNotFoundError(f"{place}: no such folder; give the one with {files}")
        check_binarised(Path(model_name_or_path if beside else "", data_name_or_path))
        archive = named.get(model_name_or_path, model_name_or_path)
        folder = load_archive_file(archive["path"] if isinstance(archive, dict) else archive)
        if isinstance(archive, dict):
            checkpoint_file = archive.get("checkpoint_file", checkpoint_file)
        with checking([os.path.join(folder, file) for file in checkpoint_file.split(os.pathsep)]):
            return super().from_pretrained(  # pyright: ignore[reportAttributeAccessIssue]
                model_name_or_path, checkpoint_file, data_name_or_path, *args, **kwargs
            )

    @classmethod
    def check_options(cls, cfg, task):
        """Check that the task trains the model, and check the config and the labels.

        Raises:
            ValueError: the task does not train the model; or as in :meth:`check_config` and
                :func:`.check_classes`.
        """
        check_kind(cfg._name, getattr(task.cfg, "_name", ""))
        if getattr(type(task), "load_dataset", None) is SentencePredictionTask.load_dataset:
            check_classes(task)
        cls.check_config(cfg)

    @classmethod
    def check_config(cls, cfg):
        """Check that a model can be built from the options.

        Raises:
            ValueError: an option is unsupported or out of bounds; the message names the first such
                option and the remedy.
        """
        # fairseq's register_model sets the dataclass.
        configs = (vars(base).get("__dataclass") for base in cls.__mro__)
        validate(cfg, next(filter(None, configs)), cls.unsupported)

    @classmethod
    def side_sizes(cls, sizes: Mapping[str, int], options: Mapping[str, Any]) -> dict[str, int]:
        """The options that give an encoder or a decoder the sizes of a Transformer.

        Args:
            sizes: some or all of ``embed_dim``, ``ffn_embed_dim`` (the inner width),
                ``attention_heads`` and ``layers``.
            options: the other options of the side.

        Returns:
            Values by names of options without the side; a model need not have all of these options.
        """
        return transformer_sizes(sizes, options, cls.ffns_per_layer)

    @classmethod
    def add_args(cls, parser):
        config = vars(cls).get("__dataclass")
        if config is None:
            raise ValueError(
                f"{cls.__name__} is registered without its options; write "
                "@register_model(NAME, dataclass=CONFIG), with its base class's config if it adds "
                "none"
            )
        for item in fields(config):
            switch = item.type is bool and "help" in item.metadata
            if switch and item.default is not False:  # on, or follows another option
                off = item.name[3:] if item.name.startswith("no_") else f"no_{item.name}"
                for name, action in ((item.name, "store_true"), (off, "store_false")):
                    parser.add_argument(
                        flag(name),
                        action=action,
                        dest=item.name,
                        default=SUPPRESS,
                        help=item.metadata["help"]
                        if action == "store_true"
                        else f"the opposite of {flag(item.name)}",
                    )
        gen_parser_from_dataclass(parser, config(), delete_default=True)
        add_choices(parser, config)
