"""One plain-text mail through the operator's mail server. Users' text is put into it as it is; nothing interprets it."""

from __future__ import annotations

import smtplib
import ssl
import textwrap
from collections.abc import Mapping
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from activity.notifications.outcomes import GiveUp, Outcome, Sent, TryAgain

SECONDS_MAX = 10.0
DEFAULT_PORTS = {"smtp": 25, "smtps": 465}
SUBJECT_LENGTH_MAX = 150
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
SIGNS = {"running": "started", "succeeded": "succeeded", "failed": "failed", "stopped": "was stopped", "retried": "starts again"}


def compose(
    payload: Mapping[str, Any], *, sender: str, recipient: str, delivery_id: str, at: datetime, server_url: str
) -> EmailMessage:
    """The mail of one delivery. Raises ValueError for an address that is none."""
    message = EmailMessage()
    message["From"] = _address(sender)
    message["To"] = _address(recipient)
    message["Subject"] = _one_line(_subject(payload), SUBJECT_LENGTH_MAX)
    message["Date"] = format_datetime(at)
    host = _one_line(urlsplit(server_url).hostname or "berth", 200)
    message["Message-ID"] = f"<{delivery_id}@{host}>"  # The same at a repeated sending: mail programs show it once.
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no holiday notices back.
    message["X-Berth-Delivery"] = delivery_id
    message.set_content(_text(payload, server_url), cte="quoted-printable")
    return message


def send(message: EmailMessage, *, mail_url: str) -> Outcome:
    """Give the mail to the server. Returns how it ended."""
    if not mail_url:
        return GiveUp("This installation has no mail server. An operator sets BERTH_MAIL_URL.")
    parts = urlsplit(mail_url)
    try:
        with _connect(parts) as server:
            server.send_message(message)
    except smtplib.SMTPRecipientsRefused as error:
        code, text = next(iter(error.recipients.values()))
        return _refused(code, text)
    except smtplib.SMTPResponseException as error:
        return _refused(error.smtp_code, error.smtp_error)
    except (smtplib.SMTPException, OSError, ValueError) as error:
        return TryAgain(f"The mail server did not take it: {type(error).__name__}: {error}")
    return Sent(250)


def _connect(parts: SplitResult) -> smtplib.SMTP:
    host, port = parts.hostname or "localhost", parts.port or DEFAULT_PORTS.get(parts.scheme, 25)
    context = ssl.create_default_context()
    if parts.scheme == "smtps":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=SECONDS_MAX, context=context)
    else:
        server = smtplib.SMTP(host, port, timeout=SECONDS_MAX)
    try:
        server.ehlo_or_helo_if_needed()
        if parts.scheme != "smtps":
            if server.has_extn("starttls"):
                server.starttls(context=context)
            elif parts.username and host not in LOOPBACK:
                raise smtplib.SMTPException("it offers no encryption, and the password is not sent in the clear")
        if parts.username:
            server.login(unquote(parts.username), unquote(parts.password or ""))
    except BaseException:
        server.close()
        raise
    return server


def _refused(code: int, text: bytes | str) -> Outcome:
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    detail = f"The mail server answered {code}: {_one_line(words, 300)}"
    return TryAgain(detail, code) if 400 <= code < 500 else GiveUp(detail, code)


def _subject(payload: Mapping[str, Any]) -> str:
    if "budget" in payload:
        budget = payload["budget"]
        return f"[Berth] {budget['percent']} % of the budget of {budget['name']} is spent"
    if "notice" in payload:
        return f"[Berth] {payload['notice']['title']}"
    return f"[Berth] {payload['job']['name']} {SIGNS[payload['kind']]}"


def _text(payload: Mapping[str, Any], server_url: str) -> str:
    if "notice" in payload:
        rows = _notice_rows(payload)
    else:
        rows = _budget_rows(payload) if "budget" in payload else _job_rows(payload)
    lines = [f"{name + ':':<8} {_indent(str(value))}" for name, value in rows if value]
    footer = f"You asked for this with a subscription. `berth` or {server_url} changes it."
    return "\n".join([*lines, "", "-- ", footer, ""])


def _notice_rows(payload: Mapping[str, Any]) -> list[tuple[str, Any]]:
    notice = payload["notice"]
    return [("What", notice["title"]), ("More", notice["text"]), ("At", payload["at"]), ("Next", notice["command"])]


def _budget_rows(payload: Mapping[str, Any]) -> list[tuple[str, Any]]:
    budget = payload["budget"]
    unit, name = {
        "money": (1_000_000, budget["currency"]),
        "gpu_time": (3_600_000, "GPU hours"),
        "node_time": (3_600_000, "node hours"),
    }[budget["kind"]]
    return [
        ("Queue", f"{budget['name']}  ({budget['queue_id']})"),
        ("Tenant", budget["tenant"]),
        ("Month", budget["month"]),
        ("Spent", f"{budget['spent'] / unit:,.2f} of {budget['amount'] / unit:,.2f} {name}, {budget['percent']} %"),
        ("Then", "New jobs wait for the next month, or for a larger budget." if budget["stops"] else ""),
        ("At", payload["at"]),
        ("Next", budget["command"]),
    ]


def _job_rows(payload: Mapping[str, Any]) -> list[tuple[str, Any]]:
    job = payload["job"]
    return [
        ("Job", f"{job['name']}  ({job['id']})"),
        ("Tenant", job["tenant"]),
        ("State", payload["state"]),
        ("Reason", job["reason"] or payload["reason"]),
        ("Hint", job["hint"]),
        ("At", payload["at"]),
        ("Next", job["command"]),
        ("See", job["url"]),
    ]


def _indent(value: str) -> str:
    """A long or many-lined value, kept in its column and without controls that a terminal would obey."""
    lines = [part for line in value.splitlines() for part in (textwrap.wrap(_printable(line), 100) or [""])]
    return ("\n" + " " * 9).join(lines[:40])


def _address(text: str) -> Address:
    """An address without a name; ValueError for anything that could be more than one address or header."""
    if any(character in text for character in "\r\n,;<>\"' \t") or text.count("@") != 1:
        raise ValueError(f"{text[:100]!r} is not one mail address")
    return Address(addr_spec=text)


def _one_line(text: str, length_max: int) -> str:
    """Text for a header: line breaks and controls become spaces, so that no text can add a header."""
    clean = " ".join(_printable(text).split())
    return clean if len(clean) <= length_max else clean[: length_max - 1] + "…"


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
