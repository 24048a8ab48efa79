"""The parser of all commands, with errors in one line that suggest similar options.

It imports the plugin, and thus fairseq and torch, only after a mistake.
"""

import argparse
import os
import re
from typing import NoReturn

DATA = "the binarised data, data-bin of odeformers prepare"
# argparse's message about an option without a value, and the replacement.
NO_VALUE = (
    "expected one argument",
    "no value follows; give one that does not begin with a hyphen",
)


class Parser(argparse.ArgumentParser):
    """A parser of a command, and of its subcommands."""

    def parse_args(self, args=None, namespace=None):
        """Parse all arguments; the parser of the subcommand reports unknown ones."""
        namespace, others = self.parse_known_args(args, namespace)
        parser = self
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                parser = action.choices.get(getattr(namespace, action.dest), self)
        if others:
            parser.error(f"unrecognized arguments: {' '.join(others)}")
        return namespace

    def error(self, message: str) -> NoReturn:
        """End the program with a message, without the usage that argparse prints before it.

        The message suggests similar options for an unknown option.
        """
        from fairseq_odeformers.errors import did_you_mean

        for word in message.partition("unrecognized arguments: ")[2].split():
            option = word.partition("=")[0]
            if suggestion := did_you_mean(option, self._option_string_actions):
                message += f"; {option}: {suggestion}"
            elif os.path.exists(word) and "--text" in self._option_string_actions:
                message += f"; did you mean --text {word}?"
        if missing := re.search("arguments are required: ([^-,][^,]*)", message):
            message += "; name it before the options"
            for action in self._actions:
                if action.choices and action.help and missing[1] in (action.metavar, action.dest):
                    message += f": {action.help}"
        message = message.replace(*NO_VALUE)
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")

    def _check_value(self, action, value):
        """Check a choice, and suggest similar names for an unknown one."""
        if action.choices and value not in action.choices:
            if "--from" in self._option_string_actions and os.path.exists(value):
                names = ", ".join(action.choices)
                fault = f"a path goes after --from; name {names}"
                raise argparse.ArgumentError(action, f"{value}: {fault}")
            from fairseq_odeformers.options import check_choice

            check_choice(self, action, value)

    def _parse_optional(self, arg_string):
        """Treat a time such as -1m as a value, so that the option before it can report an error."""
        if re.fullmatch(r"-[\d.]+[a-z]", arg_string):
            return None
        return super()._parse_optional(arg_string)


def check_exists(path: str | os.PathLike, wanted: str) -> None:
    """Check that a path exists.

    Args:
        wanted: description of the file or folder that the path should lead to.

    Raises:
        FileNotFoundError: the path does not exist.
    """
    if not os.path.lexists(path):
        raise FileNotFoundError(f"{path}: no such file or folder; give {wanted}")
