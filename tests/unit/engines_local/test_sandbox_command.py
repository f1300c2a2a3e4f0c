"""The sandbox's command line, compared as a whole, and where mounts may appear."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusters.engines.local import sandbox
from clusters.engines.local.launching.verbs import StartMount

VIEW = sandbox.View(work="/d/work", home="/d/home", temporary="/d/tmp")


def after_system(view: sandbox.View) -> list[str]:
    line = sandbox.command("/usr/bin/bwrap", view)
    assert line[0] == "/usr/bin/bwrap"
    return line[line.index("--proc") :]


def test_a_plain_task_sees_the_system_its_own_directories_and_nothing_else() -> None:
    assert after_system(VIEW) == [
        *("--proc", "/proc", "--dev", "/dev"),
        *("--perms", "1777", "--size", str(64 * 1024**2), "--tmpfs", "/dev/shm"),
        *("--bind", "/d/tmp", "/tmp", "--perms", "0755", "--dir", "/var", "--symlink", "../tmp", "/var/tmp"),
        *("--tmpfs", "/sys/fs/cgroup", "--remount-ro", "/sys/fs/cgroup"),
        *("--ro-bind", "/dev/null", "/proc/keys", "--ro-bind", "/dev/null", "/proc/key-users"),
        *("--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve"),
        *("--ro-bind-try", "/run/resolvconf", "/run/resolvconf"),
        *("--ro-bind-try", "/run/nscd", "/run/nscd"),
        *("--perms", "0755", "--dir", "/berth"),
        *("--bind", "/d/work", "/berth/work", "--bind", "/d/home", "/berth/home"),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--"),
    ]


def test_only_a_tasks_own_control_groups_are_shown_where_the_host_mounts_its_trees() -> None:
    unified = replace(VIEW, groups=(("/sys/fs/cgroup/berth/a.worker-0", "/sys/fs/cgroup"),))
    assert "--tmpfs /sys" not in " ".join(after_system(unified))
    assert "--ro-bind /sys/fs/cgroup/berth/a.worker-0 /sys/fs/cgroup --remount-ro" in " ".join(after_system(unified))
    separate = replace(VIEW, groups=(("/sys/fs/cgroup/pids/berth/a.worker-0", "/sys/fs/cgroup/pids"),))
    shown = "--ro-bind /sys/fs/cgroup/pids/berth/a.worker-0 /sys/fs/cgroup/pids --remount-ro /sys/fs/cgroup"
    assert f"--tmpfs /sys/fs/cgroup {shown}" in " ".join(after_system(separate))


def test_the_filter_of_system_calls_is_handed_over_by_its_descriptor() -> None:
    assert after_system(replace(VIEW, filter=7))[-3:] == ["--seccomp", "7", "--"]


def test_a_builder_of_images_is_user_0_of_a_namespace_and_sees_what_a_task_sees() -> None:
    line = after_system(replace(VIEW, builds_image=True, filter=7))
    assert line[-10:] == ["--unshare-user", "--uid", "0", "--gid", "0", "--cap-add", "ALL", "--seccomp", "7", "--"]
    assert line[:-10] == after_system(VIEW)[:-1]


def test_nothing_of_the_system_is_writable() -> None:
    line = sandbox.command("bwrap", VIEW)
    system = line[1 : line.index("--proc")]
    assert set(system[::3]) <= {"--ro-bind", "--symlink"}


def test_mounts_image_devices_memory_and_network_appear_where_asked() -> None:
    view = sandbox.View(
        work="/d/work",
        home="/d/home",
        temporary="/d/tmp",
        files="/d/files",
        image="/var/lib/berth/images/x",
        mounts=(StartMount("/v/b", "/datb", False), StartMount("/v/a", "/data", True)),
        devices=("/dev/nvidia3",),
        shm_bytes=1_000,
        network=False,
    )
    text = " ".join(after_system(view))
    assert "--size 1000 --tmpfs /dev/shm" in text
    assert "--dev-bind-try /dev/nvidia3 /dev/nvidia3" in text
    assert "--ro-bind /d/files /berth/files" in text
    assert "--ro-bind /var/lib/berth/images/x /var/lib/berth/images/x" in text
    assert text.index("--ro-bind /v/a /data") < text.index("--bind /v/b /datb")
    assert text.endswith("--unshare-net --")


@pytest.mark.parametrize("target", ["/data", "/data/x", "/mnt", "/home/me", "/etcetera"])
def test_a_mount_may_appear_outside_the_system(target: str) -> None:
    assert sandbox.refuse_target(target, [target]) == ""


@pytest.mark.parametrize(
    "target",
    [
        "",
        "data",
        "/",
        "/etc",
        "/usr/lib",
        "/proc/self",
        "/dev/shm",
        "/tmp",
        "/berth",
        "/berth/work",
        "/a/../etc",
        "/a/",
        "//a",
        "//etc/x",
        "/a\0",
    ],
)
def test_a_mount_over_the_system_or_by_a_crooked_path_is_refused_with_words(target: str) -> None:
    assert sandbox.refuse_target(target, [target])


@pytest.mark.parametrize(("target", "others"), [("/data/b", ["/data", "/data/b"]), ("/img/x/y", ["/img/x/y", "/img"])])
def test_no_mount_lies_below_a_directory_that_a_tenant_fills(target: str, others: list[str]) -> None:
    assert "lies below" in sandbox.refuse_target(target, others)
    assert sandbox.refuse_target("/database", ["/data", "/database"]) == ""


def test_two_mounts_do_not_share_a_target() -> None:
    assert "two mounts" in sandbox.refuse_target("/data", ["/data", "/data"])
