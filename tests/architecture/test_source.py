"""What the source never does: run text as code, read objects from bytes, move a state past its door."""

import ast
from pathlib import Path

from tests.architecture.sources import ROOT, dotted, place, product_modules, tracked_files, tree

FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "__import__",
    "os.system",
    "os.popen",
    "mark_safe",
    "yaml.load",
    "yaml.load_all",
    "yaml.unsafe_load",
    "yaml.full_load",
    "tempfile.mktemp",
}
FORBIDDEN_IMPORTS = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "jinja2", "xmlrpc", "pty"}
UNSAFE_LOADERS = {"yaml.Loader", "yaml.UnsafeLoader", "yaml.FullLoader", "yaml.CLoader"}
SHELL_ARGUMENT = "shell"

# Where the state of a row in memory follows what the door has already written.
STATE_MIRRORS = {
    "jobs/reconcile/record.py": "rows read before the transition are used again after it",
    "images/services/builds.py": "the second of two transitions of one request starts where the first ended",
    "images/services/catalogue.py": "a draft gets its first state before it is a row",
}
DOORS = {"platform/reconciling/transition.py"}


def product_calls():
    for path in product_modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call):
                yield path, node


# Asynchronous methods of querysets and models, and the wrapper of Channels.
ASYNCHRONOUS_QUERIES = frozenset(
    [
        "aget",
        "acreate",
        "aget_or_create",
        "aupdate_or_create",
        "abulk_create",
        "abulk_update",
        "acount",
        "aiterator",
        "alatest",
        "aearliest",
        "afirst",
        "alast",
        "aaggregate",
        "aexists",
        "aupdate",
        "adelete",
        "ain_bulk",
        "asave",
        "arefresh_from_db",
        "database_sync_to_async",
    ]
)
ENDS_WITH_ITS_REQUEST = ("platform/upstream/django.py", "platform/webapi/middleware.py")


def test_no_text_is_run_as_code_or_handed_to_a_shell():
    found = []
    for path, call in product_calls():
        name = dotted(call.func)
        if name in FORBIDDEN_CALLS or name.endswith(".mark_safe"):
            found.append(f"{place(path, call)} {name}")
        if any(word.arg == SHELL_ARGUMENT and not _is_false(word.value) for word in call.keywords):
            found.append(f"{place(path, call)} {name}(shell=...)")

    assert not found


def test_no_objects_are_read_from_bytes():
    found = []
    for path in product_modules():
        for node in ast.walk(tree(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            found += [f"{place(path, node)} {name}" for name in names if name.split(".")[0] in FORBIDDEN_IMPORTS]

    assert not found


def test_yaml_is_read_by_a_safe_loader_only():
    found = []
    for path in product_modules():
        for node in ast.walk(tree(path)):
            if (
                isinstance(node, ast.Attribute)
                and node.attr in {"Loader", "UnsafeLoader", "FullLoader", "CLoader"}
                and dotted(node).startswith("yaml.")
            ):
                found.append(place(path, node))

    assert not found


def test_no_state_is_assigned_outside_the_door():
    found = []
    for path in product_modules():
        name = str(path.relative_to(ROOT))
        if name in DOORS or name in STATE_MIRRORS or name.endswith("services/transition.py"):
            continue
        for node in ast.walk(tree(path)):
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, (ast.AugAssign, ast.AnnAssign))
                else []
            )
            for target in targets:
                if isinstance(target, ast.Attribute) and target.attr == "state" and dotted(target.value) != "self":
                    found.append(place(path, node))

    assert not found


def test_no_query_updates_a_state_outside_the_door():
    found = []
    for path, call in product_calls():
        name = str(path.relative_to(ROOT))
        if name in DOORS or name.endswith("services/transition.py") or not isinstance(call.func, ast.Attribute):
            continue
        if call.func.attr == "update" and any(word.arg == "state" for word in call.keywords):
            found.append(place(path, call))
        if call.func.attr in {"save", "bulk_update"}:
            texts = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant)]
            if "state" in texts:
                found.append(place(path, call))

    assert not found


def test_asynchronous_code_keeps_no_connection_of_the_database():
    """A thread that is bound to its request keeps what it was given of the pool: 17 open streams were all that there could be."""
    found = []
    for path, call in product_calls():
        name = str(path.relative_to(ROOT))
        word = dotted(call.func).rpartition(".")[2]
        is_bound = word == "sync_to_async" and not any(word.arg == "thread_sensitive" for word in call.keywords)
        if (is_bound and not name.startswith(ENDS_WITH_ITS_REQUEST)) or word in ASYNCHRONOUS_QUERIES:
            found.append(f"{place(path, call)}: {word}; use activity.threads.in_thread")

    assert not found


def test_no_model_hides_behaviour_in_save_or_in_a_signal():
    found = []
    for path in product_modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef) and path.name == "models.py":
                found += [
                    place(path, item)
                    for item in node.body
                    if isinstance(item, ast.FunctionDef) and item.name in {"save", "delete"}
                ]
            if isinstance(node, ast.ImportFrom) and node.module == "django.db.models.signals":
                names = {alias.name for alias in node.names} - {"post_migrate"}  # Fills a new installation; no row triggers it.
                found += [place(path, node)] if names else []

    assert not found


def test_nothing_is_left_for_later():
    words = ("TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK")
    found = []
    for path in tracked_files():
        if path.suffix in {".py", ".ts", ".tsx", ".sh"} or path.name == "Makefile":
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if any(f"{word}:" in line or f"# {word}" in line or f"// {word}" in line for word in words):
                    found.append(f"{path.relative_to(ROOT)}:{number}")

    assert not found


def test_modules_are_named_for_what_they_hold():
    vague = {"utils.py", "util.py", "helpers.py", "helper.py", "misc.py", "common.py"}

    assert not [str(path) for path in product_modules() if Path(path).name in vague]


def _targets(node):
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []


def _is_false(node):
    return isinstance(node, ast.Constant) and node.value is False
