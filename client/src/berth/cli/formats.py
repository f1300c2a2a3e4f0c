"""Values as people read them: amounts with their unit, times as ages, states with a sign beside the word."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from berth.cli.messages import _
from berth.errors import BerthError
from berth.sanitize import plain

NOTHING = "-"
DURATION_SECONDS_MAX = 36_525 * 86_400
"""A hundred years: longer than anything asked for here, and short enough to reckon with dates."""
YEAR_MIN, YEAR_MAX = 1000, 2999
"""Of times that are given: with the longest duration added, each is still a date."""
RUNTIME_SECONDS_MAX = 3_650 * 86_400
"""Of the run times of a queue, as the published schema has it; a test compares them."""
_DIGITS_MAX = 12  # Python reads no number of thousands of digits.
_SIGNS = {
    "succeeded": ("✓", "green"),
    "failed": ("✗", "red"),
    "stopped": ("■", "bright_black"),
    "running": ("●", "cyan"),
    "starting": ("◐", "cyan"),
    "admitted": ("◐", "cyan"),
    "stopping": ("◑", "yellow"),
    "queued": ("○", "yellow"),
    "held": ("◇", "yellow"),
    "waiting": ("○", "yellow"),
    "unreachable": ("?", "red"),
    "ready": ("✓", "green"),
    "building": ("●", "cyan"),
    "pending": ("○", "yellow"),
    "ended": ("■", "bright_black"),
    "sent": ("✓", "green"),
    "planned": ("○", "cyan"),
}
_DURATION = re.compile(r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")
_MOMENT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}) ([0-9]{2}:[0-9]{2}) UTC")
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_SIZE = re.compile(r"([0-9.]{1,25})(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P|)")
_SIZES = {"": 1} | {f"{name}i": 1024**power for power, name in enumerate("KMGTP", 1)}
_SIZES |= {name: 1000**power for power, name in enumerate("kMGTP", 1)}
_SPARKS = "▁▂▃▄▅▆▇█"


class BadAmount(BerthError):
    """Text that is no amount of anything."""

    code = "bad_amount"
    exit_code = 2


class BadDuration(BerthError):
    """Text that is neither a duration nor a time."""

    code = "bad_duration"
    exit_code = 2


class TooLong(BadDuration):
    """A duration beyond DURATION_SECONDS_MAX."""


def state_text(state: object) -> tuple[str, str]:
    """A state with its sign, and the style to show it in."""
    sign, style = _SIGNS.get(plain(state or "unknown").lower(), ("·", ""))
    return f"{sign} {state_word(state)}", style


def state_word(state: object) -> str:
    """A state in the language of the reader; one of a newer server as it is."""
    word = plain(state or "unknown").lower()
    return _(f"state {word}").removeprefix("state ")


def size_text(size_bytes: int | float | None) -> str:
    """`1.5 GiB`; at most four digits before the unit."""
    if size_bytes is None:
        return NOTHING
    amount, unit = float(size_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(amount) < 1024 or unit == "PiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 or amount == int(amount) else f"{amount:.1f} {unit}"


def millis_text(millis: int | None) -> str:
    """Thousandths as a number: 1500 is `1.5`."""
    return NOTHING if millis is None else f"{millis / 1000:g}"


def resources_text(amounts: Mapping[str, Any]) -> str:
    """`4 CPU, 16 GiB, 1 GPU a100`."""
    parts = []
    if amounts.get("cpu_millis"):
        parts.append(f"{millis_text(amounts['cpu_millis'])} CPU")
    if amounts.get("memory_bytes"):
        parts.append(size_text(amounts["memory_bytes"]))
    if amounts.get("gpu_millis"):
        parts.append(f"{millis_text(amounts['gpu_millis'])} GPU {plain(amounts.get('gpu_model') or '')}".strip())
    return ", ".join(parts) or NOTHING


def duration_text(seconds: float | None) -> str:
    """The two largest units: `2h 5m`, `45s`."""
    if seconds is None:
        return NOTHING
    if isinstance(seconds, float) and 0 < seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = int(max(0, seconds))
    parts: list[str] = []
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        amount, whole = divmod(whole, length)
        if amount or parts:
            parts.append(f"{amount}{unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0")) or "0s"


def planned_text(about: Mapping[str, Any]) -> str:
    """How long a job, or a plan, without a longest time is planned to run; empty where it has one, or the server is older."""
    if about.get("max_runtime_seconds") is not None or "planned_runtime_seconds" not in about:
        return ""
    seconds = about["planned_runtime_seconds"]
    return _("no limit") if seconds is None else duration_text(seconds)


def moment(text: object) -> datetime | None:
    """A time of the API, or None."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if isinstance(text, str) and text else None
    except ValueError:
        return None


def age_text(text: object, now: datetime | None = None) -> str:
    """How long ago, in the largest unit: `3m`."""
    at = moment(text)
    if at is None:
        return NOTHING
    return duration_text(int(((now or datetime.now(UTC)) - at).total_seconds())).split(" ")[0]


def time_text(text: object) -> str:
    """A moment on the clock of this machine, with its distance from UTC: `2026-11-28 14:05:00+01:00`."""
    at = moment(text)
    return at.astimezone().isoformat(" ", "seconds") if at else NOTHING


def said(text: object) -> str:
    """A sentence of the server as one line of harmless text, its times on the clock of this machine."""
    return localized(plain(text))


def starting_text(waiting: Mapping[str, Any]) -> str:
    """What a task waits for before it begins; what the cluster itself says of it is quoted."""
    words, detail = said(waiting["text"]), plain(waiting.get("detail") or "")
    return f"{words} “{detail}”" if detail else words


def progress_text(progress: Mapping[str, Any] | None) -> str:
    """How much is done, in the program's own units and as a part: `120/1000 (12 %)`. Down, so that 100 % is all."""
    if not progress:
        return NOTHING
    done, total = progress["done"], progress["total"]
    return f"{done}/{total} ({100 * done // total} %)" if total else f"{done}/{total}"


def localized(text: str) -> str:
    """Times in the server's sentences, `2026-11-23 14:05 UTC`, on the clock of this machine."""
    return _MOMENT.sub(lambda found: _minute(found[0], f"{found[1]}T{found[2]}Z"), text)


def _minute(written: str, iso: str) -> str:
    at = moment(iso)
    return at.astimezone().isoformat(" ", "minutes") if at else written


def span_text(started_at: object, ended_at: object) -> str:
    """How long something ran, or has been running."""
    seconds = span_seconds(started_at, ended_at)
    return NOTHING if seconds is None else duration_text(seconds)


def span_seconds(started_at: object, ended_at: object) -> float | None:
    """Seconds that something ran, or has been running; None before its start."""
    start = moment(started_at)
    return None if start is None else ((moment(ended_at) or datetime.now(UTC)) - start).total_seconds()


def until_text(at: object) -> str:
    """How long it is until a moment; nothing for one that is over."""
    moment_at = moment(at)
    return NOTHING if moment_at is None else duration_text(max(0.0, (moment_at - datetime.now(UTC)).total_seconds()))


def name_of(value: object) -> str:
    """The name of something that the API gives as object or as text."""
    if isinstance(value, Mapping):
        value = value.get("name") or value.get("path") or value.get("slug") or value.get("id")
    return plain(value) if value not in (None, "") else NOTHING


def parse_since(text: str, now: datetime | None = None) -> datetime:
    """`10m`, `2h30m`, `3d` before now, or a time as ISO 8601 (without zone: of this machine)."""
    match = _DURATION.fullmatch(text.strip())
    if match and any(match.groups()):
        return (now or datetime.now(UTC)) - timedelta(seconds=parse_seconds(text))
    try:
        given = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadDuration(f"{text!r} is no time.", hint="Write 10m, 2h, 3d, or 2027-01-31T18:00") from None
    if not YEAR_MIN <= given.year <= YEAR_MAX:
        raise BadDuration(_("{given} is outside the years {first} to {last}.", given=repr(text), first=YEAR_MIN, last=YEAR_MAX))
    return given.astimezone(UTC) if given.tzinfo is not None else _on_this_clock(given)


def _on_this_clock(given: datetime) -> datetime:
    """A time without a zone, as clocks here show it; one that they leave out or show twice says no moment."""
    first, second = (given.replace(fold=fold).astimezone() for fold in (0, 1))
    if first.utcoffset() == second.utcoffset():
        return first.astimezone(UTC)
    shown = f"{given:%Y-%m-%dT%H:%M}"
    if first.replace(tzinfo=None) != given.replace(fold=0):
        message = _("{time} does not exist here: clocks go forward over it.", time=shown)
        raise BadDuration(message, hint=max(first, second).isoformat(timespec="minutes"))
    choices = "   ·   ".join(at.isoformat(timespec="minutes") for at in (first, second))
    raise BadDuration(_("{time} comes twice here: clocks go back over it. Say which.", time=shown), hint=choices)


def iso_time(text: str) -> str:
    """What `parse_since` reads, as the API writes times."""
    return parse_since(text).isoformat().replace("+00:00", "Z")


def parse_when(text: str, now: datetime | None = None) -> datetime:
    """`10m`, `2h30m`, `3d` from now on, or a time as ISO 8601 (without zone: of this machine)."""
    match = _DURATION.fullmatch(text.strip())
    if match and any(match.groups()):
        return (now or datetime.now(UTC)) + timedelta(seconds=parse_seconds(text))
    return parse_since(text)


def parse_runtime(queue: str, text: str) -> int | None:
    """A run time for a queue in seconds; None for `none`. BadDuration that names the queue for one outside the range."""
    if text.strip().lower() == "none":
        return None
    try:
        seconds = int(parse_seconds(text))
    except TooLong:
        seconds = RUNTIME_SECONDS_MAX + 1
    if 1 <= seconds <= RUNTIME_SECONDS_MAX:
        return seconds
    days = RUNTIME_SECONDS_MAX // 86_400
    raise BadDuration(
        _(
            "{given} is not a valid run time for queue {queue}: it must be between 1s and {days}d.",
            given=text[:40],
            queue=queue,
            days=days,
        ),
        hint=_("Write 90m, 36h or 2d; `none` removes the limit."),
    )


def parse_seconds(text: str) -> float:
    """`90`, `90s`, `5m`, `1h30m` as seconds."""
    match = _DURATION.fullmatch(text.strip())
    if not match or not any(match.groups()):
        raise BadDuration(f"{text!r} is no duration.", hint="Write 90s, 5m or 1h30m")
    parts = [(part or "0").lstrip("0") for part in match.groups()]
    if all(len(part) <= _DIGITS_MAX for part in parts):
        seconds = sum(int(part or 0) * unit for part, unit in zip(parts, (604800, 86400, 3600, 60, 1), strict=True))
        if seconds <= DURATION_SECONDS_MAX:
            return seconds
    raise TooLong(
        _("{given} is too long.", given=repr(text[:40])),
        hint=_("At most {days} days.", days=DURATION_SECONDS_MAX // 86_400),
    )


def parse_millis(text: str) -> int:
    """`16` or `0.5` in thousandths."""
    return _exactly(text, text.strip(), 1000, hint="Write 16, 0.5 or none")


def parse_size(text: str) -> int:
    """`64Gi`, `512M` or a number of bytes, as in a job file."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise BadAmount(f"{text!r} is no amount of memory.", hint="Write 64Gi, 512Mi or none")
    return _exactly(text, match[1], _SIZES[match[2]], hint="Write 64Gi, 512Mi or none")


def _exactly(text: str, number: str, unit: int, *, hint: str) -> int:
    if not _NUMBER.fullmatch(number):
        raise BadAmount(f"{text!r} is no amount.", hint=hint)
    amount = Decimal(number) * unit
    if amount != int(amount):
        raise BadAmount(f"{text!r} is finer than what can be counted.", hint=hint)
    return int(amount)


def sparkline(values: list[float | None], width: int) -> str:
    """The last values as a row of bars; a gap is a space."""
    shown = values[-width:]
    known = [value for value in shown if value is not None]
    if not known:
        return ""
    low, high = min(known, default=0.0), max(known, default=0.0)
    low = min(low, 0.0)
    scale = (len(_SPARKS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if value is None else _SPARKS[int((value - low) * scale)] for value in shown)


def amounts_text(row: Mapping[str, Any]) -> str:
    """Amounts in their smallest units as people read them: `2 GPU, 8 cores, 16.0 GiB`."""
    parts = [f"{millis_text(row['gpu_millis'])} GPU"] if row["gpu_millis"] else []
    if row["cpu_millis"]:
        parts.append(_("1 core") if row["cpu_millis"] == 1000 else _("{cores} cores", cores=millis_text(row["cpu_millis"])))
    parts += [size_text(row["memory_bytes"])] if row["memory_bytes"] else []
    return ", ".join(parts)


def holder_text(row: Mapping[str, Any]) -> str:
    """The queue that holds something; null stands for all that one may not see."""
    return plain(row["queue"]["name"]) if row["queue"] else _("other tenants")
