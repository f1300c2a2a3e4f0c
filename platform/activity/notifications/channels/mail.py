"""One plain-text mail through the operator's mail server. Users' text is put into it as it is; nothing interprets it."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Mapping
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from activity.notifications.channel import Channel, Message, Problem
from activity.notifications.message import ENGLISH, footer, one_line, rows, title, wrapped
from activity.notifications.outcomes import GiveUp, Outcome, Sent, TryAgain
from kernel.config import Config
from kernel.words import Text

SECONDS_MAX = 10.0
DEFAULT_PORTS = {"smtp": 25, "smtps": 465}
SUBJECT_LENGTH_MAX = 150
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
COLUMN = "\n" + " " * 9  # Where a value goes on in its next line.


def compose(
    payload: Mapping[str, Any],
    *,
    sender: str,
    recipient: str,
    delivery_id: str,
    at: datetime,
    server_url: str,
    language: str = ENGLISH,
) -> EmailMessage:
    """The mail of one delivery. Raises ValueError for an address that is none."""
    message = EmailMessage()
    message["From"] = _address(sender)
    message["To"] = _address(recipient)
    message["Subject"] = one_line(f"[Berth] {title(payload, language)}", SUBJECT_LENGTH_MAX)
    message["Date"] = format_datetime(at)
    host = one_line(urlsplit(server_url).hostname or "berth", 200)
    message["Message-ID"] = f"<{delivery_id}@{host}>"  # The same at a repeated sending: mail programs show it once.
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no holiday notices back.
    message["X-Berth-Delivery"] = delivery_id
    message.set_content(_text(payload, server_url, language), cte="quoted-printable")
    return message


def send(message: Message) -> Outcome:
    """Write the mail and give it to the operator's server."""
    if not message.address:
        return GiveUp("The user has no mail address.")
    try:
        mail = compose(
            message.payload,
            sender=message.config.mail_from,
            recipient=message.address,
            delivery_id=message.delivery_id,
            at=message.at,
            server_url=message.config.url,
            language=message.language,
        )
    except ValueError as error:
        return GiveUp(str(error))
    return _give(mail, mail_url=message.config.mail_url)


def _give(message: EmailMessage, *, mail_url: str) -> Outcome:
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
    detail = f"The mail server answered {code}: {one_line(words, 300)}"
    return TryAgain(detail, code) if 400 <= code < 500 else GiveUp(detail, code)


def _text(payload: Mapping[str, Any], server_url: str, language: str) -> str:
    lines = [f"{row.label + ':':<8} {COLUMN.join(wrapped(row.value))}" for row in rows(payload, language)]
    return "\n".join([*lines, "", "-- ", footer(language, server_url), ""])


def _address(text: str) -> Address:
    """An address without a name; ValueError for anything that could be more than one address or header."""
    if any(character in text for character in "\r\n,;<>\"' \t") or text.count("@") != 1:
        raise ValueError(f"{text[:100]!r} is not one mail address")
    return Address(addr_spec=text)


NO_SERVER = Problem(
    "no_mail_server",
    Text(
        "No mail is sent: this installation has no mail server. Ask an operator, or choose another channel.",
        "不会发送邮件：本系统未设置邮件服务器。请联系运维人员，或选择其他方式。",
    ),
)


def _problem(config: Config) -> Problem | None:
    return None if config.mail_url else NO_SERVER


CHANNEL = Channel(
    kind="mail",
    label=Text("Mail", "邮件"),
    fields=(),  # It goes to the user's own address only: no user signs another up.
    send=send,
    target=lambda values: "",
    problem=_problem,
)
