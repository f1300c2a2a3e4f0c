"""Slurm's ways of writing times, amounts of memory and GPUs (man sbatch, Slurm 24.05), read strictly.

Each reader gives the value, or None for what Slurm would refuse too."""

from __future__ import annotations

import re

_TIME = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,9})(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?")
_MEMORY = re.compile(r"([0-9]{1,15})([KMGT]?)B?", re.IGNORECASE)
_GPU = re.compile(r"(?:([A-Za-z][A-Za-z0-9._-]{0,62}):)?([0-9]{1,6})")
NO_LIMIT = frozenset({"0", "-1", "unlimited", "infinite"})


def read_seconds(text: str) -> int | None:
    """Seconds of `30`, `30:00`, `1:30:00`, `2-12`, `2-12:30` or `2-12:30:00`; minutes alone without a colon."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    days, first, second, third = (int(part) if part else 0 for part in match.groups())
    if match[1]:
        return ((days * 24 + first) * 60 + second) * 60 + third
    if match[4]:
        return (first * 60 + second) * 60 + third
    return first * 60 + second


def read_memory(text: str) -> int | None:
    """Bytes of `4000`, `16G` or `512K`; mebibytes without a unit."""
    match = _MEMORY.fullmatch(text)
    return None if match is None else int(match[1]) * 1024 ** (" KMGT".index(match[2].upper() or "M"))


def memory_text(amount: int) -> str:
    """Bytes in the largest unit that they are a whole number of."""
    for unit, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if amount >= size and amount % size == 0:
            return f"{amount // size}{unit}"
    return str(amount)


def read_gpus(text: str) -> tuple[str, int] | None:
    """Model ("" for any) and number of `4` or `a100:4`."""
    match = _GPU.fullmatch(text)
    return None if match is None else ((match[1] or "").lower(), int(match[2]))
