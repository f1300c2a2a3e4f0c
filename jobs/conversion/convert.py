"""Which system a text was written for, and its conversion with everything that was found on the way."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobs import bounds
from jobs.conversion.notes import Findings, Note
from jobs.conversion.openpai import convert_openpai
from jobs.conversion.sbatch import convert_sbatch
from jobs.spec.templating import judge
from kernel.errors import FieldError, InvalidInput, TooLarge
from kernel.words import Text


class Source(StrEnum):
    OPENPAI = "openpai"
    SBATCH = "sbatch"


FORMATS = tuple(Source)
_DIRECTIVE = re.compile(r"^#SBATCH(?:\s|$)", re.MULTILINE)
_PROTOCOL = re.compile(r"""^["']?(?:taskRoles|protocolVersion)["']?\s*:""", re.MULTILINE)
_PROTOCOL_JSON = re.compile(r'^\s*\{[^}]*"(?:taskRoles|protocolVersion)"\s*:', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Converted:
    """A document of `jobs.spec`, what became of the original, and what still keeps the document from being a job."""

    source: Source
    spec: dict[str, Any]
    notes: tuple[Note, ...]
    problems: tuple[FieldError, ...]


def detect(text: str) -> Source | None:
    """What a text was written for; None where nothing in it says so."""
    if _DIRECTIVE.search(text):
        return Source.SBATCH
    if _PROTOCOL.search(text) or _PROTOCOL_JSON.match(text):
        return Source.OPENPAI
    return Source.SBATCH if text.startswith("#!") else None


def convert(text: str, source: Source | None = None, *, file_name: str = "") -> Converted:
    """Convert a text. Raises InvalidInput with all its mistakes and their lines, or TooLarge."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > bounds.SPEC_BYTES:
        raise TooLarge(
            Text(
                f"The file has {size} bytes; at most {bounds.SPEC_BYTES} are allowed.",
                f"该文件有 {size} 字节；最多 {bounds.SPEC_BYTES} 字节。",
            ),
            hint=Text("Put data into files or volumes.", "请将数据放入文件或存储卷。"),
        )
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    source = source or detect(text)
    if source is None:
        message = Text(
            "This is neither OpenPAI's protocol v2 nor a script with #SBATCH lines.",
            "这既不是 OpenPAI 协议 v2，也不是含 #SBATCH 行的脚本。",
        )
        hint = Text(
            f"Say what it is: {', '.join(FORMATS)}. A job of Berth needs no conversion.",
            f"请说明格式：{', '.join(FORMATS)}。Berth 的作业文件无需转换。",
        )
        raise InvalidInput(message, hint=hint, fields=[FieldError("/text", "unknown_format", message, hint)])
    findings = Findings()
    if source is Source.OPENPAI:
        spec = convert_openpai(text, findings)
    else:
        spec = convert_sbatch(text, findings, file_name=file_name)
    findings.refuse_if_wrong()
    return Converted(source, spec, findings.sorted_notes(), judge(spec))
