"""What a submission would do, before it does it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from jobs.lifecycle.reasons import explain
from jobs.loading.specs import load_spec, wish_of
from jobs.models import Job
from jobs.scheduling.core.eligibility import Sizes, never
from jobs.selectors.pools import pools_and_machines
from jobs.services.code_fetch import DEFAULT_REF
from jobs.services.submission import Submission
from jobs.spec.advice import advise
from jobs.spec.canonical import spec_digest, to_document
from jobs.spec.diff import diff_specs
from kernel.config import current
from kernel.priorities import format_priority
from kernel.resources import RESOURCE_NAMES
from kernel.words import Language, Text


def _in_vain(submission: Submission) -> list[Text[str]]:
    """Why it would wait for ever, if no pool could hold it even when empty."""
    pools, machines, rules = pools_and_machines()
    refusal = never(wish_of(submission.spec), str(submission.image.kind), Sizes(machines, pools, rules))
    if refusal is None:
        return []
    words, words_zh = explain(refusal[0], refusal[1]), explain(refusal[0], refusal[1], "zh")
    return [Text(f"It would not start. {words.text} {words.hint}".rstrip(), f"它不会启动。{words_zh.text}{words_zh.hint}")]


def batch_plan_json(submissions: Sequence[Submission]) -> dict[str, Any]:
    """The plan of many: how many, the first of them, and a digest of what decides what is stored of all."""
    digest = hashlib.sha256()
    for submission in submissions:
        told = (
            spec_digest(submission.spec),
            submission.queue.id,
            submission.image.digest,
            submission.priority,
            submission.max_runtime_seconds,
            submission.dependencies,
        )
        digest.update(repr(told).encode())
    return {"count": len(submissions), "first": plan_json(submissions[0]), "digest": digest.hexdigest()}


def planned_runtime(longest: int | None, cautious: int | None) -> int | None:
    """How long a job is planned to run: its longest time, else by its kind or its queue, else what is assumed; None: for ever."""
    if longest is not None or cautious is not None:
        return cautious if longest is None else longest
    return round(current().scheduler_assumed_runtime_seconds) or None


def _fetched_first(submission: Submission) -> dict[str, str] | None:
    """The code that a job of its own fetches before this one can start."""
    code = submission.spec.code
    if submission.fetch is None or code is None or code.git is None:
        return None
    return {"job": submission.fetch.spec.name, "git": code.git, "ref": code.ref or DEFAULT_REF}


def warned_in(language: str, submission: Submission, plan: dict[str, Any]) -> dict[str, Any]:
    """The plan with its warnings in the reader's language. For what is shown alone: the name of a plan is that of its English
    form, so that a call in another language is held to the same one."""
    if language == Language.ENGLISH:
        return plan
    return {**plan, "warnings": [words.in_language(language) for words in _warnings(submission)]}


def _warnings(submission: Submission) -> list[Text[str]]:
    warnings = [*submission.warnings, *advise(submission.spec), *_in_vain(submission)]
    if submission.priority < submission.spec.priority:
        asked, stored = format_priority(submission.spec.priority), format_priority(submission.priority)
        warnings.append(
            Text(
                f"It would wait with priority {stored}, not {asked}: that is the highest that you may use yourself here.",
                f"它将以优先级 {stored} 而非 {asked} 等待：这是您在此处可用的最高优先级。",
            )
        )
    return warnings


def plan_json(submission: Submission, *, compared_with: Job | None = None) -> dict[str, Any]:
    """The plan: where it would go, what it would reserve, and how it differs from the job that it repeats."""
    spec, ask = submission.spec, submission.ask
    plan: dict[str, Any] = {
        "name": spec.name,
        "tenant": {"id": str(submission.tenant.id), "slug": submission.tenant.slug, "name": submission.tenant.name},
        "queue": {"id": str(submission.queue.id), "name": submission.queue.name},
        "image": {"name": submission.image.name, "kind": str(submission.image.kind), "digest": submission.image.digest},
        "framework": spec.framework,
        "roles": [
            {
                "name": name,
                "replicas": role.replicas.max,
                "command": role.command if isinstance(role.command, str) else list(role.command),
                "resources": role.resources.amounts.as_dict(),
            }
            for name, role in spec.roles.items()
        ],
        "total": {name: getattr(ask, name) for name in RESOURCE_NAMES},
        "jobs": spec.array.size if spec.array else 1,
        "priority": submission.priority,
        "max_runtime_seconds": submission.max_runtime_seconds,
        "planned_runtime_seconds": planned_runtime(submission.max_runtime_seconds, submission.cautious_seconds),
        "depends_on": [f"{condition}:{job_id}" for condition, job_id in submission.dependencies],
        "fetches": _fetched_first(submission),
        "spec_digest": spec_digest(spec),
        "spec": to_document(spec),
        "warnings": [words.en for words in _warnings(submission)],
    }
    if compared_with is not None:
        plan["changes"] = [asdict(change) for change in diff_specs(load_spec(compared_with.spec_id), spec)]
    return plan
