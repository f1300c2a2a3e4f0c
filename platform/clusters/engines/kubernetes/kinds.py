"""The kinds of objects beside plain pods by name: every module beside this one that is called `kind_NAME` makes one as `KIND`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from clusters.engines.kubernetes.kind import Kind

_PREFIX = "kind_"


def _found() -> Mapping[str, Kind]:
    package = importlib.import_module(__name__.rpartition(".")[0])
    found = {}
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith(_PREFIX):
            kind: Kind = importlib.import_module(f"{package.__name__}.{module.name}").KIND
            assert kind.name == module.name.removeprefix(_PREFIX), f"{module.name} makes {kind.name}: file and kind have one name"
            found[kind.name] = kind
    return MappingProxyType(dict(sorted(found.items())))


KINDS = _found()
