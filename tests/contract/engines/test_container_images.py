"""Container images on the local engine: from a real registry, unpacked once, read-only, meaning what they mean elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clusters.engines.interface import (
    Ensured,
    GiveUp,
    HostDir,
    ImageKind,
    ImageRef,
    MountRef,
    PullAccount,
    Retry,
    TaskName,
    Workload,
)
from clusters.engines.local.launching import DirectLauncher
from clusters.registries.rules import Rules
from kernel.ids import new_id
from tests.builders.registry import PASSWORD, USER, Member, RealRegistry, folder, registry, shell, symlink
from tests.contract.engines.bench import Behaviour, Bench, end_everything, local_bench, policy_of
from tests.contract.engines.test_local_engine import shell as command

pytestmark = pytest.mark.engines

FIRST = TaskName("worker", 0)


@pytest.fixture(scope="module")
def closed() -> Iterator[RealRegistry]:
    with registry(password=PASSWORD) as found:
        yield found


@pytest.fixture
def local(engine_dir: Path, closed: RealRegistry) -> Iterator[Bench]:
    launcher = DirectLauncher(policy_of(engine_dir))
    bench = local_bench("local", engine_dir, launcher, registries=Rules(plain_hosts=frozenset({closed.host})))
    yield bench
    end_everything(engine_dir, launcher)


def image(closed: RealRegistry, name: str, digest: str = "", **more: object) -> ImageRef:
    pinned = f"{closed.host}/{name}" + (f"@{digest}" if digest else "")
    pull = PullAccount(closed.host, USER, PASSWORD)
    return ImageRef(ImageKind.REGISTRY, digest, pinned, pull, **more)  # type: ignore[arg-type]


def ensured(bench: Bench, workload: Workload) -> Ensured | GiveUp | Retry:
    """The engine's answer once it no longer says that the image is being pulled."""
    answers: list[Ensured | GiveUp | Retry] = []

    def settled() -> bool:
        answers[:] = bench.engine.ensure([workload])  # type: ignore[arg-type]
        return not (isinstance(answers[0], Retry) and answers[0].code == "image_pulling")

    bench.wait_until(settled, "the pull")
    return answers[0]


def output(bench: Bench, workload: Workload) -> str:
    answer = ensured(bench, workload)
    assert isinstance(answer, Ensured), answer
    bench.wait_for_end(workload.attempt_id)
    return bench.read_all(workload.attempt_id, FIRST).decode()


def in_image(bench: Bench, found: ImageRef, behaviour: Behaviour, **options: object) -> Workload:
    return replace(bench.workload(behaviour, **options), image=found)  # type: ignore[arg-type]


def test_a_task_sees_the_image_as_its_root_and_cannot_change_it(local: Bench, closed: RealRegistry) -> None:
    digest = closed.push("team/app:1", [[*shell(), Member("made-here", b"yes\n")]], env=["PATH=/bin", "LEVEL=3", "BOTH=image"])
    show = command("cat /made-here; echo $LEVEL $BOTH; touch /new || echo closed; ls /; touch /tmp/t ok && ls; pwd; id -u")
    workload = in_image(local, image(closed, "team/app:1", digest), show, env={"BOTH": ("job",)})
    said = output(local, workload)
    assert said.startswith("yes\n3 job\nclosed\n"), said
    assert "usr" not in said.split(), "nothing of the host's system"
    assert said.endswith(f"ok\n/berth/work\n{200_001 if os.geteuid() == 0 else os.geteuid()}\n"), said


def test_a_tasks_user_has_a_line_among_those_of_the_image(local: Bench, closed: RealRegistry) -> None:
    """One image has a passwd file, the other one none."""
    uid = 200_001 if os.geteuid() == 0 else os.geteuid()
    own = f"berth-tenant-1:x:{uid}:{uid if os.geteuid() == 0 else os.getegid()}::/berth/home:/bin/sh\n"
    show = command('[ "$USER" = "$LOGNAME" ] && echo "$USER" && cat /etc/passwd; echo x >>/etc/passwd || echo closed')
    for name, members, lines in (
        ("with", [folder("etc"), Member("etc/passwd", b"app:x:7:7::/app:/bin/app")], "app:x:7:7::/app:/bin/app\n"),
        ("without", [], ""),
        ("through-a-link", [folder("etc"), symlink("etc/passwd", "/etc/hosts")], None),
    ):
        digest = closed.push(f"team/{name}:1", [[*shell(), *members]], env=["USER=app"])
        said = output(local, in_image(local, image(closed, f"team/{name}:1", digest), show))
        if lines is not None:
            assert said == f"berth-tenant-1\n{lines}{own}closed\n", name
        else:
            assert said.startswith("berth-tenant-1\n"), name
            assert own not in said, "nothing is mounted where a link leads elsewhere"


def test_layers_by_zstd_are_unpacked_as_others_are(local: Bench, closed: RealRegistry) -> None:
    layers = [[*shell(), Member("one", b"1\n")], [Member("two", b"2\n")]]
    digest = closed.push("team/zstd:1", layers, compression="zstd")
    assert output(local, in_image(local, image(closed, "team/zstd:1", digest), command("cat /one /two"))) == "1\n2\n"


def test_an_image_in_which_an_attempt_runs_is_in_use(local: Bench, closed: RealRegistry) -> None:
    """Else it would be removed below the attempt, where there is no room."""
    digest = closed.push("team/used:1", [shell()])
    workload = in_image(local, image(closed, "team/used:1", digest), command("sleep 60"))
    assert isinstance(ensured(local, workload), Ensured)
    assert digest in local.engine._images_in_use()  # type: ignore[attr-defined]


def test_an_image_is_unpacked_once_for_all_that_name_its_digest(local: Bench, closed: RealRegistry, engine_dir: Path) -> None:
    digest = closed.push("team/once:1", [shell()])
    output(local, in_image(local, image(closed, "team/once:1", digest), command("true")))
    trees = engine_dir / "engine/here/images/trees"
    (tree,) = trees.iterdir()
    before = tree.stat().st_ino
    closed.stop()
    try:
        output(local, in_image(local, image(closed, "team/once:1", digest), command("true")))
    finally:
        closed.start()
    assert [item.stat().st_ino for item in trees.iterdir()] == [before]


def test_another_tenant_does_not_get_what_it_may_not_pull(local: Bench, closed: RealRegistry) -> None:
    digest = closed.push("team/private:1", [shell()])
    output(local, in_image(local, image(closed, "team/private:1", digest), command("true")))
    foreign = replace(image(closed, "team/private:1", digest, unchecked=True), pull=None)
    answer = ensured(local, in_image(local, foreign, command("true"), tenant=2))
    assert isinstance(answer, GiveUp)
    assert answer.code == "image_denied"


def test_a_registry_of_a_tenants_own_gives_no_layer_that_it_does_not_have(engine_dir: Path, closed: RealRegistry) -> None:
    """It names another tenant's image by its digests, as whoever saw these could make it do, and has no layer of it."""
    layers = [[*shell(), Member("made-here", b"private\n")]]
    digest = closed.push("team/kept:1", layers)
    launcher = DirectLauncher(policy_of(engine_dir))
    with registry() as own:
        bench = local_bench("local", engine_dir, launcher, registries=Rules(plain_hosts=frozenset({closed.host, own.host})))
        try:
            assert "private" in output(bench, in_image(bench, image(closed, "team/kept:1", digest), command("cat /made-here")))
            assert own.push("mine/kept:1", layers) == digest
            for blob in sorted((own.folder / "data").rglob("data"), key=lambda path: path.stat().st_size)[-1:]:
                blob.unlink()  # The layer; manifest and configuration stay.
            stolen = ImageRef(ImageKind.REGISTRY, digest, f"{own.host}/mine/kept:1@{digest}")
            answer = ensured(bench, in_image(bench, stolen, command("cat /made-here"), tenant=2))
            assert isinstance(answer, GiveUp)
            assert answer.code == "image_absent"
        finally:
            end_everything(engine_dir, launcher)


@pytest.mark.parametrize(
    ("layers", "code"),
    [
        ([[Member("file", b"x")]], "image_broken"),
        ([[*shell(), Member("../../outside", b"x")]], "image_broken"),
        ([b"no archive at all" * 100], "image_broken"),
    ],
)
def test_an_image_that_cannot_run_is_given_up_with_a_reason(local: Bench, closed: RealRegistry, layers, code: str) -> None:
    digest = closed.push("team/bad:1", layers)
    answer = ensured(local, in_image(local, image(closed, "team/bad:1", digest), command("true")))
    assert isinstance(answer, GiveUp)
    assert answer.code == code


def test_an_absent_image_is_given_up_and_a_registry_away_is_waited_for(local: Bench, closed: RealRegistry) -> None:
    answer = ensured(local, in_image(local, image(closed, "team/none:1"), command("true")))
    assert isinstance(answer, GiveUp)
    assert answer.code == "image_absent"
    closed.stop()
    try:
        answer = ensured(local, in_image(local, image(closed, "team/away:1"), command("true")))
    finally:
        closed.start()
    assert isinstance(answer, Retry)
    assert answer.code == "image_unreachable"


def test_volumes_are_seen_where_the_image_has_nothing_and_where_it_has_a_link(
    local: Bench, closed: RealRegistry, engine_dir: Path
) -> None:
    volume = engine_dir / "volume"
    volume.mkdir(mode=0o755)
    (volume / "word").write_text("from the volume\n")
    digest = closed.push("team/mounts:1", [[*shell(), folder("srv"), symlink("data", "srv/real"), Member("srv/own", b"own\n")]])
    mounts = tuple(MountRef(new_id(), HostDir(str(volume)), target, read_only=True) for target in ("/volumes/one", "/data/two"))
    show = command("cat /volumes/one/word /data/two/word /srv/own; ls /srv; touch /volumes/x || echo closed")
    said = output(local, replace(in_image(local, image(closed, "team/mounts:1", digest), show), mounts=mounts))
    assert said == "from the volume\nfrom the volume\nown\nown\nreal\nclosed\n"
