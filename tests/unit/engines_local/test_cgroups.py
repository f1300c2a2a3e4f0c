"""Control groups of version 2, which this suite's machine may not have: against a directory that looks like one."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.engines.local import cgroups
from clusters.engines.local.cgroups import Cgroups, Limits, MemoryKills


@pytest.fixture
def group(tmp_path: Path) -> Path:
    path = tmp_path / "attempt.worker-0"
    path.mkdir()
    for name in (
        "memory.max",
        "memory.swap.max",
        "memory.oom.group",
        "pids.max",
        "cpu.weight",
        "cpu.max",
        "cgroup.procs",
        "cgroup.kill",
    ):
        (path / name).write_text("")
    return path


@pytest.mark.capability("32", "Limits of memory, processors and processes are control groups where there are any")
def test_limits_of_version_2_are_written_in_its_units(tmp_path: Path, group: Path) -> None:
    groups = Cgroups({"unified": str(tmp_path)})
    made = groups.create("attempt.worker-0", Limits(memory_bytes=1 << 30, cpu_millis=2_500, processes_max=100))
    assert made == (str(group),)
    written = {
        name: (group / name).read_text() for name in ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max")
    }
    assert written == {
        "memory.max": str(1 << 30),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "100",
        "cpu.max": "250000 100000",
    }
    assert (groups.version, groups.limits_memory) == (2, True)


def test_zero_means_no_limit(tmp_path: Path, group: Path) -> None:
    Cgroups({"unified": str(tmp_path)}).create("attempt.worker-0", Limits())
    assert all((group / name).read_text() == "" for name in ("memory.max", "pids.max", "cpu.max"))


def test_a_kill_at_the_own_limit_is_told_from_one_by_the_machine(group: Path) -> None:
    (group / "memory.max").write_text("100\n")
    (group / "memory.peak").write_text("90\n")
    (group / "memory.events").write_text("low 0\nhigh 0\nmax 5\noom 1\noom_kill 2\noom_group_kill 1\n")
    assert cgroups.memory_kills([str(group)]) == MemoryKills(kills=2, limit_hits=1, peak_bytes=90, limit_bytes=100)
    (group / "memory.events").write_text("low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\n")
    assert cgroups.memory_kills([str(group)]).limit_hits == 0


def test_use_is_read_from_version_2(group: Path) -> None:
    (group / "cpu.stat").write_text("usage_usec 1500\nuser_usec 1000\n")
    (group / "memory.stat").write_text("anon 1000\nfile 5000\nshmem 24\n")
    (group / "pids.current").write_text("3\n")
    (group / "io.stat").write_text("254:0 rbytes=10 wbytes=20 rios=1\n8:0 rbytes=1 wbytes=2 rios=1\n")
    assert cgroups.usage([str(group)]) == cgroups.Usage(1_500_000, 1_024, 3, 11, 22)


def test_a_group_is_killed_whole_and_members_are_its_pids(group: Path) -> None:
    (group / "cgroup.procs").write_text("12\n34\n")
    assert cgroups.members([str(group)]) == {12, 34}
    cgroups.kill([str(group)], forbid_new=False)
    assert ((group / "cgroup.kill").read_text(), (group / "pids.max").read_text()) == ("1", "")
    cgroups.kill([str(group)], forbid_new=True)
    assert ((group / "cgroup.kill").read_text(), (group / "pids.max").read_text()) == ("1", "0")


def test_groups_that_are_gone_say_nothing(tmp_path: Path) -> None:
    gone = [str(tmp_path / "gone")]
    assert cgroups.members(gone) == set()
    assert cgroups.memory_kills(gone) == MemoryKills()
    assert cgroups.usage(gone) == cgroups.Usage()
    assert cgroups.remove(gone)


@pytest.mark.parametrize("own", ["0::/", "0::/system.slice/berth.service"])
def test_version_2_is_found_below_our_own_group_with_its_controllers_handed_down(tmp_path: Path, own: str) -> None:
    mount = tmp_path / "cgroup"
    parent = mount / own.removeprefix("0::/")
    base = parent / "berth"
    base.mkdir(parents=True)
    for path in (parent, base):
        (path / "cgroup.controllers").write_text("cpu io memory pids\n")
        (path / "cgroup.subtree_control").write_text("")
        (path / "cgroup.procs").write_text("")
    proc = tmp_path / "proc" / "self"
    proc.mkdir(parents=True)
    (proc / "cgroup").write_text(own + "\n")
    (proc / "mounts").write_text(f"cgroup2 {mount} cgroup2 rw,nosuid 0 0\n")
    found = cgroups.detect(proc=str(tmp_path / "proc"))
    assert found is not None
    assert found.bases == {"unified": str(base)}
    assert "memory" in (base / "cgroup.subtree_control").read_text() or "io" in (base / "cgroup.subtree_control").read_text()


def test_without_controllers_there_are_no_groups(tmp_path: Path) -> None:
    proc = tmp_path / "proc" / "self"
    proc.mkdir(parents=True)
    (proc / "cgroup").write_text("0::/\n")
    (proc / "mounts").write_text(f"cgroup2 {tmp_path} cgroup2 rw 0 0\n")
    (tmp_path / "cgroup.controllers").write_text("hugetlb\n")
    assert cgroups.detect(proc=str(tmp_path / "proc")) is None


def test_a_group_with_the_controller_cpuset_holds_a_task_to_its_cores(tmp_path: Path) -> None:
    groups = cgroups.Cgroups({"unified": str(tmp_path)})
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "cpuset.cpus").write_text("\n")
    made = groups.create("a", cgroups.Limits(cores=(2, 3)))
    assert (tmp_path / "a" / "cpuset.cpus").read_text().startswith("2,3")
    (tmp_path / "a" / "cpuset.cpus").write_text("")
    cgroups.pin(made, ())
    assert (tmp_path / "a" / "cpuset.cpus").read_text() == "\n"
