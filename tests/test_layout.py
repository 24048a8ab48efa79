"""The parts of the package import only parts that they may import."""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "fairseq_odeformers"


def imports(path):
    """The modules of the package that a file of it imports, without the package's name."""
    folder = [PACKAGE, *path.parts[:-1]]
    for node in ast.walk(ast.parse((ROOT / PACKAGE / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = folder[: len(folder) + 1 - node.level] if node.level else []
            module = ".".join([*parents, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
            names = [module if not is_module(name) else name for name in names]
        else:
            continue
        for name in names:
            if name.startswith(f"{PACKAGE}."):
                yield name[len(PACKAGE) + 1 :]


def is_module(name):
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


# From the top floor down. A part imports only from floors below it, and so no paper's models from
# another paper's. Files of the ground floor may import each other.
FOLDERS = [path.parent.name for path in (ROOT / PACKAGE / "models").glob("*/__init__.py")]
PAPERS = [name for name in FOLDERS if name != "common"]
GROUND = ("registry", "options", "files", "errors")
FLOORS = (
    ("inference",),
    ("tasks", "criterions"),
    ("patches", *(f"models/{paper}" for paper in PAPERS)),
    ("models", "models/common"),
    ("checkpoints",),
    ("data", "modules", "text"),
    GROUND,
)
FLOOR = {part: floor for floor, parts in enumerate(FLOORS) for part in parts}


def part(parts):
    """The part that a module belongs to: a folder, ``models/common``, or a file."""
    return "/".join(parts[:2]).removesuffix("/__init__") if parts[0] == "models" else parts[0]


def allowed(importer, imported):
    """
    Args:
        importer: the part that imports, such as ``models/transject``.
        imported: another one, such as ``modules``.
    """
    return (
        importer == imported
        or FLOOR[importer] < FLOOR[imported]
        or {importer, imported} <= {*GROUND}
    )


def test_parts_import_only_allowed_parts():
    files = [path.relative_to(ROOT / PACKAGE) for path in (ROOT / PACKAGE).glob("*/**/*.py")]
    files += [Path(f"{name}.py") for name in GROUND]
    refused = {
        (path.as_posix(), module)
        for path in files
        for module in imports(path)
        if not allowed(part(path.with_suffix("").parts), part(module.split(".")))
    }
    assert not refused


def test_the_plugin_does_not_import_the_command():
    for path in (ROOT / PACKAGE).rglob("*.py"):
        assert not re.search(r"^\s*(from|import) odeformers\b", path.read_text("utf-8"), re.M), path


def test_importing_the_command_imports_neither_torch_nor_fairseq():
    code = "import sys, odeformers; print({'torch', 'fairseq', 'numpy'} & {*sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
