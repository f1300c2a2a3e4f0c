"""No module imports itself by way of others, and no folder does but those that ARCHITECTURE.md names."""

from __future__ import annotations

import graphlib
from functools import cache

import grimp

from tests.architecture.sources import ROOT

APPS = (
    *("controlplane", "jobs", "images", "storage", "tenants"),
    *("clusters", "reconciling", "activity", "webapi", "upstream", "kernel"),
)
# Folders that import the folder in which they lie, which imports them: they count as one.
ONE_WITH_ITS_FOLDER = {
    "activity.notifications.channels": "activity.notifications",
    "clusters.engines.local.containers": "clusters.engines.local",
    "clusters.engines.local.launching": "clusters.engines.local",
}

Graph = dict[str, set[str]]


@cache
def _modules() -> Graph:
    graph = grimp.build_graph(*APPS, exclude_type_checking_imports=True, cache_dir=None)
    files = {module for module in graph.modules if ".migrations" not in module}
    return {module: graph.find_modules_directly_imported_by(module) & files for module in files}


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert _circle(_modules()) == []


def test_no_folder_imports_itself_by_way_of_others() -> None:
    """A file beside an app's folders stands for itself: `models.py` lies below them, `wiring.py` above."""
    folders: Graph = {}
    for module, imported in _modules().items():
        here = _folder(module)
        folders.setdefault(here, set()).update(there for there in map(_folder, imported) if there != here)
    assert _circle(folders) == []


def test_folders_that_count_as_one_with_their_own_are_named_to_the_reader() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for folder in ONE_WITH_ITS_FOLDER:
        assert f"`platform/{folder.replace('.', '/')}/`" in text, f"{folder} is not named in ARCHITECTURE.md"


def _folder(module: str) -> str:
    is_folder = module in APPS or any(other.startswith(f"{module}.") for other in _modules())
    parent = module if is_folder else module.rpartition(".")[0]
    return ONE_WITH_ITS_FOLDER.get(parent, module if parent in APPS else parent)


def _circle(graph: Graph) -> list[str]:
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []
