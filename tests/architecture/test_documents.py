"""The documents say what is true: links lead somewhere, commands exist, tables are those of the code."""

import ast
import json
import re
import subprocess
import sys
import tomllib

import pytest

from jobs.lifecycle.states import JOB_DRIVERS, JOB_LIFECYCLE
from jobs.spec.documents import parse_text
from jobs.spec.parse import parse_spec
from tests.architecture.sources import ROOT, place, product_modules, tracked_files, tree
from tools import lifecycle_page

DOCUMENTS = tuple(path for path in tracked_files() if path.suffix == ".md")
SOURCES = tuple(path for path in tracked_files() if path.suffix == ".py")
ENTRANCES = ("README.md", "README.zh.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs/README.md")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FILE_NAMED = re.compile(r"`((?:platform|tenants|jobs|images|storage|client|tools|tests|docs|examples|deploy|bench)/[\w./-]+)`")
MODULE_NAMED = re.compile(r"`([\w/]+\.py)`")
BERTH_COMMAND = re.compile(r"(?:^[ $]*|[`$|] ?)berth ((?!-)[a-z-]+)(?: ((?!-)[a-z-]+))?", re.MULTILINE)
BERTH_HINT = re.compile(r"(?:`|hint=f?\")berth ([a-z][a-z-]*)(?: ([a-z]+)(?![-\w{]))?")
MAKE_TARGET = re.compile(r"(?:`|^[ $]*)make ([a-z][a-z-]*)", re.MULTILINE)


def links(path):
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for match in LINK.finditer(text):
        yield match.group(1) or match.group(2)


def headings(path):
    """Anchors of a page, as code hosting sites make them."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    found = set(re.findall(r'<a id="([^"]+)"', text))
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
        found.add(plain.replace(" ", "-"))
    return found


def test_every_relative_link_leads_somewhere():
    broken = []
    for path in DOCUMENTS:
        for link in links(path):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = link.partition("#")
            file = (path.parent / target).resolve() if target else path
            if not file.exists() or (anchor and file.suffix == ".md" and anchor not in headings(file)):
                broken.append(f"{path.relative_to(ROOT)}: {link}")

    assert not broken


def test_every_file_that_is_named_exists():
    missing = []
    for path in (*DOCUMENTS, *SOURCES):
        for name in FILE_NAMED.findall(path.read_text(encoding="utf-8")):
            if not (ROOT / name.rstrip("./")).exists():
                missing.append(f"{path.relative_to(ROOT)}: {name}")

    assert not missing


def test_every_module_that_a_docstring_or_comment_names_exists():
    ours = [f"/{path.relative_to(ROOT).as_posix()}" for path in SOURCES]
    named = {(path, name) for path in SOURCES for name in MODULE_NAMED.findall(path.read_text(encoding="utf-8"))}

    assert not [f"{path.relative_to(ROOT)}: {name}" for path, name in named if not any(at.endswith(f"/{name}") for at in ours)]


@pytest.mark.parametrize("name", ENTRANCES)
def test_every_entrance_is_there(name):
    assert (ROOT / name).is_file()


def test_every_page_can_be_reached_from_the_list_of_pages():
    listed = {(ROOT / "docs" / link.partition("#")[0]).resolve() for link in links(ROOT / "docs" / "README.md")}
    pages = {path for path in DOCUMENTS if path.parent == ROOT / "docs"} - {ROOT / "docs" / "README.md"}
    decisions = {path for path in DOCUMENTS if path.parent == ROOT / "docs" / "adr"} - {ROOT / "docs" / "adr" / "README.md"}
    told = {(ROOT / "docs" / "adr" / link).resolve() for link in links(ROOT / "docs" / "adr" / "README.md")}

    assert not [path.name for path in pages - listed]
    assert not [path.name for path in decisions - told]


def test_every_make_target_that_is_named_exists():
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {(path.name, name) for path in DOCUMENTS for name in MAKE_TARGET.findall(path.read_text(encoding="utf-8"))}

    assert not sorted((file, name) for file, name in named if name not in targets)


def test_every_command_of_berth_that_is_named_exists():
    assert not list(commands_that_are_wrong(DOCUMENTS, BERTH_COMMAND))


def test_every_command_of_berth_that_a_hint_names_is_one_that_the_help_shows():
    sources = [path for path in tracked_files() if path.suffix == ".py" and not path.is_relative_to(ROOT / "tests")]
    assert not list(commands_that_are_wrong(sources, BERTH_HINT, with_hidden=False))


def commands_that_are_wrong(paths, pattern, *, with_hidden=True):
    import typer

    from berth.cli.root import COMMANDS, load_command

    groups = {}
    for name, entry in COMMANDS.items():
        if with_hidden or not entry.hidden:
            command = load_command(name, entry)
            groups[name] = set(command.commands) if isinstance(command, typer.core.TyperGroup) else None
    for path in paths:
        for command, action in pattern.findall(path.read_text(encoding="utf-8")):
            if command not in groups:
                yield f"{path.relative_to(ROOT)}: berth {command}"
            elif groups[command] is not None and action and action not in groups[command]:
                yield f"{path.relative_to(ROOT)}: berth {command} {action}"


def job_files():
    """All YAML of the documents that is a job, or a piece of one, which gets a command."""
    for path in DOCUMENTS:
        for number, block in enumerate(
            re.findall(r"^```yaml\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        ):
            document = parse_text(block)
            piece = {} if {"roles", "command"} & set(document) else {"command": "true"}
            yield pytest.param(document | piece, id=f"{path.name}-{number}")


@pytest.mark.parametrize("document", tuple(job_files()))
def test_every_job_file_that_is_shown_is_a_job(document):
    assert parse_spec(document).roles


def test_every_edge_of_a_jobs_life_is_in_the_page_with_who_drives_it():
    text = lifecycle_page.PAGE.read_text(encoding="utf-8")
    edges = {(old, new) for old, targets in JOB_LIFECYCLE.edges.items() for new in targets}

    assert lifecycle_page.with_tables(text) == text, "run `python tools/lifecycle_page.py`"
    assert {(str(old), str(new)) for old, new in JOB_DRIVERS} == edges


@pytest.mark.parametrize(("file", "document"), [("pyproject.toml", "server"), ("client/pyproject.toml", "client")])
def test_every_dependency_has_its_reason(file, document):
    project = tomllib.loads((ROOT / file).read_text(encoding="utf-8"))
    lines = list(project["project"]["dependencies"])
    for group in [*project.get("dependency-groups", {}).values(), *project["project"].get("optional-dependencies", {}).values()]:
        lines += group
    wanted = {re.match(r"[A-Za-z0-9._-]+", line).group().lower() for line in lines}
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    told = _told(sections, (document, "extras", "development") if document == "server" else (document,))

    assert told == wanted, f"docs/dependencies.md, {document}: {sorted(told ^ wanted)}"


def test_every_package_of_the_portal_has_its_reason_and_one_version():
    manifest = json.loads((ROOT / "frontend" / "package.json").read_text(encoding="utf-8"))
    packages = manifest["dependencies"] | manifest["devDependencies"]
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")

    assert _told(re.split(r"^## ", page, flags=re.MULTILINE), ("portal",)) == set(packages)
    assert not {name: version for name, version in packages.items() if not re.fullmatch(r"\d+\.\d+\.\d+", version)}


def test_the_portal_s_lock_names_no_host():
    lock = (ROOT / "frontend" / "package-lock.json").read_text(encoding="utf-8")

    assert '"resolved"' not in lock
    assert len(re.findall(r'"integrity"', lock)) > 100


def _told(sections, headings):
    return {
        name.lower()
        for section in sections
        if section.lower().startswith(headings)
        for row in re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", row)
    }


def test_the_tools_for_pages_run_by_themselves(tmp_path):
    for name in ("lifecycle_page.py", "capabilities.py"):
        command = [sys.executable, "-c", f"import runpy; runpy.run_path({str(ROOT / 'tools' / name)!r}, run_name='checked')"]

        assert subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60).returncode == 0


OF_LIBRARIES = {"jax/_src/distributed.py"}  # Files of others that docstrings name.


def test_python_files_that_docstrings_name_are_there() -> None:
    """By any end of their path, such as `rebalance.py`: a file that was renamed is renamed in words, too."""
    ends = {
        "/".join(parts[start:])
        for path in tracked_files()
        if path.suffix == ".py"
        for parts in [path.relative_to(ROOT).parts]
        for start in range(len(parts))
    }
    named, lost = 0, []
    for path in product_modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                for name in re.findall(r"`([\w./-]+\.py)`", node.value.value):
                    named += 1
                    lost += [] if name in ends | OF_LIBRARIES else [f"{place(path, node)} {name}"]
    assert named > 50
    assert lost == []
