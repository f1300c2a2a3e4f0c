"""The grammars of single values in a job: quantities, durations, names, paths. Plain functions from what a user wrote to what
is stored, raising `BadValue` with a stable code, words that name the value and the limit, and the edit that would help.

Nothing here trims, expands or guesses: a value is either of a documented form or refused with a suggestion.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal

from jobs import bounds
from kernel import limits
from kernel.clock import WRITTEN_LENGTH_MAX, read_moment
from kernel.priorities import PRIORITIES as PRIORITIES
from kernel.priorities import PRIORITY_MAX as PRIORITY_MAX
from kernel.words import Saying, Text, as_text, format_duration

SHOWN_LENGTH = 60  # Characters of a user's value repeated in a message; the rest adds nothing.

SIGNALS = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "CONT")

_NUMBER = r"(?:[0-9]{1,18}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})"
_CPU = re.compile(rf"({_NUMBER})(m?)")
_MEMORY_UNITS = {
    "": 1,
    "k": 10**3,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
}
_MEMORY = re.compile(rf"({_NUMBER})([A-Za-z]{{0,2}})")
_DURATION_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:([0-9]{1,9})w)?(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,10})s)?")
_LOOSE_DURATION = re.compile(r"\s*([0-9]{1,9})\s*(w|d|h|m|s)[a-z]{0,8}\s*", re.IGNORECASE)
_CLOCK = re.compile(r"(?:([0-9]{1,4})-)?([0-9]{1,5}):([0-9]{1,2})(?::([0-9]{1,2}))?")
_GPU = re.compile(rf"(?:([A-Za-z0-9][A-Za-z0-9._-]{{0,62}}):)?({_NUMBER})")

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
QUEUE = r"[A-Za-z0-9][A-Za-z0-9._/-]*"
ROLE = r"[a-z]([a-z0-9-]*[a-z0-9])?"
ENV_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
LABEL = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
NODE_LABEL = r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?"
NODE_LABEL_VALUE = r"[^\x00-\x1f\x7f]+"
TAINT = r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?"
TAG = r"\w[\w.:@+-]*"
IMAGE = r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*"
GIT_URL = r"(https://|ssh://|git@)[A-Za-z0-9][!-~]*"
GIT_REF = r"[A-Za-z0-9][A-Za-z0-9_+-]*([./][A-Za-z0-9_+-]+)*"
SHA256 = r"[0-9a-f]{64}"

_SYSTEM_DIRECTORIES = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root", "/run", "/sbin", "/sys", "/usr"),
    *("/var/run", "/var/lib/berth"),
)


class BadValue(Exception):
    """A value has none of the documented forms. Carries what a FieldError needs except the path."""

    def __init__(self, code: str, message: Saying, hint: Saying = "") -> None:
        super().__init__(str(message))
        self.code = code
        self.message = message
        self.hint = hint


def in_chinese(words: Saying) -> str:
    """A name or a rule as a Chinese sentence holds it."""
    return as_text(words).zh


def subject_zh(name: Saying) -> str:
    """A name before more Chinese words: a space follows the Latin letters of a key, and no Chinese word."""
    words = in_chinese(name)
    return f"{words} " if words.isascii() else words


_NOT_SHOWN = (  # Values that a message names instead of repeating them.
    (type(None), Text("nothing", "空值")),
    (dict, Text("a mapping", "映射")),
    ((list, tuple), Text("a list", "列表")),
)


def shown(value: object, language: str = "en") -> str:
    """Repeat a user's value in a message: quoted when it is text, cut when it is long."""
    if isinstance(value, str):
        body = value if len(value) <= SHOWN_LENGTH else value[:SHOWN_LENGTH] + "…"
        return '"' + "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in body) + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    for kind, words in _NOT_SHOWN:
        if isinstance(value, kind):
            return words.in_language(language)
    return str(value)[:SHOWN_LENGTH]


# --- Quantities ------------------------------------------------------------------------------------------------------


def parse_cpu(value: object) -> int:
    """Thousandths of a core from `4`, `0.5`, `"4"` or `"500m"`."""
    hint = Text(
        'Write cores such as 4 or 0.5, or thousandths such as "500m".', '请写核数，如 4 或 0.5，或写千分之一核，如 "500m"。'
    )
    match = _quantity(_CPU, value)
    if match is None:
        raise BadValue(
            "cpu_form",
            Text(f"cpu must be a number of cores, not {shown(value)}.", f"cpu 须为核数，而非{shown(value, 'zh')}。"),
            hint,
        )
    number = _exactly(match[1], 1 if match[2] else 1000)
    if number is None:
        raise BadValue(
            "cpu_precision",
            Text(
                f"cpu {shown(value)} is finer than a thousandth of a core.",
                f"cpu 的值 {shown(value, 'zh')} 小于千分之一核的精度。",
            ),
            hint,
        )
    return _bounded(int(number), 1, bounds.TASK_CPU_MILLIS, "cpu", value, _cores("0.001"), _cores(bounds.TASK_CPU_MILLIS // 1000))


def _cores(count: object) -> Text[str]:
    return Text(f"{count} cores", f"{count} 核")


_MEMORY_MAX = f"{bounds.TASK_MEMORY_BYTES // 2**40}Ti"


def parse_memory(value: object) -> int:
    """Bytes from an integer or text such as `16Gi` (binary) or `16G` (decimal)."""
    amount = _parse_bytes(value, "memory")
    return _bounded(amount, limits.MIB, bounds.TASK_MEMORY_BYTES, "memory", value, "1Mi", _MEMORY_MAX)


def parse_shm(value: object) -> int:
    """Bytes of shared memory; zero leaves what the engine gives."""
    amount = _parse_bytes(value, "shm")
    return _bounded(amount, 0, bounds.TASK_MEMORY_BYTES, "shm", value, "0", _MEMORY_MAX)


def _parse_bytes(value: object, name: str) -> int:
    hint = Text(
        f"Write {name}: 16Gi, or a whole number of bytes. Units: Ki Mi Gi Ti Pi (powers of 1024), k M G T P (powers of 1000).",
        f"请写 {name}: 16Gi，或整数字节数。单位：Ki Mi Gi Ti Pi（1024 的幂），k M G T P（1000 的幂）。",
    )
    match = _quantity(_MEMORY, value)
    if match is None or (match[2] not in _MEMORY_UNITS):
        raise BadValue(
            f"{name}_form",
            Text(
                f"{name} must be an amount such as 16Gi, not {shown(value)}.",
                f"{name} 须为 16Gi 这样的数量，而非{shown(value, 'zh')}。",
            ),
            _memory_hint(value, name) or hint,
        )
    number = _exactly(match[1], _MEMORY_UNITS[match[2]])
    if number is None:
        raise BadValue(
            f"{name}_precision",
            Text(f"{name} {shown(value)} is not a whole number of bytes.", f"{name} 的值 {shown(value, 'zh')} 不是整数字节。"),
            hint,
        )
    return number


def _memory_hint(value: object, name: str) -> Saying:
    """Suggest the edit for the usual slips: a space, `GB`, `gib`."""
    if not isinstance(value, str) or len(value) > SHOWN_LENGTH:
        return ""
    match = re.fullmatch(rf"\s*({_NUMBER})\s*([kmgtp])i?b?(?:ytes)?\s*", value, re.IGNORECASE)
    if match is None:
        return ""
    amount = f"{match[1]}{match[2].upper()}i"
    return Text(f"Write {name}: {amount}.", f"请写 {name}: {amount}。")


def parse_gpu(value: object) -> tuple[str, int]:
    """Model ("" for any) and thousandths of a GPU from `1`, `0.5`, `"2"` or `"a100:1"`."""
    hint = Text(
        'Write gpu: 2, gpu: "a100:2" for a model, or gpu: 0.5 for a share of one.',
        '请写 gpu: 2；指定型号写 gpu: "a100:2"；共享一块 GPU 写 gpu: 0.5。',
    )
    match = _quantity(_GPU, value)
    if match is None:
        raise BadValue(
            "gpu_form",
            Text(
                f"gpu must be a number or model:number, not {shown(value)}.",
                f"gpu 须为数字或 型号:数字，而非{shown(value, 'zh')}。",
            ),
            hint,
        )
    number = _exactly(match[2], 1000)
    if number is None:
        raise BadValue(
            "gpu_precision",
            Text(
                f"gpu {shown(value)} is finer than a thousandth of a GPU.",
                f"gpu 的值 {shown(value, 'zh')} 小于千分之一块 GPU 的精度。",
            ),
            hint,
        )
    millis = _bounded(number, 0, bounds.TASK_GPU_MILLIS, "gpu", value, "0", str(bounds.TASK_GPU_MILLIS // 1000))
    if millis > 1000 and millis % 1000:
        raise BadValue(
            "gpu_share",
            Text(
                f"gpu {shown(value)} mixes whole GPUs and a share; above 1 only whole GPUs exist.",
                f"gpu 的值 {shown(value, 'zh')} 混合了整卡与份额；大于 1 时只能用整卡。",
            ),
            hint,
        )
    if match[1] and not millis:
        raise BadValue(
            "gpu_form",
            Text(
                f"gpu {shown(value)} names a model but asks for none of it.",
                f"gpu 的值 {shown(value, 'zh')} 指定了型号，却没有申请数量。",
            ),
            hint,
        )
    return match[1] or "", millis


def _quantity(pattern: re.Pattern[str], value: object) -> re.Match[str] | None:
    """Match numbers by their shortest decimal text, so that 0.1 means a tenth exactly and no arithmetic is done on floats."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return pattern.fullmatch(str(value)) if abs(value) < 10**18 else None
    if isinstance(value, float):
        return pattern.fullmatch(format(Decimal(repr(value)), "f")) if math.isfinite(value) and abs(value) < 1e18 else None
    return pattern.fullmatch(value) if isinstance(value, str) and len(value) <= 100 else None


def _exactly(digits: str, factor: int) -> int | None:
    """A decimal number times a factor, in integers alone; None where that is no whole number."""
    before, _, after = digits.partition(".")
    amount, rest = divmod(int(before + after) * factor, 10 ** len(after))
    return None if rest else amount


def _bounded(amount: int, least: int, most: int, name: str, value: object, least_text: Saying, most_text: Saying) -> int:
    if amount < least:
        raise BadValue(
            f"{name}_too_small",
            Text(
                f"{name} {shown(value)} is below the least possible, {least_text}.",
                f"{name} 的值 {shown(value, 'zh')} 小于最小值 {in_chinese(least_text)}。",
            ),
        )
    if amount > most:
        raise BadValue(
            f"{name}_too_large",
            Text(
                f"{name} {shown(value)} is above the limit of {most_text} for one task.",
                f"{name} 的值 {shown(value, 'zh')} 超过单个任务的上限 {in_chinese(most_text)}。",
            ),
        )
    return amount


# --- Numbers, durations, moments -------------------------------------------------------------------------------------


def whole(name: str, least: int, most: int) -> Callable[[object], int]:
    """Make a parser of whole numbers within bounds; `name` is what messages call the value."""

    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            hint = (
                Text(f"Write {name}: {value} without quotes.", f"请写 {name}: {value}，不加引号。")
                if isinstance(value, str) and value.isdecimal() and len(value) < 20
                else ""
            )
            raise BadValue(
                "integer",
                Text(f"{name} must be a whole number, not {shown(value)}.", f"{name} 须为整数，而非{shown(value, 'zh')}。"),
                hint,
            )
        if not least <= value <= most:
            raise BadValue(
                "range",
                Text(
                    f"{name} is {shown(value)}; it must be between {least} and {most}.",
                    f"{name} 为 {shown(value, 'zh')}；须在 {least} 到 {most} 之间。",
                ),
            )
        return value

    return parse


def boolean(name: str) -> Callable[[object], bool]:
    """Make a parser of true and false; the words that YAML 1.1 took for booleans get a hint."""

    def parse(value: object) -> bool:
        if isinstance(value, bool):
            return value
        word = value.lower() if isinstance(value, str) else ""
        meant = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}.get(word, word)
        hint = Text(f"Write {name}: {meant}.", f"请写 {name}: {meant}。") if meant in {"true", "false"} else ""
        raise BadValue(
            "boolean",
            Text(f"{name} must be true or false, not {shown(value)}.", f"{name} 须为 true 或 false，而非{shown(value, 'zh')}。"),
            hint,
        )

    return parse


def duration(name: str, least: int, most: int) -> Callable[[object], int]:
    """Make a parser of durations to seconds: an integer, or text such as `90s`, `2h`, `1d12h`."""

    def parse(value: object) -> int:
        seconds = _seconds(value, name)
        if not least <= seconds <= most:
            raise BadValue(
                "range",
                Text(
                    f"{name} is {shown(value)}; it must be between {format_duration(least)} and {format_duration(most)}.",
                    f"{name} 为 {shown(value, 'zh')}；须在 {format_duration(least)} 到 {format_duration(most)} 之间。",
                ),
            )
        return seconds

    return parse


def _seconds(value: object, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = value if isinstance(value, str) and len(value) <= 100 else ""
    match = _DURATION.fullmatch(text) if text else None
    if match is None:
        meant = _meant_duration(text) or "2h"
        hint = Text(
            f"Write {name}: {meant}. Units: w d h m s, largest first, such as 1h30m; a bare number is seconds.",
            f"请写 {name}: {meant}。单位：w d h m s，从大到小，如 1h30m；只写数字表示秒。",
        )
        raise BadValue(
            "duration_form",
            Text(
                f"{name} must be a duration such as 2h or 90s, not {shown(value)}.",
                f"{name} 须为时长，如 2h 或 90s，而非{shown(value, 'zh')}。",
            ),
            hint,
        )
    return sum(int(part) * unit for part, unit in zip(match.groups(), _DURATION_UNITS.values(), strict=True) if part)


def _meant_duration(text: str) -> str:
    """What the writer of `2 h`, `2 hours`, `1:30:00` or `1-12:00:00` meant."""
    if loose := _LOOSE_DURATION.fullmatch(text):
        return f"{loose[1]}{loose[2].lower()}"
    if clock := _CLOCK.fullmatch(text):
        days, first, second, third = (int(part) if part else 0 for part in clock.groups())
        seconds = first * 3600 + second * 60 + third if clock[4] or clock[1] else first * 60 + second
        return format_duration(days * 86_400 + seconds)
    return ""


def moment(name: str) -> Callable[[object], datetime]:
    """Make a parser of moments to UTC, from ISO 8601 text with a time zone; one without would mean something else on every
    machine. `name` is what messages call the value."""

    def parse(value: object) -> datetime:
        hint = Text(
            "Write the time with its zone, such as 2027-01-31T18:00:00Z or 2027-01-31T18:00:00+08:00.",
            "请写出带时区的时间，如 2027-01-31T18:00:00Z 或 2027-01-31T18:00:00+08:00。",
        )
        refusal = BadValue(
            "moment_form",
            Text(
                f"{name} must be a date and time with a zone, not {shown(value)}.",
                f"{name} 须为带时区的日期和时间，而非{shown(value, 'zh')}。",
            ),
            hint,
        )
        try:
            if isinstance(value, datetime):  # Some documents have times of their own.
                value = value.isoformat()
            if not isinstance(value, str) or not 16 <= len(value) <= WRITTEN_LENGTH_MAX:
                raise refusal
            return read_moment(value).replace(microsecond=0)
        except ValueError:
            raise refusal from None

    return parse


# --- Text ------------------------------------------------------------------------------------------------------------


def pattern_text(name: Saying, pattern: str, length: int, rule: Text[str], code: str = "") -> Callable[[object], str]:
    """Make a parser of text that matches a pattern wholly. `rule` says in words what is allowed."""
    compiled = re.compile(pattern)

    def parse(value: object) -> str:
        if not isinstance(value, str):
            hint = (
                Text(f'Write it in quotes: "{value}".', f'请加引号："{value}"。')
                if isinstance(value, (int, float)) and not isinstance(value, bool)
                else ""
            )
            raise BadValue(
                "text",
                Text(f"{name} must be text, not {shown(value)}.", f"{subject_zh(name)}须为文本，而非{shown(value, 'zh')}。"),
                hint,
            )
        if len(value) > length:
            raise BadValue(
                "too_long",
                Text(
                    f"{name} has {len(value)} characters; at most {length} are allowed.",
                    f"{subject_zh(name)}有 {len(value)} 个字符；最多 {length} 个。",
                ),
            )
        if compiled.fullmatch(value) is None:
            raise BadValue(
                code or "grammar",
                Text(
                    f"{name} {shown(value)} is not allowed: {rule.en}.", f"{in_chinese(name)} {shown(value)} 不可用：{rule.zh}。"
                ),
            )
        return value

    return parse


def free_text(name: Saying, *, numbers: bool = False) -> Callable[[object], str]:
    """Make a parser of text that is passed on as it stands. With `numbers`, whole numbers and booleans become what JSON writes
    for them; a fraction has lost its form (3.10 is 3.1), and is never guessed."""

    def parse(value: object) -> str:
        if numbers and isinstance(value, int):
            return str(value).lower()
        if not isinstance(value, str):
            hint = "" if isinstance(value, (dict, list)) or value is None else Text("Put it into quotes.", "请加引号。")
            raise BadValue(
                "text",
                Text(f"{name} must be text, not {shown(value)}.", f"{subject_zh(name)}须为文本，而非{shown(value, 'zh')}。"),
                hint,
            )
        if "\0" in value:
            raise BadValue(
                "nul",
                Text(
                    f"{name} contains a NUL character, which no program can receive.",
                    f"{subject_zh(name)}含有 NUL 字符，任何程序都不能接收。",
                ),
            )
        if len(value) > limits.TEXT_BYTES or len(value.encode("utf-8", "surrogatepass")) > limits.TEXT_BYTES:
            raise BadValue(
                "too_long",
                Text(f"{name} is longer than {limits.TEXT_BYTES} bytes.", f"{subject_zh(name)}超过 {limits.TEXT_BYTES} 字节。"),
                Text("Put long text into a file of your code.", "请将长文本放入代码中的文件。"),
            )
        return value

    return parse


def parse_command(value: object) -> str | tuple[str, ...]:
    """A shell text, or the exact argument list. The text is never looked into."""
    if isinstance(value, str):
        if not value.strip():
            raise BadValue(
                "command_empty",
                Text("command is empty.", "command 为空。"),
                Text("Write what to run, such as command: python train.py.", "请写要运行的命令，如 command: python train.py。"),
            )
        return free_text("command")(value)
    if isinstance(value, (list, tuple)) and value:
        if len(value) > limits.COMMAND_ARGUMENTS:
            raise BadValue(
                "too_many",
                Text(
                    f"command has {len(value)} arguments; at most {limits.COMMAND_ARGUMENTS} are allowed.",
                    f"command 有 {len(value)} 个参数；最多 {limits.COMMAND_ARGUMENTS} 个。",
                ),
            )
        arguments = tuple(free_text(Text("an argument of command", "命令的参数"))(item) for item in value)
        if not arguments[0]:
            raise BadValue(
                "command_empty",
                Text("The program to run, the first entry of command, is empty.", "要运行的程序，即 command 的第一项，为空。"),
            )
        if sum(len(argument.encode("utf-8", "surrogatepass")) for argument in arguments) > limits.TEXT_BYTES:
            raise BadValue(
                "too_long",
                Text(
                    f"The arguments of command are longer than {limits.TEXT_BYTES} bytes together.",
                    f"command 的参数合计超过 {limits.TEXT_BYTES} 字节。",
                ),
            )
        return arguments
    raise BadValue(
        "command_form",
        Text(
            f"command must be text or a list of arguments, not {shown(value)}.",
            f"command 须为文本或参数列表，而非{shown(value, 'zh')}。",
        ),
        Text("Write command: python train.py.", "请写 command: python train.py。"),
    )


def parse_priority(value: object) -> int:
    """A number, or one of the names of `PRIORITIES`."""
    if isinstance(value, str):
        if value in PRIORITIES:
            return PRIORITIES[value]
        raise BadValue(
            "priority_name",
            Text(f"priority {shown(value)} is unknown.", f"没有优先级 {shown(value, 'zh')}。"),
            Text(f"Use {', '.join(PRIORITIES)}, or a number.", f"请用 {', '.join(PRIORITIES)}，或一个数字。"),
        )
    return whole("priority", 0, PRIORITY_MAX)(value)


_TAG_RULE = Text(
    "letters of any script, digits and _ . : @ + -, starting with a letter or digit",
    "可用任何文字的字母、数字与 _ . : @ + -，首字符须为字母或数字",
)


def parse_tag(value: object) -> str:
    """A tag, as kept on a job."""
    return pattern_text(Text("A tag", "标签"), TAG, bounds.TAG_LENGTH, _TAG_RULE)(value)


def parse_signal(value: object) -> str:
    """A signal name without SIG."""
    if isinstance(value, str) and value in SIGNALS:
        return value
    name = value.upper().removeprefix("SIG") if isinstance(value, str) else ""
    hint = (
        Text(f"Write signal: {name}.", f"请写 signal: {in_chinese(name)}。")
        if name in SIGNALS
        else Text(f"Use one of {', '.join(SIGNALS)}.", f"可选：{', '.join(SIGNALS)}。")
    )
    raise BadValue(
        "signal",
        Text(f"signal {shown(value)} is not one that a job can ask for.", f"作业不能使用信号 {shown(value, 'zh')}。"),
        hint,
    )


# --- Paths -----------------------------------------------------------------------------------------------------------


def relative_path(name: Saying) -> Callable[[object], str]:
    """Make a parser of paths below the working directory: normalised, without `..`, never absolute."""

    def parse(value: object) -> str:
        path = _path_text(name, value)
        if path.startswith("/"):
            raise BadValue(
                "path_absolute",
                Text(
                    f"{name} {shown(path)} must be relative to the working directory.",
                    f"{subject_zh(name)}的值 {shown(path, 'zh')} 须为相对于工作目录的路径。",
                ),
                Text(f"Write {path.lstrip('/') or '.'}.", f"请写 {path.lstrip('/') or '.'}。"),
            )
        if ".." in path.split("/"):
            raise BadValue(
                "path_escape",
                Text(
                    f"{name} {shown(path)} leaves the working directory; .. is not allowed.",
                    f"{subject_zh(name)}的值 {shown(path, 'zh')} 超出工作目录；不允许使用 ..。",
                ),
            )
        return posixpath.normpath(path)

    return parse


def absolute_path(name: Saying) -> Callable[[object], str]:
    """Make a parser of normalised absolute paths that shadow no directory of the system."""

    def parse(value: object) -> str:
        path = _path_text(name, value)
        normal = "/" + posixpath.normpath(path).lstrip("/")
        if not path.startswith("/"):
            raise BadValue(
                "path_relative",
                Text(f"{name} {shown(path)} must be absolute.", f"{subject_zh(name)}的值 {shown(path, 'zh')} 须为绝对路径。"),
                Text(f"Write {'/' + path.lstrip('./')}.", f"请写 {'/' + path.lstrip('./')}。"),
            )
        if path not in {normal, normal + "/"}:
            raise BadValue(
                "path_normal",
                Text(
                    f"{name} {shown(path)} is not in its shortest form.",
                    f"{subject_zh(name)}的值 {shown(path, 'zh')} 不是最简形式。",
                ),
                Text(f"Write {normal}.", f"请写 {normal}。"),
            )
        if normal == "/" or any(normal == taken or normal.startswith(taken + "/") for taken in _SYSTEM_DIRECTORIES):
            raise BadValue(
                "path_system",
                Text(
                    f"{name} {shown(path)} would hide a directory of the system.",
                    f"{subject_zh(name)}的值 {shown(path, 'zh')} 会遮盖系统目录。",
                ),
                Text("Choose a path such as /data.", "请选择 /data 这样的路径。"),
            )
        return normal

    return parse


def _path_text(name: Saying, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise BadValue(
            "text",
            Text(f"{name} must be a path, not {shown(value)}.", f"{subject_zh(name)}须为路径，而非{shown(value, 'zh')}。"),
        )
    if len(value.encode("utf-8", "surrogatepass")) > bounds.PATH_BYTES:
        raise BadValue(
            "too_long",
            Text(f"{name} is longer than {bounds.PATH_BYTES} bytes.", f"{subject_zh(name)}超过 {bounds.PATH_BYTES} 字节。"),
        )
    if any(len(part.encode("utf-8", "surrogatepass")) > bounds.FILE_NAME_BYTES for part in value.split("/")):
        raise BadValue(
            "too_long",
            Text(
                f"{name} has a name with more than {bounds.FILE_NAME_BYTES} bytes, which no file system holds.",
                f"{subject_zh(name)}中有名称超过 {bounds.FILE_NAME_BYTES} 字节，文件系统无法保存。",
            ),
            Text("Shorten it.", "请缩短。"),
        )
    if not value.isprintable() or "\\" in value or ":" in value:
        raise BadValue(
            "path_characters",
            Text(
                f"{name} {shown(value)} holds a control character, a backslash or a colon.",
                f"{subject_zh(name)}的值 {shown(value, 'zh')} 含有控制字符、反斜杠或冒号。",
            ),
        )
    return value
