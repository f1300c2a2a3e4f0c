"""Shapes of what the server answers, for editors and type checkers; at run time they are plain dictionaries."""

from __future__ import annotations

from typing import Any, TypedDict


class Named(TypedDict, total=False):
    id: str
    name: str
    slug: str


class ReasonData(TypedDict, total=False):
    code: str
    text: str
    detail: Any
    hint: str


class ExitData(TypedDict, total=False):
    code: int | None
    signal: int | None
    reason: str
    text: str
    hint: str
    who_pays: str


class JobData(TypedDict, total=False):
    id: str
    name: str
    kind: str
    tenant: Named
    queue: Named
    user: Named
    state: str
    desired: str
    reason: ReasonData | None
    priority: str
    tags: list[str]
    labels: dict[str, str]
    hold: bool
    parent_id: str | None
    array: dict[str, int] | None
    attempt: int
    framework: str
    image: Named | None
    cluster: Any
    pool: Any
    isolation: Any
    spec_digest: str
    submitted_at: str
    started_at: str | None
    ended_at: str | None
    max_runtime_seconds: int | None
    exit: ExitData | None
    gpus_simulated: bool
    counts: dict[str, int] | None
    version: int


class TaskData(TypedDict, total=False):
    id: str
    role: str
    index: int
    state: str
    node: str
    address: str
    gpus: list[str]
    exit: ExitData | None
    started_at: str | None
    ended_at: str | None


class ArtifactData(TypedDict, total=False):
    path: str
    size_bytes: int
    sha256: str


class UploadData(TypedDict, total=False):
    id: str
    offset_bytes: int
    chunk_bytes_max: int
    complete: bool
    size_bytes: int
    sha256: str
