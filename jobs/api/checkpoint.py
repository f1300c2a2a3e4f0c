"""The directory that a job keeps: how old the last checkpoint is, what an eviction would cost now, and its files."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.loading.specs import load_spec
from jobs.models import Job
from jobs.selectors.find import fetch_job
from jobs.services.checkpoints import STATES, checkpoint_json
from kernel.clock import database_now
from kernel.errors import NotFound
from kernel.words import Text
from storage.api.serializers import FILES_QUERY, FileListOut, files_response
from storage.downloads import archive_response, descriptor_response
from storage.paths import shown_name
from storage.selectors import find_checkpoint
from storage.services import checkpoint_browsing
from storage.services.checkpoints import Checkpoint
from tenants.identity.access import role_allows
from webapi.features import is_on
from webapi.views import ApiView, known_query

PATH = OpenApiParameter("path", str, description="Relative to the checkpoint directory, with `/` between names.")
RANGE = OpenApiParameter("Range", str, OpenApiParameter.HEADER, description="Such as `bytes=1048576-`.")


class NoCheckpoint(NotFound):
    """The job keeps no directory over its attempts, or nothing has run that could have written to it."""

    code = "no_checkpoint"
    title = Text("The job has no checkpoint", "作业没有检查点")


class EvictionOut(serializers.Serializer[Any]):
    """Loss if the job were preempted now: the work since its last checkpoint, or since its start."""

    lost_seconds = serializers.IntegerField()
    lost_gpu_seconds = serializers.FloatField()
    lost_cost = serializers.IntegerField(
        allow_null=True, help_text="Millionths of the currency at present prices; null for users who may not see costs."
    )


class CheckpointOut(serializers.Serializer[Any]):
    """The last checkpoint of a job. `none`: no complete checkpoint exists yet. `writing`: a checkpoint is being written."""

    path = serializers.CharField(help_text="As in the job file.")
    per = serializers.ChoiceField(choices=["job", "role", "task"])
    interval_seconds = serializers.IntegerField(
        allow_null=True, help_text="Declared interval between checkpoints of the program."
    )
    signal = serializers.CharField()
    grace_seconds = serializers.IntegerField()
    started_from = serializers.UUIDField(allow_null=True, help_text="Job from whose checkpoint this job started.")
    state = serializers.ChoiceField(choices=list(STATES))
    problem = serializers.CharField(help_text="Reason why no attempt can resume from it; empty if an attempt can.")
    saved_at = serializers.DateTimeField(allow_null=True)
    age_seconds = serializers.IntegerField(allow_null=True)
    size_bytes = serializers.IntegerField(help_text="Size of the whole directory.")
    file_count = serializers.IntegerField()
    quota_bytes = serializers.IntegerField(help_text="Size limit of the directory; 0: no limit.")
    kept_until = serializers.DateTimeField(allow_null=True, help_text="Time of its removal; null while the job has not ended.")
    if_evicted_now = EvictionOut(allow_null=True, help_text="Null unless the job is running.")


class JobCheckpointView(ApiView):
    """A job's checkpoint."""

    @extend_schema(operation_id="jobs_checkpoint", responses=CheckpointOut)
    def get(self, request: Request, job: str) -> Response:
        """Get the last checkpoint of a job, and the loss of a preemption now. Measured about every 30 seconds while it runs."""
        known_query(request, ())
        found = fetch_job(self.actor, job, "job.read")
        spec = load_spec(found.spec_id).checkpoint
        if spec is None:
            raise _no_checkpoint(found)
        shows_cost = role_allows(self.actor, found.tenant_id, "cost.read", found.user_id) and is_on(
            request, "billing", found.tenant_id
        )
        return Response(checkpoint_json(found, spec, shows_cost=shows_cost, now=database_now()))


class JobCheckpointFilesView(ApiView):
    """What lies in a job's checkpoint directory."""

    @extend_schema(operation_id="jobs_checkpoint_files", parameters=[PATH, *FILES_QUERY], responses=FileListOut)
    def get(self, request: Request, job: str) -> Response:
        """List a folder of a job's checkpoint; without `path`, its root."""
        known_query(request, ("path",))
        kept = _kept(fetch_job(self.actor, job, "job.artifacts"))
        folder = request.query_params.get("path", "")
        return files_response(request, folder, partial(checkpoint_browsing.list_files, kept, folder))


class JobCheckpointContentView(ApiView):
    """One file of a job's checkpoint."""

    @extend_schema(
        operation_id="jobs_checkpoint_content",
        parameters=[PATH, RANGE],
        responses={
            (200, "application/octet-stream"): OpenApiTypes.BINARY,
            (206, "application/octet-stream"): OpenApiTypes.BINARY,
        },
    )
    def get(self, request: Request, job: str) -> HttpResponseBase:
        """Download a file of a job's checkpoint, whole or a range of it."""
        known_query(request, ("path",))
        kept = _kept(fetch_job(self.actor, job, "job.artifacts"))
        path = request.query_params.get("path", "")
        opened = checkpoint_browsing.open_file(kept, path)
        return descriptor_response(request, opened.descriptor, size_bytes=opened.size_bytes, name=path, etag=opened.etag)


class JobCheckpointArchiveView(ApiView):
    """A folder of a job's checkpoint in one piece."""

    @extend_schema(
        operation_id="jobs_checkpoint_archive",
        parameters=[PATH],
        responses={(200, "application/x-tar"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, job: str) -> HttpResponseBase:
        """Download a folder of a job's checkpoint, or all of it, as a tar archive. Links are omitted."""
        known_query(request, ("path",))
        found = fetch_job(self.actor, job, "job.artifacts")
        kept = _kept(found)
        path = request.query_params.get("path", "")
        pieces = checkpoint_browsing.archive(kept, path)
        return archive_response(pieces, name=f"{shown_name(path or found.name)}.tar")


def _kept(job: Job) -> Checkpoint:
    found = find_checkpoint(job.id)
    if found is None or found.removed_at is not None:
        raise _no_checkpoint(job)
    return found


def _no_checkpoint(job: Job) -> NoCheckpoint:
    if job.array_size is not None:
        return NoCheckpoint(
            Text(f"Array {job.name} has no checkpoint of its own.", f"数组作业 {job.name} 自身没有检查点。"),
            hint=Text("Each of its children has one.", "其每个子作业各有检查点。"),
        )
    if load_spec(job.spec_id).checkpoint is None:
        return NoCheckpoint(
            Text(f"Job {job.name} keeps no checkpoint.", f"作业 {job.name} 不保留检查点。"),
            hint=Text("Write `checkpoint: {path: ckpt}` in the job file.", "请在作业文件中写 `checkpoint: {path: ckpt}`。"),
        )
    return NoCheckpoint(
        Text(f"The platform has no checkpoint of job {job.name}.", f"平台没有作业 {job.name} 的检查点。"),
        hint=Text("`berth get` says since when, or why.", "`berth get` 会说明从何时起，或原因。"),
    )
