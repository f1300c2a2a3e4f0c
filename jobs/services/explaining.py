"""Why one job waits, for one reader: the database as the scheduler sees it, one pass, and every question asked of that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from jobs.lifecycle.unmet import clears_text, latest_text
from jobs.lifecycle.wait_reasons import WAITS
from jobs.lifecycle.wait_record import FOUND_AT, WaitSource
from jobs.loading.graces import graces_of
from jobs.loading.reason_translation import ReasonTranslator
from jobs.loading.rows import load_live
from jobs.loading.specs import load_spec, wish_of
from jobs.loading.state import Loaded, load_state, look_up
from jobs.models import Job
from jobs.scheduling.core.eligibility import Refusal, eligible
from jobs.scheduling.core.state.decisions import WaitReason
from jobs.scheduling.core.state.work import JobAsk as Waiting
from jobs.scheduling.questions.explain import Condition, Explanation, Factors, Settled, explain
from jobs.scheduling.questions.latest import CLAIM, Latest, latest_start
from jobs.scheduling.questions.suggest import Suggested, Suggestion, suggest_within_bounds
from jobs.scheduling.questions.whatif import End
from jobs.selectors.expected import NOT_YET, ExpectedStart, expected_starts_of
from jobs.selectors.reasons import others_in, told_reason
from jobs.services.predicted_starts import TOO_MANY, accuracy, effort_asked, expect, moment
from jobs.services.redaction import Redactor, Shown, condition_json, one_question
from jobs.services.suggesting import changes_json, is_about_others, may_be_thought_of
from kernel.actor import Actor
from kernel.clock import utc_text
from kernel.resources import RESOURCE_NAMES
from kernel.wait_codes import WaitCode, present_code
from kernel.words import BETWEEN_SENTENCES


def explain_job(job: Job, *, actor: Actor, now: datetime, language: str = "en", suggests: bool = True) -> Shown | None:
    """What keeps this job waiting, its place and what gives it that, and changes that would start it; None for one that the
    scheduler does not hold as waiting. `suggests` False: without the changes, which cost several passes."""
    with one_question():
        loaded = load_state(now)
        settled = Settled(loaded.state)
        waiting = settled.job(str(job.id))
        if waiting is None:
            return None
        graces = _graces(settled, job)
        translator = ReasonTranslator(loaded.around, loaded.numbers, lambda job_ids: graces)
        found = explain(settled, str(job.id), _shown(job, waiting, settled, translator))
        assert found is not None, "it waits"
        told = loaded.withheld.get(found.job_id)
        if told is None and found.reason is not None:
            told = translator.tell(settled.core, waiting, found.reason)
        others, other_models = _other_pools(job, waiting, loaded)
        made = suggest_within_bounds(settled, found, also=(*others, *other_models)) if suggests else Suggested((), False)
        suggestions = made.suggestions
        expected = _expected_start(loaded, job, now) if suggests and waiting.withheld is None else None
        latest = latest_start(settled, found.job_id, graces) if waiting.withheld is None else None
    reader = Redactor(actor, loaded, language, frozenset(other_models))
    reader.look_up(_named(found, suggestions) | others_in({} if told is None else told[1]))
    is_shown = told is None or found.shown_holds or present_code(job.reason_code) == told[0]
    conditions = [condition_json(_until(condition, latest), found.job_id, reader) for condition in found.conditions]
    if told is not None and not found.shown_holds and WAITS[told[0]].source is WaitSource.POOL:
        conditions = [*_never(told, conditions, job, reader), *conditions]
    return {
        "now": None if told is None or is_shown else _reason_now(told, job, reader, now),
        "starts": found.starts,
        "conditions": conditions,
        "place": {
            "in_queue": found.place.in_queue or None,
            "queue_length": found.place.queue_length,
            "in_pool": found.place.in_pool or None,
            "pool_length": found.place.pool_length,
        },
        "factors": _factors(found.factors, reader),
        "suggestions": [
            _suggestion(suggestion, waiting, reader, now)
            for suggestion in suggestions
            if not any(is_about_others(change, waiting, reader) for change in suggestion.changes)
        ],
        "suggestions_bounded": made.is_bounded,
        "expected": None if expected is None else {**expected.as_json(), "past": accuracy([job.tenant_id], now)},
        "latest": _latest(latest, language),
    }


def _shown(job: Job, waiting: Waiting, settled: Settled, translator: ReasonTranslator) -> WaitReason | None:
    """The reason that lists show, in the numbers of the core."""
    record, detail = WAITS.get(present_code(job.reason_code)), job.reason_detail
    if record is None:
        return None
    pool = next((number for number in waiting.pools if translator.pool(number) == detail.get("pool")), -1)
    path = settled.core.shares.path[waiting.queue]
    queue = next((number for number in path if number and translator.queue(number) == detail.get("queue")), -1)
    resource = RESOURCE_NAMES.index(detail["resource"]) if detail.get("resource") in RESOURCE_NAMES else -1
    return WaitReason(record.code, pool, queue, resource)


def _reason_now(told: Refusal, job: Job, reader: Redactor, now: datetime) -> Shown:
    code, detail = told
    found = {**detail, FOUND_AT: utc_text(now)}
    return told_reason(code, found, reader.named, job.tenant_id, reader.language)


def _never(told: Refusal, conditions: Sequence[Shown], job: Job, reader: Redactor) -> Iterable[Shown]:
    """That no pool could ever hold it, where that is no condition of the core."""
    if all(condition["code"] != told[0] for condition in conditions):
        shown = condition_json(Condition(WaitReason(told[0]), is_own=True), str(job.id), reader)
        words = told_reason(*told, reader.named, job.tenant_id, reader.language)
        yield {**shown, "text": words["text"], "pool": told[1].get("pool")}


def _graces(settled: Settled, job: Job) -> dict[str, int]:
    """How long those who leave for the job may take, in seconds by job."""
    made = settled.core.transfers.get(str(job.id))
    return {} if made is None else graces_of(load_live(job_id__in=sorted(made.leaving)))


def _until(condition: Condition, latest: Latest | None) -> Condition:
    """A condition with its end, where that is the latest start."""
    if latest is None or latest.kind != CLAIM or condition.reason.code != WaitCode.CLAIM:
        return condition
    return replace(condition, reason=condition.reason._replace(until=latest.at or 0))


def _expected_start(loaded: Loaded, job: Job, now: datetime) -> ExpectedStart | None:
    """As every page tells it; of a job that was not looked ahead yet, as it looks now."""
    known = expected_starts_of([job], now).get(job.id)
    if known is not None and known.reason != NOT_YET:
        return known
    effort = effort_asked(loaded)
    if effort is None:
        return ExpectedStart(None, None, now, TOO_MANY)
    found = expect(loaded, {str(job.id)}, now, effort).get(str(job.id))
    if found is None:
        return None
    return ExpectedStart(moment(found.told.p50), moment(found.told.p90), now, found.told.reason, error_permille=found.error)


def _latest(latest: Latest | None, language: str) -> Shown | None:
    """By when it starts at the latest, and what that rests on. How many others there are is not told."""
    if latest is None:
        return None
    at, next_reservation = moment(latest.at), moment(latest.next_reservation_from or None)
    shown = {
        "at": utc_text(at) if at is not None else None,
        "kind": latest.kind or None,
        "reason": latest.reason,
        "next_reservation_from": utc_text(next_reservation) if next_reservation is not None else None,
    }
    return {**shown, "text": latest_text(shown, language)}


def _other_pools(job: Job, waiting: Waiting, loaded: Loaded) -> tuple[list[int], list[int]]:
    """The pools that would take the job if it did not name one, and those that would if it named no GPU model either."""
    anywhere = replace(look_up(wish_of(load_spec(job.spec_id)), job.tenant_id), pool_name="", cluster_name="")
    pools = loaded.around.pools
    able = eligible(anywhere, job.tenant_id, job.image_kind, pools).pools
    any_model = eligible(replace(anywhere, models=frozenset()), job.tenant_id, job.image_kind, pools).pools
    return [pool for pool in able if pool not in waiting.pools], [pool for pool in any_model if pool not in able]


def _named(found: Explanation, suggestions: tuple[Suggestion, ...]) -> set[str]:
    """The jobs that the answer is about."""
    named = {job_id for condition in found.conditions for job_id in condition.jobs}
    for suggestion in suggestions:
        named |= {change.job_id for change in suggestion.changes if isinstance(change, End)} | set(suggestion.clears)
    return named


def _factors(factors: Factors, reader: Redactor) -> Shown:
    queues: list[dict[str, Any]] = []
    for factor in factors.queues:
        shown = {"is_owed": factor.is_owed, "share": factor.share, "share_now": factor.share_now}
        queues.append({"queue": reader.queue(factor.queue), **shown})
    return {
        "priority": factors.priority,
        "priority_seconds": factors.priority_seconds,
        "waited_seconds": factors.waited_seconds,
        "order_seconds": factors.order_seconds,
        "queues": queues,
    }


def _suggestion(suggestion: Suggestion, job: Waiting, reader: Redactor, now: datetime) -> Shown:
    """Its words; its changes where a what-if takes them from the reader; who has to make what the reader may not."""
    told = changes_json(suggestion.changes, job, reader, now)
    bodies = [shown["change"] for shown in told]
    others: list[Shown] = []
    others += [shown["by"] for shown in told if shown["by"] is not None and shown["by"] not in others]
    texts = [shown["text"] for shown in told]
    if suggestion.clears:
        texts.append(clears_text(len(suggestion.clears), reader.language))
    return {
        "kind": suggestion.kind,
        "text": BETWEEN_SENTENCES.in_language(reader.language).join(filter(None, texts)),
        "starts_now": not suggestion.clears,
        "changes": bodies if may_be_thought_of(bodies, reader) else [],
        "by": others,
        "evicts": reader.jobs(suggestion.clears),
        "evicts_count": len(suggestion.clears),
    }
