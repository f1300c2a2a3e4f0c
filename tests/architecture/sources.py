"""The project's own files, for tests that read them."""

from __future__ import annotations

import ast
import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT_FOLDERS = ("platform", "tenants", "images", "storage", "jobs")


@functools.cache
def tracked_files() -> tuple[Path, ...]:
    """All files that belong to the project, including those not committed yet; without those that git ignores."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    return tuple(ROOT / name for name in names if name and (ROOT / name).is_file())


@functools.cache
def product_modules() -> tuple[Path, ...]:
    """Python files of the server, without migrations."""
    found = [path for folder in PRODUCT_FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return tuple(path for path in found if "migrations" not in path.parts)


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@functools.cache
def _tests_of(path: Path) -> frozenset[str]:
    functions = (node for node in ast.walk(tree(path)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def has_test(name: str) -> bool:
    """Whether a test of this name is there, as `unit/jobs_spec/test_parse.py::test_x` below `tests/`."""
    file, _, test = name.partition("::")
    return (ROOT / "tests" / file).is_file() and test in _tests_of(ROOT / "tests" / file)


def place(path: Path, node: ast.AST) -> str:
    """`jobs/services/submit.py:12`, for messages."""
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def dotted(node: ast.AST) -> str:
    """`os.system` for the expression of that name; empty for anything that is no name."""
    if isinstance(node, ast.Attribute):
        left = dotted(node.value)
        return f"{left}.{node.attr}" if left else node.attr
    return node.id if isinstance(node, ast.Name) else ""
