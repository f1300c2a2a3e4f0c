"""What higher apps tell this one at start, because it may not look up to them: who people and jobs are, who may listen to what.

Every entry has a safe default, so that nothing is shown that the actor's tenant roles do not allow.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from activity.models import Event
from kernel.actor import Actor
from kernel.errors import NotFound
from kernel.words import Text


@dataclass(frozen=True, slots=True)
class Recipient:
    """An active user as notifications need it: where mail goes, what the user may see now, and reads (`en` or `zh`)."""

    user_id: uuid.UUID
    name: str
    email: str
    actor: Actor
    language: str = "en"


@dataclass(frozen=True, slots=True)
class JobNotice:
    """A job in words, for one message. `is_array_child` jobs are not told one by one: their parent is."""

    job_id: uuid.UUID
    name: str
    user_id: uuid.UUID
    tenant_name: str
    state: str
    reason: str = ""
    hint: str = ""
    command: str = ""
    url: str = ""
    is_array_child: bool = False


RecipientDirectory = Callable[[Collection[uuid.UUID]], Mapping[uuid.UUID, Recipient]]
JobDirectory = Callable[[Collection[uuid.UUID]], Mapping[uuid.UUID, JobNotice]]
ActorRefresh = Callable[[Sequence[Actor]], Sequence[Actor | None]]
ChannelPolicy = Callable[[Actor, str], uuid.UUID]
LogSource = Callable[[Actor, Mapping[str, Any]], AsyncGenerator[Mapping[str, Any]]]


def _no_recipients(user_ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, Recipient]:
    return {}


def _no_jobs(job_ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, JobNotice]:
    return {}


def _unchanged(actors: Sequence[Actor]) -> Sequence[Actor | None]:
    return actors


def _own_tenant(actor: Actor, text: str) -> uuid.UUID:
    """A tenant by id, for actors with a role in it."""
    found = _parse_id(text)
    if found is None or not sees_tenant(actor, found):
        raise _not_visible("tenant", text)
    return found


def _job_of_own_tenant(actor: Actor, text: str) -> uuid.UUID:
    """A job by id that has told something, for actors with a role in its tenant."""
    found = _parse_id(text)
    tenant_id = None if found is None else Event.objects.filter(job_id=found).values_list("tenant_id", flat=True).first()
    if found is None or tenant_id is None or not sees_tenant(actor, tenant_id):
        raise _not_visible("job", text)
    return found


_recipients: RecipientDirectory = _no_recipients
_jobs: JobDirectory = _no_jobs
_refresh: ActorRefresh = _unchanged
_log_source: LogSource | None = None
_policies: dict[str, ChannelPolicy] = {"tenant": _own_tenant, "job": _job_of_own_tenant}


def register_recipient_directory(directory: RecipientDirectory) -> None:
    """Tell who users are. It answers for active users only, and leaves out whom it does not know."""
    global _recipients
    _recipients = directory


def register_job_directory(directory: JobDirectory) -> None:
    """Tell what jobs are called and why they ended; it leaves out what it does not know."""
    global _jobs
    _jobs = directory


def register_actor_refresh(refresh: ActorRefresh) -> None:
    """Tell how actors look now: one answer per actor, in order; None where its credential no longer counts."""
    global _refresh
    _refresh = refresh


def register_channel_policy(kind: str, policy: ChannelPolicy) -> None:
    """Tell who may listen to a `tenant` or `job`: the policy resolves what the actor wrote to an id, or raises NotFound."""
    if kind not in _policies:
        raise AssertionError(f"there are no channels of kind {kind}")
    _policies[kind] = policy


def register_log_source(source: LogSource) -> None:
    """Tell where a followed log comes from: an async generator of messages that checks the actor's right itself."""
    global _log_source
    _log_source = source


def recipients(user_ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, Recipient]:
    return _recipients(user_ids)


def jobs(job_ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, JobNotice]:
    return _jobs(job_ids)


def refreshed(actors: Sequence[Actor]) -> Sequence[Actor | None]:
    return _refresh(actors)


def resolve_channel(actor: Actor, kind: str, text: str) -> uuid.UUID:
    """The id of a channel that the actor may hear; NotFound otherwise."""
    return _policies[kind](actor, text)


def log_source() -> LogSource | None:
    return _log_source


def sees_tenant(actor: Actor, tenant_id: uuid.UUID | None) -> bool:
    """Whether something of this tenant exists for the actor. What belongs to no tenant is for operators."""
    return actor.is_operator or tenant_id in actor.roles


def _parse_id(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


_NOUNS_ZH = {"job": "作业", "tenant": "租户"}


def _not_visible(noun: str, text: str) -> NotFound:
    noun_zh = _NOUNS_ZH[noun]
    return NotFound(
        Text(f"There is no {noun} {text[:80]!r}.", f"没有{noun_zh} {text[:80]!r}。"),
        hint=Text(f"Use the id of a {noun} that you can see.", f"请使用您可见的{noun_zh}的 ID。"),
    )
