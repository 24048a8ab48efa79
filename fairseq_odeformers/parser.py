"""The parser of all commands, which asks in one line whether an option like a wrong one is meant.

It needs the standard library alone: ``odeformers/__main__.py`` loads this file without its package.
"""

import argparse
import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import NoReturn

DATA = "the binarised data, data-bin of odeformers prepare"
FIRST = {  # what the first argument of some commands has to be; predict needs no data for parity
    "translate": DATA,
    "compare": f"{DATA}, or a recipe in YAML",
    "report": "--out of odeformers compare",
}
# What argparse says of an option without a value, and what is said instead.
NO_VALUE = (
    "expected one argument",
    "no value follows; give one that does not begin with a hyphen",
)


class Parser(argparse.ArgumentParser):
    """A parser of a command, and of its subcommands."""

    def error(self, message: str) -> NoReturn:
        """End the program with the message alone, where argparse prints the usage before it.

        It asks whether an option like an unknown one is meant.
        """
        for word in message.partition("unrecognized arguments: ")[2].split():
            option = word.partition("=")[0]
            if meant := did_you_mean(option, self._option_string_actions):
                message += f"; {option}: {meant}"
            elif os.path.exists(word) and "--text" in self._option_string_actions:
                message += f"; did you mean --text {word}?"
        if re.search("arguments are required: [^-]", message):
            message += "; name it before the options"
        message = message.replace(*NO_VALUE)
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")

    def _check_value(self, action, value):
        """Ask whether a name like an unknown one is meant."""
        if action.choices and value not in action.choices:
            if "--from" in self._option_string_actions and os.path.exists(value):
                names = ", ".join(action.choices)
                fault = f"a path goes after --from; name {names}"
                raise argparse.ArgumentError(action, f"{value}: {fault}")
            check_choice(action, value)
        super()._check_value(action, value)

    def _parse_optional(self, arg_string):
        """Take a time such as -1m for a value, which the option before it refuses."""
        if re.fullmatch(r"-[\d.]+[a-z]", arg_string):
            return None
        return super()._parse_optional(arg_string)


def check_choice(action: argparse.Action, value: object) -> None:
    """Ask whether a choice like an unknown one is meant.

    Raises:
        ArgumentError: one is like it.
    """
    known = [*map(str, action.choices or ())]
    if str(value) not in known and (meant := did_you_mean(str(value), known)):
        raise argparse.ArgumentError(action, f"{value}: {meant}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The question whether similar names are meant; "" if no name is similar."""
    known = list(known)
    near = get_close_matches(name, known, 1, 0.9) or get_close_matches(name, known, cutoff=0.7)
    return f"did you mean {' or '.join(near)}?" if near else ""


def explain_missing(command: str, path: object) -> str:
    """The message for a first argument that is not there."""
    return f"{path}: no such file or folder; give {FIRST[command]}"
