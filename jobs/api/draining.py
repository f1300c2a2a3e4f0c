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
    """Why, as everybody is told who waits for the machine."""

    reason = NameField(max_length=NOTE_LENGTH, required=False, allow_blank=True, default="")


class DrainedNodeOut(serializers.Serializer[Any]):
    """The machine."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    pool = serializers.CharField()


class LeavingOut(serializers.Serializer[Any]):
    """A job that has tasks there. It goes as a whole, waits again with its old age, and pays no retry."""

    job = ReferenceOut()
    tenant = serializers.CharField()
    user = serializers.CharField()
    tasks = serializers.IntegerField(help_text="On this machine.")
    started_at = serializers.DateTimeField(allow_null=True)
    is_leaving = serializers.BooleanField(help_text="It was told to go before.")
    checkpoint = serializers.BooleanField(help_text="It is told to save its work first; without one, it begins anew.")


class DrainOut(serializers.Serializer[Any]):
    """Who goes, or would."""

    node = DrainedNodeOut()
    jobs = LeavingOut(many=True)
    plan = serializers.CharField(help_text="The plan's name: send it with a dry run's as `?plan=` to have just this done.")


class AffectedOut(serializers.Serializer[Any]):
    """Whose jobs have tasks on the machine, as far as you see them."""

    node = DrainedNodeOut()
    jobs = LeavingOut(many=True)
    others = serializers.IntegerField(help_text="How many jobs there are besides, of tenants that you do not see.")


class NodeAffectedView(ApiView):
    """Whom a drain of a machine would touch."""

    @extend_schema(operation_id="nodes_affected", responses=AffectedOut)
    def get(self, request: Request, node_id: str) -> Response:
        """Jobs that would have to leave a machine: those that you see, and the number of the others. Nothing is changed."""
        known_query(request, ())
        node = fetch_node(self.actor, node_id, "node.read")
        plan = plan_drain(node.id)
        seen = set(visible(self.actor, Job).filter(id__in=[one.job_id for one in plan.jobs]).values_list("id", flat=True))
        shown = [one.as_dict() for one in plan.jobs if one.job_id in seen]
        return Response({"node": plan.as_dict()["node"], "jobs": shown, "others": len(plan.jobs) - len(shown)})


class NodeDrainView(ApiView):
    """Take a machine out of service and empty it."""

    @extend_schema(
        operation_id="nodes_drain",
        parameters=[OpenApiParameter("dry_run", bool, description="Show who would have to go, change nothing."), PLAN],
        request=DrainIn,
        responses={200: DrainOut},
    )
    @idempotent
    def post(self, request: Request, node_id: str) -> Response:
        """Let nothing new start on a machine, and have all that runs there make way: checkpoint signal, grace, back in line.

        With `dry_run` the jobs are only listed. With the `plan` of that, just these go, or nobody.
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
