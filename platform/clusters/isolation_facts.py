"""What keeps jobs apart on a cluster, in words: engines report the English sentences, readers of Chinese get the other ones.

The sentences are kept with clusters and attempts as they were reported; one that is not here, say of another release, shows
itself.
"""

from __future__ import annotations

from collections.abc import Mapping

TURNED_OFF = "Turned off by the operator (local_isolation = none): jobs of all tenants run as one user and share their files."
OWN_USERS = "Each tenant's jobs run as a user of their own; files and processes of other tenants are closed to them."
NO_ROOT = "All jobs run as the platform's own user: Berth was started without root."
SANDBOX = "bubblewrap gives each task its own view: system read-only, private /tmp and processes, only the leased GPUs."
NO_SANDBOX = "bubblewrap is not in force: tasks see the host's directories and process names; volumes and builds need it."
FILTER = "System calls are filtered: no user namespaces, mounts, BPF, keyrings, io_uring or performance counters."
NO_FILTER = "System calls are not filtered: libseccomp is not installed (Debian: libseccomp2)."
WATCHED = "Memory is watched, not limited, and processors are not limited: there are no control groups that we may write."
NETWORK = "The network is the host's: jobs reach services on its loopback, each other's ports, and abstract sockets."
ONE_TENANT = "Nothing keeps tenants apart here: the cluster takes jobs of one tenant only."
PRETENDED = "Nothing runs: this cluster is pretended."

_ZH: Mapping[str, str] = {
    TURNED_OFF: "已被运维人员关闭（local_isolation = none）：所有租户的作业以同一用户运行，文件共享。",
    OWN_USERS: "每个租户的作业以各自的用户运行，其他租户的文件和进程对其不可见。",
    NO_ROOT: "所有作业以平台自己的用户运行：Berth 启动时没有 root 权限。",
    SANDBOX: "bubblewrap 为每个任务提供独立视图：系统只读，/tmp 与进程私有，仅可见所租用的 GPU。",
    NO_SANDBOX: "bubblewrap 未生效：任务可见主机的目录和进程名；卷和镜像构建需要它。",
    FILTER: "系统调用受过滤：不允许用户命名空间、挂载、BPF、密钥环、io_uring 和性能计数器。",
    NO_FILTER: "系统调用未受过滤：未安装 libseccomp（Debian：libseccomp2）。",
    WATCHED: "内存仅被监视而不受限制，处理器也不受限制：没有可写的控制组。",
    NETWORK: "网络与主机共用：作业可访问主机回环上的服务、彼此的端口以及抽象套接字。",
    ONE_TENANT: "此处没有隔离租户的手段：该集群只接受一个租户的作业。",
    PRETENDED: "没有实际运行：这是一个模拟的集群。",
}


def limited(version: int) -> str:
    """Control groups of this version are in force."""
    return f"Memory, processors and process counts are limited by control groups (version {version})."


def fact_in(fact: str, language: str) -> str:
    """A sentence that an engine reported, in the reader's language."""
    if language != "zh":
        return fact
    versions = {limited(version): f"内存、处理器和进程数由控制组（版本 {version}）限制。" for version in (1, 2)}
    return _ZH.get(fact) or versions.get(fact, fact)
