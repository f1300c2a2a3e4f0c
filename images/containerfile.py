"""Reads a Containerfile as data: which images it starts from, and the same text with these images under names of the build.

Nothing is run or fetched here. The images come from their registries before the first step of the build runs, with the tenant's
account, by a task that runs nothing of the tenant's; the build itself finds them under `local_name` and asks no registry. So each
one has to be known before: a variable in a FROM counts with the default that stands above the first FROM.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from clusters.registries import references
from clusters.registries.references import Reference
from kernel.errors import FieldError
from kernel.words import Saying, Text

CONTAINERFILE_BYTES = 64 * 1024  # Whole distributions are described in less; programs belong into the context.
BASES_MAX = 10  # Each is fetched and unpacked before the build begins.

_PLATFORM = "linux/amd64"  # Of the nodes: `clusters.registries.manifests` chooses it from an index, too.
_VARIABLE = re.compile(
    r"\$(?:\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}$]*))?\}|(?P<plain>[A-Za-z_][A-Za-z0-9_]*))"
)
_OUTSIDE = re.compile(r"(?P<before>(?:--from=|[,=]from=))(?P<image>[^\s,]+)")
# buildah 1.28, that of Debian 12, knows none; and lines are joined and stripped here.
_HEREDOC = re.compile(r"(?<!\S)(?P<word>\d*<<-?[\"']?[A-Za-z_]\w*[\"']?)(?!\S)")
_DIRECTIVE = re.compile(r"#\s*escape\s*=\s*(?P<character>\S)")


@dataclass(frozen=True, slots=True)
class Containerfile:
    """A checked Containerfile. `text` is what the build gets; `bases` are the images that it starts from or copies out of."""

    text: str
    bases: tuple[Reference, ...]


@dataclass(frozen=True, slots=True)
class _Instruction:
    """One instruction with the number of its first line; continued lines are joined."""

    line: int
    text: str

    @property
    def word(self) -> str:
        return self.text.split(None, 1)[0].upper()


class _Wrong(Exception):
    def __init__(self, code: str, message: Saying, hint: Saying = "") -> None:
        super().__init__(code)
        self.code, self.message, self.hint = code, message, hint


def parse(text: str, *, path: str = "/containerfile") -> tuple[Containerfile | None, tuple[FieldError, ...]]:
    """The Containerfile, or everything that is wrong with it; lines count from 1. What buildah itself judges is not checked."""
    if problem := _unreadable(text):
        return None, (FieldError(path, problem.code, problem.message, problem.hint),)
    errors: list[FieldError] = []
    kept: list[str] = []
    bases: dict[str, Reference] = {}
    values: dict[str, str] = {}
    stages: set[str] = set()
    begun = False
    for instruction in _instructions(text):
        try:
            if instruction.word == "FROM":
                begun = True
                kept.append(_start_stage(instruction, values, stages, bases))
            else:
                if instruction.word == "ARG" and not begun:
                    _note_default(instruction, values)
                kept.append(_copy_from(instruction, stages, bases))
        except _Wrong as wrong:
            message = _at_line(instruction.line, wrong.message)
            errors.append(FieldError(f"{path}/{instruction.line}", wrong.code, message, wrong.hint))
    if not begun:
        message = Text("The Containerfile has no FROM.", "Containerfile 中没有 FROM。")
        errors.append(FieldError(path, "required", message, Text("Begin with FROM and an image.", "请以 FROM 加镜像开头。")))
    if len(bases) > BASES_MAX:
        message = Text(f"The Containerfile uses more than {BASES_MAX} images.", f"Containerfile 使用的镜像超过 {BASES_MAX} 个。")
        errors.append(FieldError(path, "too_many", message, Text("Split the build.", "请拆分构建。")))
    if errors:
        return None, tuple(errors)
    return Containerfile("".join(f"{line}\n" for line in kept), tuple(bases.values())), ()


def of_requirements(base: Reference, *, hashed: bool) -> str:
    """A Containerfile that installs the file `requirements.txt` of its context into a base image with Python and pip.

    The operators' settings for pip come as a secret of the build, and stay out of the image.
    """
    checked = " --require-hashes" if hashed else ""
    return (
        f"FROM {base}\n"
        "COPY requirements.txt /usr/share/berth/requirements.txt\n"
        "RUN --mount=type=secret,id=pip,target=/etc/pip.conf PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore"
        " python3 -m pip install --no-input --disable-pip-version-check --no-cache-dir --progress-bar off --prefer-binary"
        f"{checked} -r /usr/share/berth/requirements.txt\n"
    )


def local_name(reference: Reference) -> str:
    """Under which name the build finds an image. Content has no name of its own in its storage: a digest becomes a tag."""
    tag = reference.digest.replace(":", "-") if reference.digest else reference.tag
    return f"{reference.host}/{reference.repository}:{tag}"


def _unreadable(text: str) -> _Wrong | None:
    if len(text.encode(errors="surrogatepass")) > CONTAINERFILE_BYTES:
        kib = CONTAINERFILE_BYTES // 1024
        hint = Text("Put programs into the context, and call them.", "请将程序放入上下文并调用。")
        return _Wrong("too_long", Text(f"The Containerfile is longer than {kib} KiB.", f"Containerfile 超过 {kib} KiB。"), hint)
    if any(ord(character) < 32 and character not in "\t\n\r" for character in text):
        message = Text("The Containerfile holds a control character.", "Containerfile 含有控制字符。")
        return _Wrong("bad_text", message, Text("Save the file as plain text.", "请将文件保存为纯文本。"))
    directive = _DIRECTIVE.match(text)
    if directive and directive["character"] != "\\":
        message = Text("Only `\\` continues a line here.", "此处只有 `\\` 可以续行。")
        return _Wrong("bad_directive", message, Text("Leave the escape directive out.", "请去掉 escape 指令。"))
    return None


def _instructions(text: str) -> Iterator[_Instruction]:
    """Joined lines: a backslash at the end continues; comments and empty lines between are left out, as builders do."""
    pending, start = "", 0
    for number, raw in enumerate(text.lstrip("\ufeff").splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        start = start or number
        if line.endswith("\\"):
            pending += line[:-1].rstrip() + " "
            continue
        yield _Instruction(start, pending + line)
        pending, start = "", 0
    if pending.strip():
        yield _Instruction(start, pending.strip())


def _note_default(instruction: _Instruction, values: dict[str, str]) -> None:
    for word in instruction.text.split()[1:]:
        name, separator, value = word.partition("=")
        if separator:
            values[name] = _filled(value.strip("\"'"), values)[: references.REFERENCE_LENGTH + 1]  # Longer, it is no reference.


def _start_stage(instruction: _Instruction, values: Mapping[str, str], stages: set[str], bases: dict[str, Reference]) -> str:
    """The FROM with its image under its name in the build."""
    words = instruction.text.split()[1:]
    flags = [word for word in words if word.startswith("--")]
    rest = [word for word in words if not word.startswith("--")]
    for flag in flags:
        name, _, value = flag.partition("=")
        if name != "--platform" or not ("$" in value or value == _PLATFORM):
            message = Text(f"{flag[:80]!r} is not possible here.", f"此处不支持 {flag[:80]!r}。")
            raise _Wrong("bad_flag", message, Text(f"Images are built for {_PLATFORM}.", f"镜像为 {_PLATFORM} 构建。"))
    if len(rest) not in (1, 3) or (len(rest) == 3 and rest[1].upper() != "AS"):
        message = Text("FROM takes one image, and may name its stage.", "FROM 后须为一个镜像，可再为阶段命名。")
        raise _Wrong(
            "bad_from", message, Text("Write FROM image, or FROM image AS name.", "请写 FROM 镜像，或 FROM 镜像 AS 名称。")
        )
    image = _filled(rest[0], values)
    if image.lower() not in stages and image != "scratch":
        image = _noted(image, bases)
    if len(rest) == 3:
        stages.add(rest[2].lower())
    return " ".join(["FROM", image, *rest[1:]])


def _copy_from(instruction: _Instruction, stages: set[str], bases: dict[str, Reference]) -> str:
    """Another instruction, with the images that it copies or mounts from under their names in the build."""
    if instruction.word not in ("COPY", "ADD", "RUN"):
        return instruction.text
    if heredoc := _HEREDOC.search(instruction.text):
        message = Text(
            f"The here-document {heredoc['word'][:80]} is not possible here.",
            f"此处不支持 here-document {heredoc['word'][:80]}。",
        )
        hint = Text(
            "Join commands by `&& \\`, or put the text into a file of the context.",
            "请用 `&& \\` 连接命令，或将文本放入上下文中的文件。",
        )
        raise _Wrong("here_document", message, hint)

    def named(match: re.Match[str]) -> str:
        image = match["image"]
        is_stage = image.lower() in stages or image.isdigit()
        return match.group() if is_stage else match["before"] + _noted(image, bases)

    flags = re.match(r"\w+(?:\s+--\S+)*", instruction.text)
    assert flags is not None, "an instruction begins with its word"
    return _OUTSIDE.sub(named, flags.group()) + instruction.text[flags.end() :]


def _noted(image: str, bases: dict[str, Reference]) -> str:
    reference = references.parse(image)
    if reference is None:
        message = Text(f"{image[:120]!r} is no image reference.", f"{image[:120]!r} 不是镜像引用。")
        hint = Text(
            "Name an image of a registry; a variable stands in a FROM alone, with a default above the first one.",
            "请写明镜像仓库中的镜像；变量只能用在 FROM 中，且须在第一个 FROM 之前有默认值。",
        )
        raise _Wrong("bad_reference", message, hint)
    name = local_name(reference)
    bases.setdefault(name, reference)
    return name


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Replace variables by their defaults; one without a default stays, and is no reference then."""

    def value(match: re.Match[str]) -> str:
        found = values.get(match["braced"] or match["plain"], match["default"])
        return match.group() if found is None else found

    return _VARIABLE.sub(value, text)


def _at_line(number: int, message: Saying) -> Saying:
    if isinstance(message, Text):
        return Text(f"Line {number}: {message.in_language('en')}", f"第 {number} 行：{message.in_language('zh')}")
    return f"Line {number}: {message}"
