"""Members of tar archives that others wrote, read with bounded memory.

`tarfile` reads an extended header whole (names and attributes of the member that follows), however large the archive says it is:
one of gigabytes of zeros is a few megabytes as it is transferred. What global headers say, it keeps and looks through for each
member that follows; and for each header that follows another one, it calls itself. Use a class of `bounded` as `tarinfo` of
`tarfile.open`.
"""

from __future__ import annotations

import functools
import tarfile
from typing import Any, ClassVar

HEADER_TYPES = frozenset(
    {tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
)
"""Those that `tarfile` holds in memory. What it does not know it takes for a file, whose content it skips."""

GLOBAL_BYTES_MAX = 4096  # Of all global headers of an archive: `git archive` writes one of 52 bytes.
HEADERS_IN_A_ROW_MAX = 16  # Of one member: tools write at most a global one, an extended one and two long names.

_IN_A_ROW, _GLOBAL_BYTES = "berth_headers_in_a_row", "berth_global_bytes"  # Attributes of an archive, beside its own.


class HeaderTooLarge(tarfile.ReadError):
    """An extended header is larger than names and attributes are, or there are more of them."""


class SparseRefused(tarfile.ReadError):
    """A file with holes, which may be larger than anything that the archive holds."""


class _Member(tarfile.TarInfo):
    bound_of_headers: ClassVar[int]
    takes_sparse: ClassVar[bool]

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        self._count_header(vars(archive))
        if self.type == tarfile.GNUTYPE_SPARSE and not self.takes_sparse:
            raise SparseRefused("sparse files are not supported")
        found: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]  # Not in the type stubs.
        return found

    def _count_header(self, seen: dict[str, Any]) -> None:
        """`seen` are the archive's own attributes: what was counted before goes with it."""
        is_header = self.type in HEADER_TYPES
        seen[_IN_A_ROW] = seen.get(_IN_A_ROW, 0) + 1 if is_header else 0
        if self.type == tarfile.XGLTYPE:
            seen[_GLOBAL_BYTES] = seen.get(_GLOBAL_BYTES, 0) + self.size
        if is_header and not 0 <= self.size <= self.bound_of_headers:
            raise HeaderTooLarge("a header is too large")
        if seen.get(_GLOBAL_BYTES, 0) > GLOBAL_BYTES_MAX:
            raise HeaderTooLarge("the global headers are too large")
        if seen[_IN_A_ROW] > HEADERS_IN_A_ROW_MAX:
            raise HeaderTooLarge("a member has too many headers")

    def _refuse_sparse(self, *found: Any) -> None:
        raise SparseRefused("sparse files are not supported")


@functools.cache
def bounded(header_bytes_max: int, *, sparse: bool = True) -> type[tarfile.TarInfo]:
    """A class for members whose extended headers have at most so many bytes. `sparse` False: files with holes are refused."""
    content: dict[str, Any] = {"bound_of_headers": header_bytes_max, "takes_sparse": sparse}
    if not sparse:  # In extended headers there are three ways to say that a file has holes.
        content |= dict.fromkeys(("_proc_gnusparse_00", "_proc_gnusparse_01", "_proc_gnusparse_10"), _Member._refuse_sparse)
    return type("BoundedMember", (_Member,), content)
