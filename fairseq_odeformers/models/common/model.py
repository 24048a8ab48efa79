"""The base of all models of this package, with the declaration and checks of their options."""

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

    List it before fairseq's base class; it replaces the options of that class.

    Some switches are on by default, or take their default from another option. Each of them gets a
    second form that turns it off: ``--no-NAME`` for ``--NAME``, and ``--NAME`` for ``--no-NAME``.
    In fairseq, giving a switch that is on by default turns it off, and a switch that takes its
    default from another option expects a value.

    Attributes:
        unsupported: options that the model does not support, with the reasons; a subclass adds to
            the options that its base classes list.
        training_options: switches for the backward pass; they are ignored in a model that is only
            evaluated.
        ffns_per_layer: number of FFNs per layer; together, they have the inner width of a
            Transformer's FFN when models of equal size are built.

    Raises:
        ValueError: a subclass is registered without a dataclass.
    """

    unsupported: Mapping[str, str] = {}
    training_options: tuple[str, ...] = ("checkpoint_activations",)
    ffns_per_layer = 1

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declared = [vars(base).get("unsupported", {}) for base in reversed(cls.__mro__)]
        cls.unsupported = {name: why for options in declared for name, why in options.items()}

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path,
        checkpoint_file="model.pt",
        data_name_or_path=".",
        *args,
        **kwargs,
    ):
        """Load a model from a folder as fairseq does, after checks of the folder and its files.

        A checkpoint is trusted under the same conditions as in the loaders of this package.

        Args:
            model_name_or_path: the folder, the name of a published model, or a URL.
            checkpoint_file: names of checkpoints in the folder, separated by colons.
            data_name_or_path: folder with the dictionaries, relative to the model's folder if it
                begins with a dot.
            args, kwargs: further arguments of fairseq's method; ``user_dir`` imports a plugin.

        Raises:
            FileNotFoundError: the folder does not exist.
            ValueError: as in :func:`~fairseq_odeformers.checkpoints.trust.check_trust`; or the
                binarised data are in a folder ``data-bin`` in the given one.
        """
        if "user_dir" in kwargs:
            import_plugins([kwargs["user_dir"]])
        relative = data_name_or_path.startswith(".")  # fairseq starts from the model's folder
        contents = {str(model_name_or_path): checkpoint_file}
        if not relative:
            contents[data_name_or_path] = "the dictionaries"
        # fairseq downloads these models, by name, and models from URLs.
        published = cls.hub_models()  # pyright: ignore[reportAttributeAccessIssue]
        for place, files in contents.items():
            if not ("://" in place or place in published or Path(place).exists()):
                raise FileNotFoundError(f"{place}: no such folder; pass the one with {files}")
        check_binarised(Path(model_name_or_path if relative else "", data_name_or_path))
        archive = published.get(model_name_or_path, model_name_or_path)
        folder = load_archive_file(archive["path"] if isinstance(archive, dict) else archive)
        if isinstance(archive, dict):
            checkpoint_file = archive.get("checkpoint_file", checkpoint_file)
        with checking([os.path.join(folder, file) for file in checkpoint_file.split(os.pathsep)]):
            return super().from_pretrained(  # pyright: ignore[reportAttributeAccessIssue]
                model_name_or_path, checkpoint_file, data_name_or_path, *args, **kwargs
            )

    @classmethod
    def check_options(cls, cfg, task):
        """Check that the task can train the model, then check the config and the labels.

        Raises:
            ValueError: the task cannot train the model; or as in :meth:`check_config` and
                :func:`.check_classes`.
        """
        check_kind(cfg._name, getattr(task.cfg, "_name", ""))
        if getattr(type(task), "load_dataset", None) is SentencePredictionTask.load_dataset:
            check_classes(task)
        cls.check_config(cfg)

    @classmethod
    def check_config(cls, cfg):
        """Check that a model can be built from the options; subclasses extend this method.

        Raises:
            ValueError: an option is unsupported or out of bounds; the message names the first such
                option and the remedy.
        """
        # fairseq's register_model sets the dataclass.
        configs = (vars(base).get("__dataclass") for base in cls.__mro__)
        validate(cfg, next(filter(None, configs)), cls.unsupported)

    @classmethod
    def limitation(cls, options: Mapping[str, Any]) -> str:
        """Return a sentence, without full stop, about what a model with some options lacks.

        The model trains with these options, but it lacks what defines its architecture. ``compare``
        prints the sentence with its plan and in its report. "" if the model lacks nothing.

        Args:
            options: options of the model, by their names on the command line.
        """
        return ""

    @classmethod
    def side_sizes(cls, sizes: Mapping[str, int], options: Mapping[str, Any]) -> dict[str, int]:
        """Return the options that give an encoder or a decoder the sizes of a Transformer.

        Args:
            sizes: some or all of ``embed_dim``, ``ffn_embed_dim`` (the inner width),
                ``attention_heads`` and ``layers``.
            options: the other options of the side.

        Returns:
            Values by name of the option without the side; the model may lack some of the options.
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
            if switch and item.default is not False:  # on, or an interpolation
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
