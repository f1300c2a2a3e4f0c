"""Quantities in words, in English and Chinese, the same wherever a person reads them. For reading only: nothing parses this."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from kernel.limits import GIB, KIB, MIB

LANGUAGES = ("en", "zh")
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def format_duration(seconds: int) -> str:
    """The shortest text that a job spec reads back to the same number: 5400 gives `1h30m`."""
    parts = []
    for unit, size in _SECONDS.items():
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def format_moment(moment: datetime | str | None) -> str:
    """A time in a sentence: `2026-11-23 14:05 UTC`, from a time or from ISO 8601; what is neither stays as it is.

    Every sentence of the server holds its times so: the portal and the command line find them by this form and show them in the
    time zone of the reader.
    """
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return str(moment)
    return "?" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def format_bytes(amount: int) -> str:
    """Bytes in the largest binary unit that leaves a number of at least one: `16 GiB`, `1.5 GiB`."""
    for unit, size in (("TiB", 1024 * GIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(amount) >= size:
            return f"{_trimmed(amount / size)} {unit}"
    return f"{amount} B"


def format_amount(name: str, amount: int, language: str = "en") -> str:
    """One resource by the name of its field: `gpu_millis` 1500 gives `1.5 GPUs`."""
    if name == "memory_bytes":
        return format_bytes(amount)
    number = _trimmed(amount / 1000)
    if language == "zh":
        return f"{number} 张 GPU" if name == "gpu_millis" else f"{number} 核 CPU"
    one, many = ("GPU", "GPUs") if name == "gpu_millis" else ("core", "cores")
    return f"{number} {one if number == '1' else many}"


def format_amounts(amounts: Mapping[str, int], language: str = "en") -> str:
    """Several resources, GPUs first, without those of which there are none: `2 GPUs, 8 cores, 32 GiB`."""
    parts = [
        format_amount(name, amounts[name], language) for name in ("gpu_millis", "cpu_millis", "memory_bytes") if amounts.get(name)
    ]
    separator = "、" if language == "zh" else ", "
    return separator.join(parts) or ("无" if language == "zh" else "nothing")


def counted(number: object, one: str, many: str) -> str:
    """A number with its noun, in English: `1 job`, `2 jobs`; what is no number reads `? jobs`."""
    return f"{number if isinstance(number, int) else '?'} {one if number == 1 else many}"


def is_one(text: str) -> bool:
    """Whether English speaks of an amount, as these functions write it, in the singular: `1 GPU`, but not `1 GPU, 1 core`."""
    return text.startswith("1 ") and "," not in text


def _trimmed(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".") if number < 10 else f"{number:.1f}".rstrip("0").rstrip(".")
