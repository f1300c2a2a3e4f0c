"""Routes of jobs, below `/api/v1/`."""

from __future__ import annotations

from django.urls import path, register_converter

from jobs.api import (
    board,
    checkpoint,
    conversion,
    cost,
    draining,
    explain,
    history,
    jobs,
    order,
    output,
    quarantine,
    shares,
    templates,
    tenants,
)


class FileConverter:
    """A file's path as a job wrote it, which may hold any sign but NUL: Django's own `path` ends at a new line."""

    regex = r"(?s:.+)"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(FileConverter, "file")

urlpatterns = [
    path("jobs", jobs.JobListView.as_view(), name="jobs"),
    path("jobs:counts", jobs.JobCountsView.as_view(), name="job_counts"),
    path("jobs:batch", jobs.JobBatchView.as_view(), name="job_batch"),
    path("jobs:convert", conversion.JobConvertView.as_view(), name="job_convert"),
    path("jobs/<str:job>", jobs.JobView.as_view(), name="job"),
    path("jobs/<str:job>/spec", jobs.JobSpecView.as_view(), name="job_spec"),
    path("jobs/<str:job>/stop", jobs.JobStopView.as_view(), name="job_stop"),
    path("jobs/<str:job>/move", order.JobMoveView.as_view(), name="job_move"),
    path("jobs/<str:job>/rerun", jobs.JobRerunView.as_view(), name="job_rerun"),
    path("jobs/<str:job>/clone", jobs.JobCloneView.as_view(), name="job_clone"),
    path("jobs/<str:job>/tags/<str:tag>", jobs.JobTagView.as_view(), name="job_tag"),
    path("jobs/<str:job>/events", history.JobEventsView.as_view(), name="job_events"),
    path("jobs/<str:job>/cost", cost.JobCostView.as_view(), name="job_cost"),
    path("jobs/<str:job>/checkpoint", checkpoint.JobCheckpointView.as_view(), name="job_checkpoint"),
    path("jobs/<str:job>/checkpoint/files", checkpoint.JobCheckpointFilesView.as_view(), name="job_checkpoint_files"),
    path("jobs/<str:job>/checkpoint/content", checkpoint.JobCheckpointContentView.as_view(), name="job_checkpoint_content"),
    path("jobs/<str:job>/checkpoint/archive", checkpoint.JobCheckpointArchiveView.as_view(), name="job_checkpoint_archive"),
    path("jobs/<str:job>/explain", explain.JobExplainView.as_view(), name="job_explain"),
    path("jobs/<str:job>/decisions", explain.JobDecisionsView.as_view(), name="job_decisions"),
    path("shares", shares.SharesView.as_view(), name="shares"),
    path("tenants/<str:tenant>/disable", tenants.TenantDisableView.as_view(), name="tenant_disable"),
    path("tenants/<str:tenant>/enable", tenants.TenantEnableView.as_view(), name="tenant_enable"),
    path("tenants/<str:tenant>/delete", tenants.TenantDeleteView.as_view(), name="tenant_delete"),
    path("tenants/<str:tenant>/shares", shares.ShareWeeksView.as_view(), name="share_weeks"),
    path("tenants/<str:tenant>/shares/<str:week>", shares.ShareWeekView.as_view(), name="share_week"),
    path("signing-keys", shares.SigningKeysView.as_view(), name="signing_keys"),
    path("nodes/<str:node_id>/affected", draining.NodeAffectedView.as_view(), name="node_affected"),
    path("nodes/<str:node_id>/drain", draining.NodeDrainView.as_view(), name="node_drain"),
    path("what-if", explain.WhatIfView.as_view(), name="what_if"),
    path("jobs/<str:job>/timeline", history.JobTimelineView.as_view(), name="job_timeline"),
    path("jobs/<str:job>/attempts", history.AttemptListView.as_view(), name="job_attempts"),
    path("jobs/<str:job>/attempts/<int:number>", history.AttemptView.as_view(), name="job_attempt"),
    path(
        "jobs/<str:job>/attempts/<int:number>/tasks/<str:role>/<int:index>/logs/<str:stream>",
        output.RawLogView.as_view(),
        name="job_log_raw",
    ),
    path("jobs/<str:job>/tasks", history.TaskListView.as_view(), name="job_tasks"),
    path("jobs/<str:job>/metrics", history.JobMetricsView.as_view(), name="job_metrics"),
    path("jobs/<str:job>/logs", output.LogView.as_view(), name="job_logs"),
    path("jobs/<str:job>/logs/stream", output.LogStreamView.as_view(), name="job_logs_stream"),
    path("jobs/<str:job>/artifacts", output.ArtifactListView.as_view(), name="job_artifacts"),
    path("jobs/<str:job>/artifacts:archive", output.ArtifactArchiveView.as_view(), name="job_artifacts_archive"),
    path("jobs/<str:job>/artifacts/<file:path>", output.ArtifactView.as_view(), name="job_artifact"),
    path("priority-requests", order.PriorityRequestsView.as_view(), name="priority-requests"),
    path("priority-requests/<uuid:request_id>", order.PriorityRequestView.as_view(), name="priority-request"),
    path(
        "priority-requests/<uuid:request_id>/approve",
        order.PriorityRequestApproveView.as_view(),
        name="priority-request-approve",
    ),
    path("priority-requests/<uuid:request_id>/deny", order.PriorityRequestDenyView.as_view(), name="priority-request-deny"),
    path("quarantine", quarantine.QuarantineView.as_view(), name="quarantine"),
    path("quarantine/<str:attempt>/adopt", quarantine.QuarantineAdoptView.as_view(), name="quarantine_adopt"),
    path("quarantine/<str:attempt>/stop", quarantine.QuarantineStopView.as_view(), name="quarantine_stop"),
    path("queues/<uuid:queue_id>/board", board.QueueBoardView.as_view(), name="queue_board"),
    path("templates", templates.TemplatesView.as_view(), name="templates"),
    path("templates/<str:template_id>", templates.TemplateView.as_view(), name="template"),
    path("templates/<str:template_id>/render", templates.TemplateRenderView.as_view(), name="template_render"),
    path("templates/<str:template_id>/test", templates.TemplateTestView.as_view(), name="template_test"),
    path("templates/<str:template_id>/publish", templates.TemplatePublishView.as_view(), name="template_publish"),
    path("schemas/job-spec", jobs.JobSpecSchemaView.as_view(), name="job_spec_schema"),
]
