"""Versions of single objects as entity tags: `ETag` on answers, `If-Match` on changes (RFC 9110, section 13)."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from kernel.errors import PreconditionFailed
from kernel.words import Text


def etag(version: int | str) -> str:
    """The strong entity tag of one version."""
    return f'"{version}"'


def with_etag(response: Response, version: int | str) -> Response:
    """Put the object's version on an answer, for the caller's next `If-Match`."""
    response["ETag"] = etag(version)
    return response


def check_if_match(request: Request, version: int | str) -> None:
    """Refuse a change of an object that has another version than the caller saw. Without the header anything goes."""
    header = request.headers.get("If-Match", "").strip()
    if not header or header == "*":
        return
    if etag(version) not in {entry.strip() for entry in header.split(",")}:
        raise PreconditionFailed(
            Text(f"The object has version {version} now, not {header[:80]}.", f"对象当前版本为 {version}，而非 {header[:80]}。"),
            hint=Text(
                "Read it again, apply your change to the new version, and send its ETag.",
                "请重新读取，在新版本上修改，并发送其 ETag。",
            ),
        )


def expected_version(request: Request) -> int | None:
    """The version that the caller requires by `If-Match`, for a guarded UPDATE; None when any will do."""
    header = request.headers.get("If-Match", "").strip()
    if not header or header == "*":
        return None
    text = header.strip('"')
    if not text.isdecimal() or len(text) > 18:
        raise PreconditionFailed(
            Text(f"{header[:80]} names no version of this object.", f"{header[:80]} 不是此对象的版本。"),
            hint=Text("Send the ETag as it was received.", "请原样发送收到的 ETag。"),
        )
    return int(text)


def is_unchanged(request: Request, version: int | str) -> bool:
    """Whether the caller already holds this version (`If-None-Match`); answer 304 then."""
    header = request.headers.get("If-None-Match", "").strip()
    tags = {entry.strip().removeprefix("W/") for entry in header.split(",")}
    return bool(header) and (header == "*" or etag(version) in tags)
