"""Architectures that are a registered model with other defaults."""

from argparse import Namespace

from fairseq.models import register_model_architecture

from fairseq_odeformers.options import register_preset_config


def register_preset(model: str, *names: str, **options) -> None:
    """Register names for a model whose *options* are these, unless the command line sets them.

    fairseq's command line applies what it registers. Hydra's configurations and checkpoints do not,
    and find the config of the name.
    """

    def preset(args: Namespace) -> None:
        for option, value in options.items():
            setattr(args, option, getattr(args, option, value))

    for name in names:
        register_model_architecture(model, name)(preset)
        register_preset_config(name, model)
