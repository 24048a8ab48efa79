"""The options that the examples' recipes give, without their data."""

from dataclasses import fields

from odeformers.compare.experiment import Experiment
from odeformers.compare.recipe import read_parts
from odeformers.compare.variant import resolve_options
from odeformers.processes import Options

KNOWN = {field.name for field in fields(Experiment)}


def read_recipe(path, part=None) -> dict[str, Experiment]:
    """The experiments of a recipe by their parts, without looking for data."""
    experiments = {}
    for name, content in read_parts(path, part).items():
        content["architectures"] = {n: own or {} for n, own in content["architectures"].items()}
        kept = {key: value for key, value in content.items() if key in KNOWN}
        experiments[name] = Experiment(**kept)
    return experiments


def options_of(experiment: Experiment, name: str) -> Options:
    """The options of an architecture for fairseq-train, which finds this package itself."""
    options = resolve_options(experiment, name, experiment.architectures.get(name, {}))
    return {**options, "user-dir": None}
