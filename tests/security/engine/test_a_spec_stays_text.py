"""Whatever a tenant writes, the launcher gets words composed by us: no option, path or command is made of a user's text."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.engines.interface import HostDir, ImageKind, ImageRef, MountRef, TaskName, TaskWorkload, Workload
from clusters.engines.local import plan, sandbox
from clusters.engines.local.config import LocalEngineConfig
from clusters.engines.local.launching.verbs import StartMount
from clusters.engines.local.leases import Lease
from kernel.resources import Resources

# Text that was code somewhere: shells, template engines, expression languages, formats, SQL, paths, terminals.
CORPUS = [
    "$(touch planted)", "`touch planted`", "; touch planted;", "| touch planted", "&& touch planted", "\ntouch planted\n",
    "'; touch planted; '", '"; touch planted; "', "'\"'\"'", "\\'; touch planted", "$IFS", "${PATH}", "${x:-$(touch planted)}",
    "!!", "~root", "*", "?", "[a-z]*", "{a,b}", ">planted", "<(touch planted)", "#", "--", "-rf", "%s%n", "%00",
    "{{7*7}}", "{{ ''.__class__.__mro__[1].__subclasses__() }}", "${7*7}", "#{7*7}", "<%= 7*7 %>", "{% raw %}", "{0.__class__}",
    "{0}", "%(name)s", "@{7*7}", "*{7*7}", "${{secrets.TOKEN}}", "{{workflow.parameters.x}}", "__import__('os').system('id')",
    "eval(1)", "' OR 1=1--", "../../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "..\\..\\x", "\u202e", "\x1b[2J",
    "\x1b]0;x\x07",
    "\r\nX: y", "\\x00", "\ufeff", "\u2028", "ﾟ" * 10, "a" * 5_000, "=cmd|' /C calc'!A0", "<script>alert(1)</script>",
    "LD_PRELOAD=/tmp/x", "BERTH_WORKDIR=/etc", "exec sh", "EXIT", "trap - EXIT", "\\", "'", '"', " ", "\t", "",
]  # fmt: skip
ANY_TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=60)
TEXT = st.one_of(st.sampled_from(CORPUS), ANY_TEXT)
CROOKED = ["/etc/../etc/passwd", "/data/../../etc", "//etc", "/proc/1/root", "/dev/mem", "/berth/work/../x", "/"]
NAME = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)

# How many words follow each option of the sandbox's command line. Nothing else may stand there.
ARITY = {
    "--ro-bind": 2, "--ro-bind-try": 2, "--bind": 2, "--dev-bind-try": 2, "--symlink": 2, "--proc": 1, "--dev": 1, "--perms": 1,
    "--size": 1, "--tmpfs": 1, "--dir": 1, "--unshare-pid": 0, "--unshare-ipc": 0, "--unshare-uts": 0, "--unshare-cgroup-try": 0,
    "--unshare-net": 0, "--remount-ro": 1, "--seccomp": 1,
}  # fmt: skip


def config(root: Path) -> LocalEngineConfig:
    return LocalEngineConfig(root=str(root), node="here", drop_rights=True)


def workload(argv: list[str], env: dict[str, str], secret_env: dict[str, str] | None = None, **facts: object) -> Workload:
    task = TaskWorkload(
        TaskName("worker", 0),
        tuple((word,) for word in argv),
        {name: (value,) for name, value in env.items()},
        secret_env=secret_env or {},
        resources=Resources(1_000, 1 << 20),
    )
    words = {"name": "x", "labels": {}, "mounts": (), **facts}
    return Workload(
        uuid.UUID(int=3), uuid.UUID(int=2), 1, str(words["name"]), "key", 12, "user", words["labels"],  # type: ignore[arg-type]
        ImageRef(ImageKind.HOST, ""), (task,), mounts=words["mounts"],  # type: ignore[arg-type]
    )  # fmt: skip


def planned(work: Workload, root: Path) -> object:
    return plan.plan(work, Lease(str(root), 0.0), config(root), sandboxed=True, simulated=False, devices={})


def test_every_value_reaches_the_program_as_it_was_written(tmp_path: Path) -> None:
    """The script that precedes the program is run by a real shell; what arrives is compared with what was meant."""
    values = {f"V{place}": text for place, text in enumerate(CORPUS)}
    show = "import json, os, sys; print(json.dumps([sys.argv[1:], {k: v for k, v in os.environ.items() if k[0] in 'VS'}]))"
    work = workload([sys.executable, "-c", show, *CORPUS], values, {"SECRET_ONE": "'$(touch planted)'"})
    started = planned(work, tmp_path)
    (task,) = started.tasks  # type: ignore[attr-defined]
    script = task.script.replace(sandbox.WORK, str(tmp_path))
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *task.argv], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True, env={}
    )
    arguments, environment = json.loads(done.stdout)

    assert arguments == CORPUS
    assert {name: environment[name] for name in values} == values
    assert environment["SECRET_ONE"] == "'$(touch planted)'"
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=150, deadline=None)
@given(name=TEXT, labels=st.dictionaries(TEXT, TEXT, max_size=4), argv=st.lists(TEXT, min_size=1, max_size=4), value=TEXT)
def test_no_path_and_no_name_of_the_engine_is_made_of_a_users_text(
    name: str, labels: dict[str, str], argv: list[str], value: str
) -> None:
    root = Path("/srv/engine")
    started = planned(workload(argv, {"KEY": value}, name=name, labels=labels), root)

    assert started.root == str(root)  # type: ignore[attr-defined]
    assert started.attempt_id == str(uuid.UUID(int=3))  # type: ignore[attr-defined]
    assert (started.owner.uid, started.owner.gid) == (200_012, 200_012)  # type: ignore[attr-defined]
    (task,) = started.tasks  # type: ignore[attr-defined]
    assert task.name == "worker-0"
    assert list(task.argv) == argv
    assert task.devices == ()
    assert started.code == started.image == ""  # type: ignore[attr-defined]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(TEXT.map(lambda text: text if text.startswith("/") else f"/{text}"), st.booleans()), max_size=4))
def test_a_mount_gives_the_sandbox_an_argument_and_never_an_option(wanted: list[tuple[str, bool]]) -> None:
    targets = [target for target, _ in wanted]
    mounts = tuple(
        StartMount(f"/srv/volumes/{place}", target, read_only)
        for place, (target, read_only) in enumerate(wanted)
        if not sandbox.refuse_target(target, targets)
    )
    view = sandbox.View(work="/srv/w", home="/srv/h", temporary="/srv/t", mounts=mounts)
    words = sandbox.command("bwrap", view)[1:]
    assert words.pop() == "--"
    sources, place = [], 0
    while place < len(words):
        option = words[place]
        assert option in ARITY, option
        if option in {"--bind", "--ro-bind", "--dev-bind-try"}:
            sources.append((words[place + 1], words[place + 2]))
        place += 1 + ARITY[option]
    assert place == len(words)
    own = {"/srv/w", "/srv/h", "/srv/t"}
    hidden = {("/dev/null", "/proc/keys"), ("/dev/null", "/proc/key-users")}
    sources = [bind for bind in sources if bind not in hidden]
    system = {source for source, target in sources if source == target}
    assert {source for source, _ in sources} - own - system == {mount.source for mount in mounts}
    assert all(source.startswith(("/usr", "/bin", "/sbin", "/lib", "/etc", "/opt", "/sys", "/nix")) for source in system)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.one_of(NAME, TEXT), TEXT, max_size=6))
def test_a_variable_with_a_name_that_a_shell_would_read_otherwise_is_refused(env: dict[str, str]) -> None:
    refusal = plan.refuse(workload(["true"], env), config(Path("/srv/engine")), sandboxed=True)
    is_plain = all(name.isascii() and name.isidentifier() for name in env)

    assert (refusal is None) == is_plain


@pytest.mark.parametrize("target", CROOKED)
def test_a_mount_over_the_system_never_starts(target: str) -> None:
    mounted = (MountRef(uuid.UUID(int=9), HostDir("/srv/volumes/v"), target, read_only=True, group=1),)
    refusal = plan.refuse(workload(["true"], {}, mounts=mounted), config(Path("/srv/engine")), sandboxed=True)

    assert refusal is not None
    assert refusal.code == "mount_target_refused"
