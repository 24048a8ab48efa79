"""Which part of the package may import which."""

import ast
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


def part(parts):
    """The part of the house that a module belongs to: a room, ``models/common``, or a folder."""
    return "/".join(parts[:2]) if parts[0] == "models" else parts[0]


def allowed(importer, imported):
    """
    Args:
        importer: the part that imports, such as ``models/transject``; or ``__init__.py``.
        imported: another part, such as ``modules``.
    """
    if importer == imported or importer in ("__init__.py", "models/__init__.py", "cli"):
        return True
    if imported in ("cli", "analysis", "benchmark", "compare", "corpora", "patches", "tasks"):
        return (importer, imported) == ("__main__.py", "cli")
    if importer == "options.py":
        return imported == "modules"
    if importer == "patches":
        return imported in ("files", "options")
    if importer in ("modules", "files.py"):
        return imported == "files"
    if importer.startswith("models/"):
        return imported in ("modules", "models/common", "options")
    return True


def test_parts_import_what_they_may():
    files = [path.relative_to(ROOT / PACKAGE) for path in (ROOT / PACKAGE).rglob("*.py")]
    refused = {
        (path.as_posix(), module)
        for path in files
        for module in imports(path)
        if not allowed(part(path.parts), part(module.split(".")))
    }
    assert not refused
