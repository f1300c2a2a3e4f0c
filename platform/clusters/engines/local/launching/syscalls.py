"""Which system calls a task may make: a seccomp filter as container engines have it, made by libseccomp.

The filter is a list of what is allowed. What a program could use to leave its box is refused with EPERM, as an unprivileged
process gets it from most of them anyway; whatever is not named here does not exist (ENOSYS), so that libraries fall back as
they do on an older kernel, and so that a call that a later kernel brings is closed until it is looked at. Compared with the
profile of Docker and containerd (moby/profiles/seccomp/default.json), jobs keep what training needs and a namespace does not
give away: NUMA placement, `pidfd_getfd` and `kcmp` (shared GPU memory), and gdb's fixed addresses. io_uring, userfaultfd and
perf_event_open are closed, as there.

Programs of another architecture than the host's own (32 bits on x86-64) are killed: their calls have other numbers.

It is loaded by bubblewrap where there is one. Elsewhere it is loaded by a thread of the launcher that only starts the task and
ends: a filter belongs to a thread, and what the thread starts inherits it.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

_FILES = """
    access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2 fadvise64 fallocate
    fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat
    fstatfs fsync ftruncate futimesat getcwd getdents getdents64 getxattr inotify_add_watch inotify_init inotify_init1
    inotify_rm_watch ioctl lchown lgetxattr link linkat listxattr llistxattr lremovexattr lseek lsetxattr lstat mkdir mkdirat
    mknod mknodat name_to_handle_at newfstatat open openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read
    readahead readlink readlinkat readv removexattr rename renameat renameat2 rmdir sendfile setxattr splice stat statfs statx
    symlink symlinkat sync sync_file_range sync_file_range2 syncfs tee truncate umask unlink unlinkat utime utimensat utimes
    vmsplice write writev cachestat fanotify_mark
"""
_WAITING = """
    epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2
    pipe pipe2 poll ppoll pselect6 select signalfd signalfd4 timerfd_create timerfd_gettime timerfd_settime io_cancel io_destroy
    io_getevents io_pgetevents io_setup io_submit
"""
_MEMORY = """
    brk get_mempolicy madvise map_shadow_stack mbind membarrier memfd_create memfd_secret mincore mlock mlock2 mlockall mmap
    move_pages mprotect mremap msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_madvise
    process_mrelease remap_file_pages set_mempolicy set_mempolicy_home_node shmat shmctl shmdt shmget
"""
_PROCESSES = """
    arch_prctl capget capset execve execveat exit exit_group fork get_robust_list get_thread_area getcpu getegid geteuid getgid
    getgroups getitimer getpgid getpgrp getpid getppid getpriority getresgid getresuid getrlimit getrusage getsid gettid getuid
    ioprio_get ioprio_set kcmp kill landlock_add_rule landlock_create_ruleset landlock_restrict_self pause pidfd_getfd
    pidfd_open pidfd_send_signal prctl prlimit64 process_vm_readv process_vm_writev ptrace restart_syscall riscv_flush_icache
    rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo
    sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
    sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp set_robust_list
    set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid setpriority setregid setresgid
    setresuid setreuid setrlimit setsid setuid sigaltstack swapcontext sysinfo tgkill times tkill uname vfork wait4 waitid
"""
_TIME = """
    adjtimex alarm clock_adjtime clock_getres clock_gettime clock_nanosleep futex futex_requeue futex_wait futex_waitv futex_wake
    getrandom gettimeofday nanosleep time timer_create timer_delete timer_getoverrun timer_gettime timer_settime
"""
_MESSAGES = """
    accept accept4 bind connect getpeername getsockname getsockopt listen mq_getsetattr mq_notify mq_open mq_timedreceive
    mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd recvfrom recvmmsg recvmsg semctl semget semop semtimedop sendmmsg sendmsg
    sendto setsockopt shutdown socketpair
"""
ALLOWED = frozenset(" ".join((_FILES, _WAITING, _MEMORY, _PROCESSES, _TIME, _MESSAGES)).split())

_CLOSED = """
    acct add_key bpf chroot clock_settime delete_module fanotify_init finit_module fsconfig fsmount fsopen fspick init_module
    io_uring_enter io_uring_register io_uring_setup ioperm iopl kexec_file_load kexec_load keyctl lookup_dcookie migrate_pages
    mount mount_setattr move_mount nfsservctl open_by_handle_at open_tree perf_event_open pivot_root quotactl quotactl_fd reboot
    request_key setdomainname sethostname settimeofday swapoff swapon syslog umount2 userfaultfd vhangup
"""
REFUSED = frozenset(_CLOSED.split())
"""With EPERM, for which programs are prepared. All others that are not allowed get ENOSYS, clone3 among them: what it is to do
stands in memory, where no filter looks, and the C library takes clone instead."""

_NEW_NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET: linux/sched.h."""
_NEW_TIME = 0x00000080  # CLONE_NEWTIME, for unshare only: in clone these bits are the signal.
_NEW_FOR_BUILDING = frozenset({0x00020000, 0x04000000})  # CLONE_NEWNS, NEWUTS: what buildah makes for a step.
_FOR_BUILDING = frozenset({"chroot", "mount", "umount2"})
_PRETENDED = frozenset({"chown", "fchown", "fchownat", "lchown", "setgroups"})
"""Done in name only by what builds an image: all files of an image belong to the user who runs it, on every engine. What changes
the user of a process fails as it does anywhere: a program that gives up rights must not believe that it has."""
_FAMILIES = frozenset({1, 2, 10, 16})  # AF_UNIX, INET, INET6, NETLINK. Others load kernel modules that no job needs.
_FAMILY_LAST = max(_FAMILIES)
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)
"""Linux, 32 bits of addresses, Linux 2.6, both, without address randomization (gdb), asking only: linux/personality.h."""

_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000  # SCMP_ACT_*: seccomp.h of libseccomp.
_EQUAL, _GREATER, _MASKED_EQUAL = 4, 6, 7  # SCMP_CMP_*.
_BAD_ARCHITECTURE, _OPTIMIZE = 2, 8  # SCMP_FLTATR_ACT_BADARCH, SCMP_FLTATR_CTL_OPTIMIZE.
_BINARY_TREE = 2  # For _OPTIMIZE: a few comparisons for each call instead of three hundred. libseccomp 2.5.
_LOW_HALF = 0xFFFFFFFF  # The kernel reads an int: whatever stands above does not count.
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _MODE_FILTER = 38, 22, 2  # prctl(2).
_INSTRUCTION_BYTES = 8  # struct sock_filter: linux/filter.h.

_libc = ctypes.CDLL(None, use_errno=True)


class Filter(StrEnum):
    """`ENTERING` also allows setns, for what first goes into the namespaces of a running task. It gives a tenant nothing: the
    kernel asks for rights in the namespace to enter, and a tenant has them in none and can make none.

    `BUILDING` is for what puts container images together, as user 0 of a user namespace that maps the tenant's user alone: it may
    mount and change its root there, have mounts and a host name of its own, and make no other namespace: with one of the network,
    say, it would have rights over much more of the kernel. Whatever would give files or itself to another user says that it has
    done so and does nothing: there is no other user in that namespace, and package managers stop where it fails.
    """

    TASK = "task"
    ENTERING = "entering"
    BUILDING = "building"


class _Comparison(ctypes.Structure):
    """struct scmp_arg_cmp: seccomp.h of libseccomp."""

    _fields_ = (("argument", ctypes.c_uint), ("operator", ctypes.c_int), ("first", ctypes.c_uint64), ("second", ctypes.c_uint64))


class _Program(ctypes.Structure):
    """struct sock_fprog: linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


@dataclass(frozen=True, slots=True)
class _Rule:
    """What becomes of one system call; with a comparison, only where it holds: argument, operator, two operands."""

    name: str
    action: int
    comparison: tuple[int, int, int, int] | None = None


@functools.cache
def compiled(kind: Filter) -> bytes | None:
    """Give the filter as the kernel takes it; None where there is no libseccomp or the kernel takes no filter."""
    try:
        library = _library()
    except OSError:
        return None
    context = library.seccomp_init(_ERRNO | errno.ENOSYS) if _kernel_filters() else None
    if not context:
        return None
    try:
        return _compile(library, ctypes.c_void_p(context), _rules(kind))
    finally:
        library.seccomp_release(ctypes.c_void_p(context))


def open_compiled(kind: Filter) -> int | None:
    """Open the filter to be read once, from its beginning, by a program that loads it; None where there is none."""
    program = compiled(kind)
    if program is None:
        return None
    descriptor = os.memfd_create("berth-seccomp", os.MFD_CLOEXEC)
    os.write(descriptor, program)  # Some kilobytes: one write takes them.
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def start_filtered(kind: Filter, start: Callable[[], int]) -> int:
    """Call `start`, which starts a process and gives its pid, from a thread under the filter; as it is where there is none.

    Raises what `start` raises, and OSError where the kernel does not take the filter: a task never starts without it then.
    """
    program = compiled(kind)
    if program is None:
        return start()
    pids: list[int] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            _load(program)
            pids.append(start())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="filtered")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return pids[0]


def _load(program: bytes) -> None:
    """Put this thread, and no other, under the filter for good."""
    filled = _Program(len(program) // _INSTRUCTION_BYTES, program)
    zero = ctypes.c_ulong(0)
    if _libc.prctl(_SET_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    if _libc.prctl(_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), ctypes.byref(filled), zero, zero) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def _rules(kind: Filter) -> Iterable[_Rule]:
    refuse = _ERRNO | errno.EPERM
    pretended, opened = (_PRETENDED, _FOR_BUILDING) if kind is Filter.BUILDING else (frozenset(), frozenset())
    for name in sorted((ALLOWED | opened) - pretended):
        yield _Rule(name, _ALLOW)
    for name in sorted(REFUSED - opened):
        yield _Rule(name, refuse)
    for name in sorted(pretended):
        yield _Rule(name, _ERRNO)
    yield _Rule("setns", _ALLOW if kind is Filter.ENTERING else refuse)
    opened_spaces = _NEW_FOR_BUILDING if kind is Filter.BUILDING else frozenset()
    namespaces = tuple(bit for bit in _NEW_NAMESPACES if bit not in opened_spaces)
    flags = 1 if os.uname().machine.startswith("s390") else 0  # Where clone(2) takes its arguments the other way around.
    yield from _unless_any("clone", flags, namespaces)
    yield from _unless_any("unshare", 0, (*namespaces, _NEW_TIME))
    unsupported = _ERRNO | errno.EAFNOSUPPORT
    for family in range(_FAMILY_LAST + 1):
        yield _Rule("socket", _ALLOW if family in _FAMILIES else unsupported, (0, _MASKED_EQUAL, _LOW_HALF, family))
    yield _Rule("socket", unsupported, (0, _GREATER, _FAMILY_LAST, 0))
    for personality in _PERSONALITIES:
        yield _Rule("personality", _ALLOW, (0, _EQUAL, personality, 0))


def _unless_any(name: str, argument: int, bits: tuple[int, ...]) -> Iterable[_Rule]:
    yield _Rule(name, _ALLOW, (argument, _MASKED_EQUAL, sum(bits), 0))
    for bit in bits:
        yield _Rule(name, _ERRNO | errno.EPERM, (argument, _MASKED_EQUAL, bit, bit))


def _compile(library: ctypes.CDLL, context: ctypes.c_void_p, rules: Iterable[_Rule]) -> bytes | None:
    library.seccomp_attr_set(context, _OPTIMIZE, _BINARY_TREE)  # An older library keeps its list: slower, the same answers.
    if library.seccomp_attr_set(context, _BAD_ARCHITECTURE, _KILL_PROCESS) != 0:
        return None
    for rule in rules:
        number = library.seccomp_syscall_resolve_name(rule.name.encode())
        if number < 0:  # Of another architecture, or newer than the library.
            continue
        comparisons = (_Comparison * 1)(*([_Comparison(*rule.comparison)] if rule.comparison else []))
        count = 1 if rule.comparison else 0
        problem = library.seccomp_rule_add_array(context, rule.action, number, count, comparisons)
        assert problem == 0, f"the rule for {rule.name} is one that libseccomp takes ({problem})"
    descriptor = os.memfd_create("berth-seccomp", os.MFD_CLOEXEC)
    try:
        if library.seccomp_export_bpf(context, descriptor) != 0:
            return None
        os.lseek(descriptor, 0, os.SEEK_SET)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _kernel_filters() -> bool:
    """Offer the kernel no filter at all: one that takes filters says that it is at a bad address."""
    zero = ctypes.c_ulong(0)
    _libc.prctl(_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), None, zero, zero)
    return ctypes.get_errno() == errno.EFAULT


def _library() -> ctypes.CDLL:
    """Load libseccomp 2 (Debian: libseccomp2, which apt itself depends on)."""
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = (ctypes.c_uint32,)
    library.seccomp_release.restype = None
    library.seccomp_release.argtypes = (ctypes.c_void_p,)
    library.seccomp_attr_set.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32)
    library.seccomp_rule_add_array.argtypes = (
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.POINTER(_Comparison),
    )
    library.seccomp_syscall_resolve_name.argtypes = (ctypes.c_char_p,)
    library.seccomp_export_bpf.argtypes = (ctypes.c_void_p, ctypes.c_int)
    return library
