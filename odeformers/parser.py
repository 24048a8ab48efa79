"""The parser of all commands, which asks in one line whether an option like a wrong one is meant.

It imports the plugin, and so fairseq and torch, only after a mistake.
"""

import argparse
import os
import re
from typing import NoReturn

DATA = "the binarised data, data-bin of odeformers prepare"
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
        from fairseq_odeformers.errors import did_you_mean

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
            from fairseq_odeformers.errors import check_choice

            check_choice(action, value)
        super()._check_value(action, value)

    def _parse_optional(self, arg_string):
        """Take a time such as -1m for a value, which the option before it refuses."""
        if re.fullmatch(r"-[\d.]+[a-z]", arg_string):
            return None
        return super()._parse_optional(arg_string)


def check_exists(path: str | os.PathLike, wanted: str) -> None:
    """
    Args:
        wanted: what the path has to lead to.

    Raises:
        FileNotFoundError: there is nothing.
    """
    if not os.path.lexists(path):
        raise FileNotFoundError(f"{path}: no such file or folder; give {wanted}")
