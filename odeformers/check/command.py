"""The command ``odeformers check``: tests of an architecture before training."""

import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_odeformers.errors import InputError, explain, naming_faults
from fairseq_odeformers.inference.untrained import choose_kind
from odeformers.parser import Parser, add_user_dir

from .location import innermost_module
from .properties import DECISIVE, PROPERTIES, Broken, Property, Skipped
from .subject import Subject


class Result(NamedTuple):
    """The result of testing a property."""

    name: str
    shown: str = ""  # the difference, or the reason why it was not measured
    fault: str | None = ""  # "" if the model has the property, None if that is unknown

    def __str__(self) -> str:
        mark = "skip" if self.fault is None else "FAIL" if self.fault else "pass"
        return f"{mark}  {self.name:54}  {self.shown}".rstrip()


def judge(subject: Subject, prop: Property) -> Result:
    """Test whether a subject has a property; an error in the model means that it does not."""
    try:
        difference = prop.measure(subject)
    except Skipped as skipped:
        return Result(prop.name, str(skipped), fault=None)
    except Broken as broken:
        origin = broken.locate()
        first = origin and f", first from {origin}"
        return Result(prop.name, fault=f"{broken}{first}: {prop.advice}")
    except Exception as error:
        module = innermost_module(error)
        inside = module and f", in {module}"
        return Result(prop.name, fault=f"{explain(error)}{inside}")
    shown = f"{difference:.1e}" if difference else "0"
    return Result(prop.name, shown, "" if difference <= prop.bound else prop.advice)


def check(arch: str, *words: str, task: str | None = None, slow: bool = False) -> Iterator[Result]:
    """Test an architecture and yield the results.

    A property is not tested if it depends on another one that the architecture lacks.

    Args:
        words: options of ``fairseq-train``.
        slow: whether to judge slow properties as well.

    Raises:
        InputError: the architecture or an option does not exist, a value is invalid, the task does
            not train the architecture, or the options of a plugin raise an error.
    """
    with naming_faults(arch, "cannot be checked"):
        subject = Subject(arch, choose_kind(arch, task), *words)
    try:
        size = sum(parameter.numel() for parameter in subject.model.parameters())
        builds = Result("the model can be built", f"{size:,} parameters")
    except Exception as error:
        options = {word.partition("=")[0] for word in words}
        named = re.findall(r"--[\w-]+", str(error))
        if isinstance(error, ValueError) and options.intersection(named):
            raise InputError(f"{arch} {error}") from error
        builds = Result("the model can be built", fault=explain(error))

    def judge_all() -> Iterator[Result]:
        yield builds
        lacking = [builds.name] if builds.fault else []
        properties = [p for p in PROPERTIES if subject.kind in p.kinds and (slow or not p.slow)]
        for prop in properties:
            needed = (builds.name, *DECISIVE, *prop.prerequisites)
            if prerequisite := next((name for name in lacking if name in needed), None):
                yield Result(prop.name, f"not tested: {prerequisite!r} must pass first", fault=None)
                continue
            result = judge(subject, prop)
            yield result
            if result.fault:
                lacking.append(prop.name)

    return judge_all()


def require(arch: str, *words: str, task: str | None = None) -> None:
    """Check an architecture before it is trained.

    Raises:
        InputError: the architecture lacks a property.
    """
    faults = [result for result in check(arch, *words, task=task) if result.fault]
    if faults:
        raise InputError(
            f"{arch} fails {len(faults)} of the checks, first {faults[0].name!r}: "
            f"{faults[0].fault}. odeformers check prints all; --no-check trains it anyway"
        )


def main(arguments: Sequence[str]) -> None:
    parser = Parser(
        prog="odeformers check",
        usage="%(prog)s [--user-dir DIR] [--task TASK] [ARCH ...] [options of fairseq-train]",
        description="Check that each ARCH, an architecture as for --arch, decodes causally and "
        "handles caches, padding, gradients, half precision and checkpoints correctly, and can be "
        "exported. It is built in a small size; options of fairseq-train may change this. Without "
        "an ARCH, all architectures from --user-dir are checked. The exit status is 1 if a check "
        "fails.",
    )
    parser.add_argument(
        "--task",
        help="a task of the kind to check, for an ARCH of several kinds (default: the first task "
        "that trains ARCH)",
    )
    add_user_dir(parser)
    earlier = {*ARCH_MODEL_REGISTRY}
    args, others = parser.parse_known_args(arguments)
    archs = [*takewhile(lambda word: not word.startswith("-"), others)]
    words = others[len(archs) :]
    archs = archs or [arch for arch in ARCH_MODEL_REGISTRY if arch not in earlier]
    if not archs and args.user_dir:
        parser.error(
            f"--user-dir {' '.join(args.user_dir)} registers no architecture; its __init__.py must "
            "import the files that do"
        )
    if not archs:
        parser.error("name an ARCH before other options, or pass a --user-dir that registers some")
    for arch in archs:
        choose_kind(arch, args.task)  # raises an error for a wrong name before the first check
    warnings.simplefilter("ignore")  # torch warns about fairseq's layers
    passed = True
    for arch in archs:
        results = check(arch, *words, task=args.task, slow=True)
        print(arch)
        for result in results:
            print(f"  {result}", flush=True)
            if result.fault:
                print(f"        {result.fault}")
                passed = False
    if not passed:
        sys.exit(1)
