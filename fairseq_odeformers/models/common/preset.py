"""Architectures that are a registered model with other defaults."""

from argparse import Namespace

from fairseq.models import register_model_architecture


def register_preset(model: str, *names: str, **options):
    """Register names for a model whose *options* are these, unless the command line sets them."""

    def preset(args: Namespace):
        for option, value in options.items():
            setattr(args, option, getattr(args, option, value))

    for name in names:
        register_model_architecture(model, name)(preset)
