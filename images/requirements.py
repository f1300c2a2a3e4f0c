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
        message = f"The requirements are longer than {REQUIREMENTS_BYTES // 1024} KiB."
        return None, (FieldError(path, "too_long", message, "Split the environment, or drop what is not needed."),)
    if text.count("\n") > REQUIREMENTS_LINES:
        return None, (FieldError(path, "too_long", f"There are more than {REQUIREMENTS_LINES:,} lines."),)
    errors: list[FieldError] = []
    kept: set[str] = set()
    for number, line in _logical_lines(text):
        problem = _problem(line)
        if problem is None:
            kept.add(re.sub(r"\s+", " ", line))
        else:
            message, hint = problem
            errors.append(FieldError(f"{path}/{number}", "bad_requirement", f"Line {number}: {message}", hint))
    if not errors and not any(not line.startswith("-") for line in kept):
        errors.append(
            FieldError(path, "required", "There is no requirement in it.", "Write one package name a line, such as `numpy`.")
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


def _problem(line: str) -> tuple[str, str] | None:
    """Why a line is refused, in words, with what to do instead; None if it may stay."""
    if "${" in line:
        return "variables are not filled in here.", "Write the value itself; secrets do not belong into requirements."
    if any(ord(character) < 32 and character != "\t" for character in line):
        return "it holds a control character.", "Save the file as plain text."
    if line.startswith("-"):
        return _option_problem(line)
    bare = _HASH.sub("", line).strip()
    if " -" in f" {bare}" and re.search(r"(^|\s)--?[A-Za-z]", bare):
        return "options after a requirement are refused, except `--hash=sha256:...`.", "Leave the option out."
    body, _, marker = _split_marker(bare)
    if marker and not _is_marker(marker):
        return "the part after `;` is no environment marker.", "For example: numpy; python_version >= '3.11'"
    by_url = _BY_URL.fullmatch(body)
    if by_url:
        return _url_problem(by_url["url"])
    if _BY_NAME.fullmatch(body):
        return None
    if "/" in body or body.startswith(".") or re.match(r"[a-z+]+:", body):
        return (
            "files, folders and repositories of the server cannot be installed.",
            "Use a package name, or `name @ https://...`.",
        )
    return f"{body[:60]!r} is no requirement.", "For example: numpy>=2,<3"


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


def _option_problem(line: str) -> tuple[str, str] | None:
    option, _, value = line.replace("=", " ", 1).partition(" ")
    value = value.strip()
    if option in _FLAGS and not value:
        return None
    if option in _FORMAT_OPTIONS and re.fullmatch(rf":all:|:none:|{_NAME}(?:\s*,\s*{_NAME})*", value):
        return None
    if option in {"-i", "--index-url", "--extra-index-url", "--find-links", "-f", "--trusted-host", "--no-index"}:
        return f"`{option}` is refused.", "Packages come from the index that the operators of this installation set."
    if option in {"-e", "--editable"}:
        return f"`{option}` is refused.", "Send your own code with the job (`code:`), and only its dependencies here."
    if option in {"-r", "--requirement", "-c", "--constraint"}:
        return f"`{option}` is refused: there is no other file beside this one.", "Copy its lines into this file."
    return f"`{option[:40]}` is refused.", f"These options are taken: {', '.join(sorted(_FLAGS | _FORMAT_OPTIONS))}."


def _url_problem(url: str) -> tuple[str, str] | None:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return "its address cannot be read.", "For example: name @ https://host/name-1.0-py3-none-any.whl"
    if parts.scheme != "https" or not host:
        return "only https:// addresses are taken.", "For example: name @ https://host/name-1.0-py3-none-any.whl"
    if parts.username is not None or parts.password is not None:
        return (
            "an address with a password in it would be stored readably.",
            "Ask an operator to set up the package index.",
        )
    return None
