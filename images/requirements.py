"""Reads the requirements of a Python environment as data: refuses what must not reach pip, and gives the rest a digest.

Only names with versions, `name @ https://...` and a few harmless options pass. What would read the server's files, run a
version control program, move to another package index or bring a secret into a stored text is refused, line by line, all
lines at once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from kernel.errors import FieldError
from kernel.words import Text

REQUIREMENTS_BYTES = 64 * 1024  # A frozen environment of a thousand packages with hashes fits.
REQUIREMENTS_LINES = 5_000
BUILDER_VERSION = "1"  # Part of the digest: a builder that makes other environments must not reuse older ones.

_FLAGS = frozenset({"--require-hashes", "--prefer-binary", "--pre"})
_FORMAT_OPTIONS = frozenset({"--only-binary", "--no-binary"})
_HASH = re.compile(r"--hash[= ]sha(?:256:[0-9a-f]{64}|384:[0-9a-f]{96}|512:[0-9a-f]{128})")
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,200}[A-Za-z0-9])?"
_EXTRAS = rf"\[\s*(?:{_NAME}(?:\s*,\s*{_NAME})*)?\s*\]"
_CLAUSE = r"(?:===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9._*+!-]+"
_VERSIONS = rf"{_CLAUSE}(?:\s*,\s*{_CLAUSE})*,?"
_BY_NAME = re.compile(rf"(?P<name>{_NAME})\s*(?:{_EXTRAS})?\s*(?:{_VERSIONS}|\(\s*{_VERSIONS}\s*\))?")
_BY_URL = re.compile(rf"(?P<name>{_NAME})\s*(?:{_EXTRAS})?\s*@\s*(?P<url>\S+)")
_MARKER_TOKEN = re.compile(r"\s*('[^']*'|\"[^\"]*\"|[a-z_.]+|<=|>=|==|!=|~=|===|<|>|\(|\))")
_MARKER_WORDS = frozenset(  # PEP 508, "Environment Markers".
    {
        *("and", "or", "not", "in", "extra", "os_name", "sys_platform", "python_version", "python_full_version"),
        *("platform_machine", "platform_python_implementation", "platform_release", "platform_system", "platform_version"),
        *("implementation_name", "implementation_version"),
    }
)


@dataclass(frozen=True, slots=True)
class Requirements:
    """A checked requirements file. `lines` is its normal form: no comments, one requirement a line, sorted, each once."""

    lines: tuple[str, ...]
    hashed: bool

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def digest(self, *, python: str, platform: str) -> str:
        """The environment's identity: what is asked for, on which Python, on which kind of machine, by which builder."""
        parts = (BUILDER_VERSION, python, platform, *self.lines)
        return "sha256:" + hashlib.sha256("\n".join(parts).encode()).hexdigest()


def parse(text: str, *, path: str = "/requirements") -> tuple[Requirements | None, tuple[FieldError, ...]]:
    """The requirements, or everything that is wrong with them; line numbers count from 1."""
    if len(text.encode(errors="surrogatepass")) > REQUIREMENTS_BYTES:
        message = Text(
            f"The requirements are longer than {REQUIREMENTS_BYTES // 1024} KiB.",
            f"requirements 超过 {REQUIREMENTS_BYTES // 1024} KiB。",
        )
        return None, (
            FieldError(
                path,
                "too_long",
                message,
                Text("Split the environment, or drop what is not needed.", "请拆分环境，或去掉不需要的内容。"),
            ),
        )
    if text.count("\n") > REQUIREMENTS_LINES:
        return None, (
            FieldError(
                path, "too_long", Text(f"There are more than {REQUIREMENTS_LINES:,} lines.", f"超过 {REQUIREMENTS_LINES:,} 行。")
            ),
        )
    errors: list[FieldError] = []
    kept: set[str] = set()
    for number, line in _logical_lines(text):
        problem = _problem(line)
        if problem is None:
            kept.add(re.sub(r"\s+", " ", line))
        else:
            reason, hint = problem
            errors.append(
                FieldError(
                    f"{path}/{number}",
                    "bad_requirement",
                    Text(f"Line {number}: {reason.en}", f"第 {number} 行：{reason.zh}"),
                    hint,
                )
            )
    if not errors and not any(not line.startswith("-") for line in kept):
        errors.append(
            FieldError(
                path,
                "required",
                Text("There is no requirement in it.", "其中没有任何依赖。"),
                Text("Write one package name a line, such as `numpy`.", "请每行写一个包名，如 `numpy`。"),
            )
        )
    if errors:
        return None, tuple(errors)
    lines = tuple(sorted(kept, key=lambda line: (not line.startswith("-"), line.lower(), line)))
    return Requirements(lines, hashed=any("--hash" in line for line in lines)), ()


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines as pip joins them: a backslash at the end continues, `#` after a space starts a comment."""
    pending, start = "", 0
    for number, raw in enumerate(text.lstrip("\ufeff").splitlines(), start=1):
        line = re.sub(r"(^|\s)#.*$", "", raw).rstrip()
        if line.endswith("\\"):
            start = start or number
            pending += line[:-1] + " "
            continue
        joined = (pending + line).strip()
        if joined:
            yield start or number, joined
        pending, start = "", 0
    if pending.strip():
        yield start, pending.strip()


Refusal = tuple[Text[str], Text[str]]  # Why, and what to do instead.


def _problem(line: str) -> Refusal | None:
    """Why a line is refused, in words, with what to do instead; None if it may stay."""
    if "${" in line:
        return Text("variables are not filled in here.", "此处不会代入变量。"), Text(
            "Write the value itself; secrets do not belong into requirements.", "请直接写出值；密钥不应写在依赖中。"
        )
    if any(ord(character) < 32 and character != "\t" for character in line):
        return Text("it holds a control character.", "含有控制字符。"), Text(
            "Save the file as plain text.", "请将文件保存为纯文本。"
        )
    if line.startswith("-"):
        return _option_problem(line)
    bare = _HASH.sub("", line).strip()
    if " -" in f" {bare}" and re.search(r"(^|\s)--?[A-Za-z]", bare):
        return Text(
            "options after a requirement are refused, except `--hash=sha256:...`.",
            "依赖之后不接受选项，`--hash=sha256:...` 除外。",
        ), Text("Leave the option out.", "请去掉该选项。")
    body, _, marker = _split_marker(bare)
    if marker and not _is_marker(marker):
        return Text("the part after `;` is no environment marker.", "`;` 之后不是环境标记。"), Text(
            "For example: numpy; python_version >= '3.11'", "例如：numpy; python_version >= '3.11'"
        )
    by_url = _BY_URL.fullmatch(body)
    if by_url and by_url["url"].startswith("file:"):
        return (
            Text(
                "it names a file of the machine on which the list was written, as conda's `pip freeze` does.",
                "它指向编写列表的机器上的文件，conda 的 `pip freeze` 会这样写。",
            ),
            Text("Write the list by `pip list --format=freeze`.", "请用 `pip list --format=freeze` 生成列表。"),
        )
    if by_url:
        return _url_problem(by_url["url"])
    if _BY_NAME.fullmatch(body):
        return None
    if "/" in body or body.startswith(".") or re.match(r"[a-z+]+:", body):
        return (
            Text("files, folders and repositories of the server cannot be installed.", "不能安装服务器上的文件、目录和仓库。"),
            Text("Use a package name, or `name @ https://...`.", "请使用包名，或 `name @ https://...`。"),
        )
    return Text(f"{body[:60]!r} is no requirement.", f"{body[:60]!r} 不是依赖。"), Text(
        "For example: numpy>=2,<3", "例如：numpy>=2,<3"
    )


def _is_marker(text: str) -> bool:
    """Whether a text is made of a marker's words, comparisons and quoted values; pip judges their order."""
    position = 0
    text = text.rstrip()
    while position < len(text):
        token = _MARKER_TOKEN.match(text, position)
        if token is None or (token[1][0].isalpha() and token[1] not in _MARKER_WORDS):
            return False
        position = token.end()
    return True


def _split_marker(text: str) -> tuple[str, str, str]:
    """Cut at the `;` of a marker; inside a URL it counts only after a space (PEP 508)."""
    if " @ " in text or re.match(rf"{_NAME}\s*(?:{_EXTRAS})?\s*@", text):
        body, separator, marker = text.partition(" ;")
        return body.strip(), separator, marker.strip()
    body, separator, marker = text.partition(";")
    return body.strip(), separator, marker.strip()


_KNOWN_OPTIONS = Text(
    f"These options are taken: {', '.join(sorted(_FLAGS | _FORMAT_OPTIONS))}.",
    f"可用的选项：{', '.join(sorted(_FLAGS | _FORMAT_OPTIONS))}。",
)


def _option_problem(line: str) -> Refusal | None:
    option, _, value = line.replace("=", " ", 1).partition(" ")
    value = value.strip()
    if option in _FLAGS and not value:
        return None
    if option in _FORMAT_OPTIONS and re.fullmatch(rf":all:|:none:|{_NAME}(?:\s*,\s*{_NAME})*", value):
        return None
    if option in {"-i", "--index-url", "--extra-index-url", "--find-links", "-f", "--trusted-host", "--no-index"}:
        return Text(f"`{option}` is refused.", f"不接受 `{option}`。"), Text(
            "Packages come from the index that the operators of this installation set.", "软件包来自本系统运维人员设置的索引。"
        )
    if option in {"-e", "--editable"}:
        return Text(f"`{option}` is refused.", f"不接受 `{option}`。"), Text(
            "Send your own code with the job (`code:`), and only its dependencies here.",
            "自己的代码请随作业发送（`code:`），此处只写其依赖。",
        )
    if option in {"-r", "--requirement", "-c", "--constraint"}:
        return Text(
            f"`{option}` is refused: there is no other file beside this one.", f"不接受 `{option}`：旁边没有其他文件。"
        ), Text("Copy its lines into this file.", "请将其内容复制到此文件。")
    return Text(f"`{option[:40]}` is refused.", f"不接受 `{option[:40]}`。"), _KNOWN_OPTIONS


def _url_problem(url: str) -> Refusal | None:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return Text("its address cannot be read.", "其地址无法解析。"), Text(
            "For example: name @ https://host/name-1.0-py3-none-any.whl", "例如：name @ https://host/name-1.0-py3-none-any.whl"
        )
    if parts.scheme != "https" or not host:
        return Text("only https:// addresses are taken.", "只接受 https:// 地址。"), Text(
            "For example: name @ https://host/name-1.0-py3-none-any.whl", "例如：name @ https://host/name-1.0-py3-none-any.whl"
        )
    if parts.username is not None or parts.password is not None:
        return (
            Text("an address with a password in it would be stored readably.", "含有密码的地址会以明文保存。"),
            Text("Ask an operator to set up the package index.", "请运维人员设置软件包索引。"),
        )
    return None
