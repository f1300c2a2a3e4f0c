"""What the operations on jobs accept, and how a body becomes documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

from jobs.bounds import BATCH_ITEMS, GRACE_SECONDS, RUNTIME_SECONDS, STOP_REASON_LENGTH
from jobs.spec.documents import Format, parse_text
from kernel.errors import FieldError, InvalidInput, TooLarge
from kernel.limits import NAME_LENGTH
from kernel.names import is_plain_text
from kernel.words import Text
from webapi.fields import NameField, PriorityField
from webapi.serializers import StrictSerializer

REASON_LENGTH = 1_000


class SubmitIn(StrictSerializer):
    """A job to run. `spec` follows GET /schemas/job-spec."""

    tenant = serializers.CharField(
        required=False, max_length=NAME_LENGTH, help_text="Id, slug or unique name. Default: your only tenant."
    )
    spec = serializers.JSONField(help_text="The job, as in a job file.")


class BatchIn(StrictSerializer):
    """Many jobs from one spec; each item holds the differences."""

    tenant = serializers.CharField(required=False, max_length=NAME_LENGTH)
    spec = serializers.JSONField()
    items = serializers.ListField(child=serializers.JSONField(), max_length=BATCH_ITEMS, allow_empty=False)


class StopIn(StrictSerializer):
    """Grace period and reason of a stop."""

    grace_seconds = serializers.FloatField(
        required=False, allow_null=True, min_value=0, max_value=GRACE_SECONDS, help_text="Time between the signal and the kill."
    )
    reason = NameField(required=False, max_length=STOP_REASON_LENGTH, help_text="Reason, shown to all users who can see the job.")


class AgainIn(StrictSerializer):
    """`changes` replaces top-level keys of the spec; null removes one."""

    changes = serializers.DictField(required=False, help_text='For example {"name": "second", "env": {"SEED": "8"}}.')


class EditIn(StrictSerializer):
    """Fields that may change after submission."""

    priority = PriorityField(required=False)
    tags = serializers.ListField(required=False, child=serializers.CharField(), max_length=1_000)
    hold = serializers.BooleanField(required=False)
    retry_now = serializers.BooleanField(
        required=False, help_text="True: the next attempt does not wait for the time after the last one."
    )
    queue = serializers.CharField(required=False, max_length=NAME_LENGTH)
    max_runtime_seconds = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=RUNTIME_SECONDS)


def one_document(request: Request) -> tuple[str | None, object]:
    """Tenant and document of a submission: JSON with both, or a job file as YAML with the tenant in the query."""
    if is_yaml(request):
        return request.query_params.get("tenant"), parse_text(_text(request), Format.YAML)
    body = SubmitIn.validated(request.data)
    return body.get("tenant"), body["spec"]


def priority_reason(request: Request) -> str | None:
    """Why a job needs a priority above one's own; None where none is given."""
    reason = request.query_params.get("priority_reason")
    if reason is not None and (len(reason) > REASON_LENGTH or not is_plain_text(reason)):
        message = Text(
            f"priority_reason has at most {REASON_LENGTH} printable characters.",
            f"priority_reason 最多 {REASON_LENGTH} 个可打印字符。",
        )
        raise InvalidInput(
            message, fields=[FieldError("/priority_reason", "invalid", message, Text("Say it shorter.", "请缩短说明。"))]
        )
    return reason


def many_documents(request: Request) -> tuple[str | None, list[Any], Any]:
    """Tenant, items and base of a batch. Lines of NDJSON are whole specs, without a base."""
    if request.content_type.startswith("application/x-ndjson"):
        return request.query_params.get("tenant"), _lines(_text(request)), None
    body = BatchIn.validated(request.data)
    return body.get("tenant"), body["items"], body["spec"]


def _text(request: Request) -> bytes:
    """A body that its parser left as it came."""
    data: Any = request.data
    return bytes(data)


def is_yaml(request: Request) -> bool:
    return "yaml" in (request.content_type or "")


def _lines(data: bytes) -> list[Any]:
    documents: list[Any] = []
    errors: list[FieldError] = []
    for number, line in enumerate(data.split(b"\n")):
        if not line.strip():
            continue
        if len(documents) >= BATCH_ITEMS:
            raise TooLarge(
                Text(f"A batch holds at most {BATCH_ITEMS} jobs.", f"一批最多 {BATCH_ITEMS} 个作业。"),
                hint=Text("Send several batches, or an array.", "请分成几批，或使用数组作业。"),
            )
        try:
            documents.append(parse_text(line, Format.JSON))
        except InvalidInput as error:
            errors.append(
                FieldError(
                    f"/{number}",
                    "line_invalid",
                    Text(f"Line {number + 1}: {error.detail}", f"第 {number + 1} 行：{error.detail_text.zh}"),
                )
            )
            if len(errors) >= 100:
                break
    if errors:
        raise InvalidInput(Text("Some lines are not JSON.", "有些行不是 JSON。"), fields=errors)
    if not documents:
        raise InvalidInput(
            Text("The batch is empty.", "该批次为空。"), hint=Text("Send one spec a line.", "请每行发送一个作业规格。")
        )
    return documents


def plain(document: Mapping[str, Any] | str) -> Any:
    """A stored spec's text as a value."""
    return json.loads(document) if isinstance(document, str) else document
