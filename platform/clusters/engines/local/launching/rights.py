"""Touch files with a tenant's rights, from a process that keeps root.

Linux gives every thread its own file-system uid, gid and groups. Changing them, as file servers do, makes the kernel check
each access as the tenant's (the override capabilities leave the effective set with the uid), and unlike a child process
under the tenant's uid it exposes nothing that the tenant could signal or trace. glibc applies setgroups to all threads, so
the system call is made directly.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

from clusters.engines.local.launching.verbs import Owner

_SETGROUPS = {"x86_64": 116, "aarch64": 159, "riscv64": 159, "ppc64le": 81, "s390x": 206}
"""Numbers of setgroups(2): asm/unistd_64.h of each architecture, Linux 6.1."""

_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def acting_as(owner: Owner | None) -> Iterator[None]:
    """Run the block with the owner's rights on files; None or a process without root changes nothing.

    If the rights cannot be restored the process ends: going on with the wrong ones would be worse than a restart.
    """
    if owner is None or os.geteuid() != 0:
        yield
        return
    groups = os.getgroups()
    try:
        _set_groups(owner.groups)
        _set_fsid(_libc.setfsgid, owner.gid)
        _set_fsid(_libc.setfsuid, owner.uid)
        yield
    finally:
        try:
            _set_fsid(_libc.setfsuid, 0)
            _set_fsid(_libc.setfsgid, os.getegid())
            _set_groups(groups)
        except OSError:
            os._exit(70)


def _set_fsid(function: ctypes._NamedFuncPointer, number: int) -> None:
    function(ctypes.c_uint(number))
    if function(ctypes.c_uint(0xFFFFFFFF)) != number:  # An impossible id changes nothing and gives the present one.
        raise PermissionError(f"cannot act as {number}")


def _set_groups(groups: tuple[int, ...] | list[int]) -> None:
    number = _SETGROUPS.get(os.uname().machine)
    if number is None:
        raise PermissionError(f"supplementary groups cannot be changed on {os.uname().machine}")
    array = (ctypes.c_uint * len(groups))(*groups)
    if _libc.syscall(ctypes.c_long(number), ctypes.c_long(len(groups)), array) != 0:
        raise OSError(ctypes.get_errno(), "setgroups")
