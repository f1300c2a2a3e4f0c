"""Every private hook into a framework stands in `platform/upstream/`, with a page, a reason and a test."""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
from typing import Any

import pytest

from tests.architecture.sources import ROOT, dotted, has_test, place, product_modules, tree
from tools import upstream_page
from upstream.hooks import MODULES, Hook

HOOKS = [(name, hook) for name in MODULES for hook in importlib.import_module(f"upstream.{name}").HOOKS]
ROOM = ROOT / "platform" / "upstream"
PRODUCT = {
    "controlplane",
    "jobs",
    "images",
    "storage",
    "tenants",
    "clusters",
    "reconciling",
    "activity",
    "webapi",
    "upstream",
    "kernel",
}
LIBRARIES = {
    "django", "asgiref", "channels", "rest_framework", "drf_spectacular", "celery", "kombu", "uvicorn", "redis", "psycopg",
    "psycopg_pool", "unfold", "whitenoise", "structlog", "prometheus_client", "django_auth_ldap",
}  # fmt: skip
DOCUMENTED = {
    "_meta",
    "_default_manager",
    "_base_manager",
    "_asdict",
    "_fields",
    "_replace",
    "_exit",
}  # Public by their documentation.
ELSEWHERE = {
    "platform/clusters/engines/local/launching/rights.py _NamedFuncPointer": "ctypes: the type of a function, in an annotation",
    "platform/kernel/tar_members.py _proc_member": "tarfile: headers of members are bounded before they are read",
    "platform/webapi/console.py _StrOrPromise": "a type of Django's stubs, for the type checker alone",
    "tenants/capacity/console/limits.py _StrOrPromise": "a type of Django's stubs, for the type checker alone",
}


@pytest.mark.parametrize(("module", "hook"), HOOKS, ids=lambda given: given.upstream if isinstance(given, Hook) else given)
def test_the_library_still_has_what_is_hooked_into(module: str, hook: Hook) -> None:
    owner_name, _, name = hook.upstream.rpartition(".")
    owner = _find(owner_name)
    if hook.parameters:
        assert ", ".join(inspect.signature(getattr(owner, name)).parameters) == hook.parameters
    else:
        assert hasattr(owner, name) or f"self.{name} = " in inspect.getsource(owner)


@pytest.mark.parametrize(("module", "hook"), HOOKS, ids=lambda given: given.upstream if isinstance(given, Hook) else given)
def test_every_hook_has_its_place_its_reason_and_its_test(module: str, hook: Hook) -> None:
    assert _find(f"upstream.{module}.{hook.ours}") is not None
    assert hook.why.endswith(".")
    assert hook.gain
    assert has_test(hook.test), hook.test


def test_the_page_is_that_of_the_room() -> None:
    text = upstream_page.PAGE.read_text(encoding="utf-8")
    assert set(MODULES) == set(upstream_page.LIBRARIES)
    assert upstream_page.with_tables(text) == text, "run `python tools/upstream_page.py`"


def test_no_private_name_of_a_library_is_used_outside_the_room() -> None:
    ours = {name for path in product_modules() if not path.is_relative_to(ROOM) for name in _defined(tree(path))}
    found = []
    for path in product_modules():
        if path.is_relative_to(ROOM):
            continue
        for node, name in _private_names(tree(path)):
            if name not in ours | DOCUMENTED and f"{path.relative_to(ROOT)} {name}" not in ELSEWHERE:
                found.append(f"{place(path, node)} {name}")
    assert not found


def test_no_private_method_of_a_library_is_overridden_outside_the_list() -> None:
    listed = {hook.upstream.rpartition(".")[2] for _, hook in HOOKS}
    found = []
    for path in product_modules():
        if path.name == "ldap_backend.py" or not any(isinstance(node, ast.ClassDef) for node in tree(path).body):
            continue  # The extra `ldap` may not be installed; it overrides public methods alone.
        inside = path.is_relative_to(ROOM)
        for kind in _classes(path):
            for name in _overridden(kind):
                if not (inside and name in listed):
                    found.append(f"{path.relative_to(ROOT)} {kind.__name__}.{name}")
    assert not found


def test_what_is_allowed_elsewhere_is_still_there() -> None:
    texts = {entry: (ROOT / entry.split()[0]).read_text(encoding="utf-8") for entry in ELSEWHERE}
    assert not [entry for entry, text in texts.items() if entry.split()[1] not in text]


def _find(name: str) -> Any:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AssertionError(f"{name} cannot be imported")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def _defined(module: ast.Module) -> set[str]:
    """Names that a module of ours gives to functions, classes, attributes and variables."""
    found = set()
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and dotted(node.value) in {"self", "cls"}:
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def _private_names(module: ast.Module):
    """Private attributes of anything but `self`, and private names that are imported from others."""
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and dotted(node.value) not in {"self", "cls"}:
            yield node, node.attr
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] not in PRODUCT | {"__future__"}:
            yield from ((node, alias.name) for alias in node.names if _is_private(alias.name))


def _classes(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts[1:] if parts[0] == "platform" else parts).removesuffix(".__init__")
    module = importlib.import_module(name)
    return [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and not issubclass(kind, enum.Enum) and kind.__module__ == name
    ]


def _overridden(kind: type) -> list[str]:
    """Private methods of libraries that a class of ours has anew."""
    methods = [
        name for name, value in vars(kind).items() if _is_private(name) and (callable(value) or isinstance(value, property))
    ]
    bases = [base for base in kind.__mro__[1:] if base.__module__.split(".")[0] in LIBRARIES]
    return [name for name in methods if any(name in vars(base) for base in bases)]
