"""Emptying a machine over HTTP: first who would have to go, then that they do."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.representations import ReferenceOut
from clusters.services import fetch_node
from jobs.models import Job
from jobs.services.draining import drain_node, plan_drain
from kernel.clock import database_now
from kernel.limits import NOTE_LENGTH
from webapi.access import visible
from webapi.fields import NameField
from webapi.idempotency import idempotent
from webapi.plans import asked_plan, hold_to, named
from webapi.schema import PLAN
from webapi.serializers import StrictSerializer
from webapi.views import ApiView, known_query, query_flag


@extend_schema_serializer(examples=[OpenApiExample("for repair", {"reason": "Fan 3 is noisy."})])
class DrainIn(StrictSerializer):
    """Reason, shown to all users whose jobs wait for the node."""

    reason = NameField(max_length=NOTE_LENGTH, required=False, allow_blank=True, default="")


class DrainedNodeOut(serializers.Serializer[Any]):
    """The node."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    pool = serializers.CharField()


class LeavingOut(serializers.Serializer[Any]):
    """A job with tasks on the node. It is evicted as a whole, requeued with its old age, and pays no retry."""

    job = ReferenceOut()
    tenant = serializers.CharField()
    user = serializers.CharField()
    tasks = serializers.IntegerField(help_text="On this node.")
    started_at = serializers.DateTimeField(allow_null=True)
    is_leaving = serializers.BooleanField(help_text="The job was already asked to leave.")
    checkpoint = serializers.BooleanField(help_text="The job saves its work first; without a checkpoint it starts anew.")


class DrainOut(serializers.Serializer[Any]):
    """Jobs that are evicted, or would be."""

    node = DrainedNodeOut()
    jobs = LeavingOut(many=True)
    plan = serializers.CharField(
        help_text="Name of the plan; send it as `?plan=`, with the confirmation, to apply exactly this plan."
    )


class AffectedOut(serializers.Serializer[Any]):
    """Jobs with tasks on the node, as far as you can see them."""

    node = DrainedNodeOut()
    jobs = LeavingOut(many=True)
    others = serializers.IntegerField(help_text="Number of further jobs, of tenants that you cannot see.")


class NodeAffectedView(ApiView):
    """Whom a drain of a machine would touch."""

    @extend_schema(operation_id="nodes_affected", responses=AffectedOut)
    def get(self, request: Request, node_id: str) -> Response:
        """List jobs that a drain of the node would evict: those that you can see, and the number of others."""
        known_query(request, ())
        node = fetch_node(self.actor, node_id, "node.read")
        plan = plan_drain(node.id)
        seen = set(visible(self.actor, Job).filter(id__in=[job.job_id for job in plan.jobs]).values_list("id", flat=True))
        shown = [job.as_dict() for job in plan.jobs if job.job_id in seen]
        return Response({"node": plan.as_dict()["node"], "jobs": shown, "others": len(plan.jobs) - len(shown)})


class NodeDrainView(ApiView):
    """Take a machine out of service and empty it."""

    @extend_schema(
        operation_id="nodes_drain",
        parameters=[OpenApiParameter("dry_run", bool, description="Dry run: show the jobs that would be evicted."), PLAN],
        request=DrainIn,
        responses={200: DrainOut},
    )
    @idempotent
    def post(self, request: Request, node_id: str) -> Response:
        """Drain a node: cordon it and evict its jobs, which get the checkpoint signal and the grace period, and are requeued.

        With `dry_run` the jobs are only listed. With the `plan` of a dry run exactly these jobs are evicted, or none.
        """
        known_query(request, ("dry_run", "plan"))
        body = DrainIn.validated(request.data or {})
        node = fetch_node(self.actor, node_id, "node.edit")
        if query_flag(request, "dry_run"):
            return Response(named(plan_drain(node.id).as_dict()))
        asked = asked_plan(request)
        done = drain_node(
            actor=self.actor,
            node_id=node.id,
            reason=body["reason"],
            confirm=lambda drain: hold_to(asked, drain.as_dict()),
            now=database_now(),
        )
        return Response(named(done.as_dict()))
