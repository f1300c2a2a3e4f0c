"""GPUs that a test scripts below our code: a library with NVML's symbols, compiled once a run, that says what a file says.

    nvml = StandIn.build(folder).put(Card("GPU-a"), Card("GPU-b"))
    nvml.put(replace(card, status=GPU_IS_LOST), other)     # what it says from now on
    nvml.xid("GPU-a", 79)                                  # the driver reports an error

`load` makes it the NVML of this process; `environment` that of a process to be started.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml.c")
LIBRARY = "libnvidia-ml.so.1"
SCRIPT = "NVML_STAND_IN"
GPU_IS_LOST, NOT_SUPPORTED, DRIVER_NOT_LOADED = 15, 3, 9
HW_THERMAL = 0x40  # NVML's bit of a clock slowed down by the device because of its heat.
EVERYTHING = 0x1FF
GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Card:
    """What a device answers; see `nvml.c`."""

    uuid: str
    name: str = "NVIDIA H200"
    utilisation: int = 0
    used_bytes: int = 0
    total_bytes: int = 141 * GIB
    milliwatts: int = 75_000
    celsius: int = 35
    reasons: int = 0
    ecc: int = 0
    remap_failed: bool = False
    unsupported: int = 0
    status: int = 0

    def line(self, index: int) -> str:
        told = (
            index, self.status, self.uuid, self.name.replace(" ", "_"), self.utilisation, self.used_bytes, self.total_bytes,
            self.milliwatts, self.celsius, self.reasons, self.ecc, int(self.remap_failed), self.unsupported,
        )  # fmt: skip
        return "gpu " + " ".join(str(value) for value in told)


class StandIn:
    """The compiled library and the file that scripts it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._cards: tuple[Card, ...] = ()
        self._xids: list[tuple[int, int]] = []
        self._held: Mapping[tuple[str, int], int] = {}
        self._init, self._delay_millis = 0, 0

    @classmethod
    def build(cls, folder: Path) -> StandIn:
        """Compile the library into a folder that every user may read."""
        command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", f"-Wl,-soname,{LIBRARY}", "-o", str(folder / LIBRARY)]
        subprocess.run([*command, str(SOURCE)], check=True)
        made = cls(folder)
        made._write()
        return made

    @property
    def environment(self) -> Mapping[str, str]:
        return {"LD_LIBRARY_PATH": str(self.folder), SCRIPT: str(self._script)}

    def put(self, *cards: Card) -> StandIn:
        self._cards = cards
        self._write()
        return self

    def answer(self, *, init: int = 0, delay_millis: int = 0) -> None:
        """What the driver answers to the first call, and how long every call takes."""
        self._init, self._delay_millis = init, delay_millis
        self._write()

    def hold(self, held: Mapping[tuple[str, int], int]) -> None:
        """How many bytes of which device which process holds from now on."""
        self._held = held
        self._write()

    def xid(self, uuid: str, code: int) -> None:
        """Let the driver report an error of a device once."""
        index = next(number for number, card in enumerate(self._cards) if card.uuid == uuid)
        self._xids.append((index, code))
        self._write()

    @contextmanager
    def load(self) -> Iterator[StandIn]:
        """Make it the NVML of this process, which finds a library by its name once it is loaded; without a driver afterwards."""
        ctypes.CDLL(str(self.folder / LIBRARY), mode=ctypes.RTLD_GLOBAL)
        before = os.environ.get(SCRIPT)
        os.environ[SCRIPT] = str(self._script)
        try:
            yield self
        finally:
            if before is None:
                del os.environ[SCRIPT]
            else:
                os.environ[SCRIPT] = before

    @property
    def _script(self) -> Path:
        return self.folder / "script"

    def _write(self) -> None:
        lines = [f"init {self._init}", f"delay {self._delay_millis}"]
        lines += [card.line(index) for index, card in enumerate(self._cards)]
        places = {card.uuid: index for index, card in enumerate(self._cards)}
        lines += [f"process {places[uuid]} {pid} {used}" for (uuid, pid), used in self._held.items()]
        lines += [f"xid {number} {index} {code}" for number, (index, code) in enumerate(self._xids, 1)]
        part = self._script.with_suffix(".part")
        part.write_text("\n".join(lines) + "\n")
        part.chmod(0o644)
        part.replace(self._script)
