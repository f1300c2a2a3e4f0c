"""The walls around a job, tried from inside by a job: what each is, how it is tried, and what an open one means.

The program below runs as a job of a throw-away tenant and tries to get out, harmlessly: what it could reach it does not
change. It needs nothing but Python 3 and says in one line of JSON which walls it found open, and how.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clusters import isolation_facts
from kernel.words import Text

PROBE = r"""
import ctypes, json, os, platform, socket, stat, sys
port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
numbers = {"x86_64": (165, 248, 298, 321, 425), "aarch64": (40, 217, 241, 280, 425), "riscv64": (40, 217, 241, 280, 425)}
libc = ctypes.CDLL(None, use_errno=True)
found = {}
def attempt(name, action):
    try:
        said = action()
    except (OSError, ValueError) as error:
        found.setdefault(name, "")
        return
    found[name] = found.get(name) or str(said or "")[:200]
def call(*arguments):
    wide = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    if libc.syscall(*wide) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return "carried out"
def in_child(action):
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write_end, str(action()).encode())
        except BaseException:
            pass
        os._exit(0)
    os.close(write_end)
    os.waitpid(child, 0)
    said = os.read(read_end, 200).decode()
    os.close(read_end)
    return said
def namespace():
    if libc.unshare(0x10000000) != 0:
        raise OSError(ctypes.get_errno(), "refused")
    return "a user namespace was made"
def own_cloned():
    if os.uname().machine != "x86_64":
        return ""
    child = libc.syscall(ctypes.c_long(56), ctypes.c_long(0x10000000 | 17), None, None, None, None)
    if child == 0:
        os._exit(0)
    if child < 0:
        raise OSError(ctypes.get_errno(), "refused")
    os.waitpid(child, 0)
    return "a user namespace was made by clone"
def mounted():
    libc.unshare(0x10000000 | 0x00020000)
    if libc.mount(b"none", os.getcwd().encode(), b"tmpfs", 0, None) != 0:
        raise OSError(ctypes.get_errno(), "refused")
    return "a file system was mounted"
attempt("user_namespaces", lambda: in_child(namespace))
attempt("user_namespaces", own_cloned)
attempt("mounts", lambda: in_child(mounted))
known = numbers.get(platform.machine())
if known:
    _, add_key, perf, bpf, ring = known
    attempt("keyrings", lambda: call(add_key, b"user", b"berth-probe", b"x", 1, -2))
    attempt("kernel_programs", lambda: call(bpf, 0, (ctypes.c_uint32 * 18)(2, 4, 4, 1), 72))
    event = (ctypes.c_uint32 * 32)(1, 128)
    event[10] = 1 << 5 | 1 << 6
    attempt("performance_counters", lambda: call(perf, event, 0, -1, -1, 0))
    attempt("kernel_rings", lambda: call(ring, 1, (ctypes.c_uint32 * 30)()))
def groups():
    top, others = "/sys/fs/cgroup", []
    for folder, below, files in os.walk(top):
        if "cgroup.procs" in files and below:
            others += [os.path.join(folder, name) for name in below]
            break
    return "%d groups of others, such as %s" % (len(others), others[0]) if others else ""
attempt("control_groups", groups)
mine = os.environ.get("BERTH_TASK_KEY", "").encode()
def read(path):
    with open(path, "rb") as file:
        return file.read(1 << 16)
others = []
for pid in sorted(map(int, filter(str.isdecimal, os.listdir("/proc")))):
    try:
        if pid in (1, os.getpid()) or b"BERTH_TASK_KEY=" + mine in read("/proc/%d/environ" % pid):
            continue
    except OSError:
        pass
    others.append(pid)
attempt("process_names", lambda: "%d processes, such as %d" % (len(others), others[0]) if others else "")
for name in ("process_memory", "signals"):
    found.setdefault(name, "")
def memory(pid):
    if os.getuid() not in (0, os.stat("/proc/%d" % pid).st_uid):
        return ""
    open("/proc/%d/mem" % pid, "rb").close()
    return "memory of process %d" % pid
for pid in others:  # Any of them may be gone by now.
    attempt("process_memory", lambda: memory(pid))
    attempt("signals", lambda: os.kill(pid, 0) or "process %d" % pid)
def temporary():
    home = os.environ.get("TMPDIR", "/tmp")
    return "/tmp of the host is there" if home != "/tmp" and os.path.isdir("/tmp") else ""
attempt("temporary_files", temporary)
leased = [item for item in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if item]
def devices():
    for name in sorted(os.listdir("/dev")):
        path = "/dev/" + name
        mode = os.lstat(path).st_mode
        suspect = stat.S_ISBLK(mode) or name in ("mem", "kmem", "port", "kmsg") or (name.startswith("nvidia") and not leased)
        if suspect and os.access(path, os.R_OK):
            return path
    return ""
attempt("devices", devices)
def listed():
    lines = open("/proc/net/unix").read().splitlines()[1:]
    hidden = sum(" @" in line for line in lines)
    return "%d sockets of the host are listed, %d of them abstract" % (len(lines), hidden) if lines else ""
attempt("socket_names", listed)
def loopback():
    if not port:
        return ""
    socket.create_connection(("127.0.0.1", port), 3).close()
    return "port %d answered" % port
attempt("loopback", loopback)
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class Boundary:
    """One wall. `needs` are the facts of a cluster any of which claims that it is closed; none: it is told to be open."""

    name: str
    needs: tuple[str, ...]
    closed: Text[str]
    open: Text[str]


_FILTER = (isolation_facts.FILTER.en,)
_VIEW = (isolation_facts.SANDBOX.en,)
_EITHER = (isolation_facts.SANDBOX.en, isolation_facts.OWN_USERS.en)
BOUNDARIES = (
    Boundary(
        "user_namespaces",
        _FILTER,
        Text("A job cannot make a user namespace.", "作业不能创建用户命名空间。"),
        Text("A job can make a user namespace.", "作业可以创建用户命名空间。"),
    ),
    Boundary(
        "mounts",
        _FILTER,
        Text("A job cannot mount a file system.", "作业不能挂载文件系统。"),
        Text("A job can mount file systems in a namespace of its own.", "作业可以在自己的命名空间中挂载文件系统。"),
    ),
    Boundary(
        "keyrings",
        _FILTER,
        Text("The kernel's keyrings are closed.", "内核密钥环已关闭。"),
        Text("A job can use the kernel's keyrings.", "作业可以使用内核密钥环。"),
    ),
    Boundary(
        "kernel_programs",
        _FILTER,
        Text("BPF is closed.", "BPF 已关闭。"),
        Text("A job can use BPF.", "作业可以使用 BPF。"),
    ),
    Boundary(
        "performance_counters",
        _FILTER,
        Text("Performance counters are closed.", "性能计数器已关闭。"),
        Text("A job can open performance counters.", "作业可以打开性能计数器。"),
    ),
    Boundary(
        "kernel_rings",
        _FILTER,
        Text("io_uring is closed.", "io_uring 已关闭。"),
        Text("A job can use io_uring.", "作业可以使用 io_uring。"),
    ),
    Boundary(
        "control_groups",
        _VIEW,
        Text("A job sees its own control group only.", "作业只能看到自己的控制组。"),
        Text("A job sees the host's control groups.", "作业可以看到主机的控制组。"),
    ),
    Boundary(
        "process_names",
        _VIEW,
        Text("A job sees its own processes only.", "作业只能看到自己的进程。"),
        Text("A job sees the names of other processes.", "作业可以看到其他进程的名称。"),
    ),
    Boundary(
        "process_memory",
        _EITHER,
        Text("The memory of other processes is closed.", "其他进程的内存不可访问。"),
        Text("A job can read the memory of other processes.", "作业可以读取其他进程的内存。"),
    ),
    Boundary(
        "signals",
        _EITHER,
        Text("A job can signal its own processes only.", "作业只能向自己的进程发送信号。"),
        Text("A job can signal other processes.", "作业可以向其他进程发送信号。"),
    ),
    Boundary(
        "temporary_files",
        _VIEW,
        Text("A job has a /tmp of its own.", "作业拥有私有的 /tmp。"),
        Text("A job sees the host's /tmp.", "作业可以看到主机的 /tmp。"),
    ),
    Boundary(
        "devices",
        _VIEW,
        Text("Disks, memory and GPUs that the job did not lease are closed.", "磁盘、内存设备和未租用的 GPU 不可访问。"),
        Text("A job can open devices of the host.", "作业可以打开主机的设备。"),
    ),
    Boundary(
        "socket_names",
        (),
        Text("A job sees its own sockets only.", "作业只能看到自己的套接字。"),
        Text("A job sees the host's sockets and reaches abstract ones.", "作业可以看到主机的套接字，并可连接抽象套接字。"),
    ),
    Boundary(
        "loopback",
        (),
        Text("The host's loopback is out of reach.", "主机回环不可访问。"),
        Text("A job reaches the host's loopback and other jobs' ports.", "作业可以访问主机回环和其他作业的端口。"),
    ),
)
NOT_TRIED = Text("The walls around a job were not tried.", "未能测试作业的隔离边界。")
BY_NAME = {boundary.name: boundary for boundary in BOUNDARIES}


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of one wall. `is_finding`: it is open although the cluster's facts say that it is closed."""

    boundary: Boundary
    evidence: str
    is_finding: bool

    @property
    def is_open(self) -> bool:
        return bool(self.evidence)


def sentence(name: str, outcome: str, language: str) -> str:
    """Tell an outcome as a report keeps it; a wall of another release shows its name."""
    boundary = BY_NAME.get(name)
    if boundary is None:
        return name or NOT_TRIED.in_language(language)
    return (boundary.closed if outcome == "closed" else boundary.open).in_language(language)


class Unreadable(Exception):
    """The job's output is not what the program prints."""


def read(output: str) -> Mapping[str, str]:
    """Give the evidence for each wall that was tried, "" where it held."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except ValueError:
                break
            if isinstance(found, dict):
                return {str(name): str(evidence) for name, evidence in found.items()}
    raise Unreadable(f"The probe printed no answer: {output[-300:]!r}")


def judge_boundaries(found: Mapping[str, str], facts: Iterable[str]) -> Sequence[Tried]:
    """Compare what was found with what the cluster says of itself."""
    claims = frozenset(facts)
    return tuple(
        Tried(boundary, found[boundary.name], bool(found[boundary.name]) and bool(claims.intersection(boundary.needs)))
        for boundary in BOUNDARIES
        if boundary.name in found
    )
