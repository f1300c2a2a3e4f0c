"""Read what Zstandard compressed (RFC 8878), piece by piece, by the system's libzstd.

The library is part of every Debian (dpkg reads packages with it), so nothing has to be installed; Python has a reader of its own
from 3.14 on. Memory is bounded: a frame that asks for a larger window than `WINDOW_BYTES_MAX` is refused before it is given one,
and no more is unpacked than is asked for.
"""

from __future__ import annotations

import ctypes
import functools
from types import TracebackType
from typing import BinaryIO, Self

WINDOW_BYTES_MAX = 128 * 1024**2  # The bound of the zstd tool itself, which only its option --long=28 and above passes.
_WINDOW_LOG_PARAMETER = 100  # ZSTD_d_windowLogMax: zstd.h.
FRAMES_WITHOUT_CONTENT_MAX = 1_000  # In a row: those to be skipped are two or three of a layer. Billions would take hours.
_INPUT_BYTES = 128 * 1024  # One block of the format, as ZSTD_DStreamInSize recommends.


class BadZstd(ValueError):
    """What is read is no Zstandard, or ends in the middle."""


class NoZstd(Exception):
    """This host has no libzstd."""


class _Buffer(ctypes.Structure):
    """struct ZSTD_inBuffer and ZSTD_outBuffer: zstd.h."""

    _fields_ = (("place", ctypes.c_void_p), ("size", ctypes.c_size_t), ("position", ctypes.c_size_t))


class ZstdFile:
    """A compressed file, read forwards. Frames follow each other, some of them to be skipped, as zstd:chunked layers have it."""

    def __init__(self, path: str) -> None:
        """Raises NoZstd, and OSError."""
        self._library = _library()
        self._source: BinaryIO = open(path, "rb")  # noqa: SIM115 - closed with this.
        self._stream = ctypes.c_void_p(self._library.ZSTD_createDStream())
        self._input = ctypes.create_string_buffer(_INPUT_BYTES)
        self._taken = _Buffer(ctypes.addressof(self._input), 0, 0)
        self._in_frame = False
        if not self._stream:
            self._source.close()
            raise MemoryError("ZSTD_createDStream")
        self._check(self._library.ZSTD_DCtx_setParameter(self._stream, _WINDOW_LOG_PARAMETER, WINDOW_BYTES_MAX.bit_length() - 1))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._source.close()
        stream, self._stream = self._stream, ctypes.c_void_p()
        self._library.ZSTD_freeDStream(stream)  # Nothing, for none.

    def read(self, count: int, /) -> bytes:
        """At most so many bytes; none only at the end. Raises BadZstd."""
        if count <= 0:
            return b""
        if not self._stream:
            raise ValueError("the file is closed")
        space = ctypes.create_string_buffer(count)
        given = _Buffer(ctypes.addressof(space), count, 0)
        frames = 0
        while not given.position:
            if self._taken.position == self._taken.size and not self._fill() and not self._in_frame:
                return b""
            before = self._taken.position
            left = self._check(self._library.ZSTD_decompressStream(self._stream, ctypes.byref(given), ctypes.byref(self._taken)))
            self._in_frame = left != 0
            frames += not left
            if frames > FRAMES_WITHOUT_CONTENT_MAX:
                raise BadZstd("it has too many frames without content")
            if not given.position and self._taken.position == before and self._taken.position == self._taken.size:
                if self._in_frame:
                    raise BadZstd("it ends in the middle")
                return b""
        return ctypes.string_at(space, given.position)

    def _fill(self) -> int:
        content = self._source.read(_INPUT_BYTES)
        ctypes.memmove(self._input, content, len(content))
        self._taken.size, self._taken.position = len(content), 0
        return len(content)

    def _check(self, result: int) -> int:
        if self._library.ZSTD_isError(result):
            raise BadZstd(f"Zstandard: {self._library.ZSTD_getErrorName(result).decode('ascii', 'replace')}")
        return result


@functools.cache
def _load() -> ctypes.CDLL | None:
    """Load libzstd 1 (Debian: libzstd1, which dpkg itself depends on)."""
    try:
        library = ctypes.CDLL("libzstd.so.1")
    except OSError:
        return None
    buffer = ctypes.POINTER(_Buffer)
    library.ZSTD_createDStream.restype = ctypes.c_void_p
    library.ZSTD_createDStream.argtypes = ()
    library.ZSTD_freeDStream.restype = ctypes.c_size_t
    library.ZSTD_freeDStream.argtypes = (ctypes.c_void_p,)
    library.ZSTD_DCtx_setParameter.restype = ctypes.c_size_t
    library.ZSTD_DCtx_setParameter.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    library.ZSTD_decompressStream.restype = ctypes.c_size_t
    library.ZSTD_decompressStream.argtypes = (ctypes.c_void_p, buffer, buffer)
    library.ZSTD_isError.restype = ctypes.c_uint
    library.ZSTD_isError.argtypes = (ctypes.c_size_t,)
    library.ZSTD_getErrorName.restype = ctypes.c_char_p
    library.ZSTD_getErrorName.argtypes = (ctypes.c_size_t,)
    return library


def _library() -> ctypes.CDLL:
    library = _load()
    if library is None:
        raise NoZstd("libzstd is not installed on this host (package libzstd1)")
    return library


def is_installed() -> bool:
    """Whether this host can read it."""
    return _load() is not None
