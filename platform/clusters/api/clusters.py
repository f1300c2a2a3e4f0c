"""Clusters over HTTP. Everybody with a tenant reads them; operators add, change, check and remove them.

Credentials come in and never go out: an answer tells the server, the account and when it expires, to operators alone.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api import examples
from clusters.api.representations import ClusterOut, cluster_json
from clusters.engines.settings import Finding, Outcome
from clusters.models import Cluster
from clusters.services import (
    ClusterChanges,
    NewCluster,
    add_cluster,
    change_cluster,
    check_cluster,
    read_new_cluster,
    remove_cluster,
    with_changes,
)
from clusters.services.registration import NAME_MAX
from kernel.clock import database_now
from kernel.limits import KIB
from webapi.access import allows, fetch, require, visible
from webapi.etags import expected_version, with_etag
from webapi.fields import NameField
from webapi.idempotency import idempotent
from webapi.pagination import page
from webapi.schema import IF_MATCH
from webapi.serializers import StrictSerializer
from webapi.views import ApiView, known_query
from webapi.wording import reader_language

CREDENTIALS_CHARACTERS = 256 * KIB
CREDENTIALS_HELP = (
    "Kubernetes: text of a kubeconfig with keys inline; null for the account of the pod that Berth runs in. Stored encrypted, "
    "never returned."
)
CONFIG_HELP = "Settings of the engine; docs/kubernetes.md lists them."
WORST = (Outcome.FAILED, Outcome.WARNING, Outcome.OK)


class ClusterIn(StrictSerializer):
    """A cluster to add."""

    name = NameField(max_length=NAME_MAX)
    kind = serializers.CharField(max_length=40, help_text="Kind of the engine: kubernetes.")
    config = serializers.DictField(required=False, default=dict, help_text=CONFIG_HELP)
    credentials = serializers.CharField(
        allow_null=True, max_length=CREDENTIALS_CHARACTERS, trim_whitespace=False, help_text=CREDENTIALS_HELP
    )
    is_enabled = serializers.BooleanField(required=False, default=True, help_text="False: no attempt starts there yet.")


class ClusterEdit(StrictSerializer):
    """Changes of a cluster; omitted fields are unchanged."""

    name = NameField(required=False, max_length=NAME_MAX)
    config = serializers.DictField(
        required=False, help_text=f"{CONFIG_HELP} Omitted names are unchanged; null restores the default."
    )
    credentials = serializers.CharField(
        required=False, allow_null=True, max_length=CREDENTIALS_CHARACTERS, trim_whitespace=False, help_text=CREDENTIALS_HELP
    )
    is_enabled = serializers.BooleanField(
        required=False, help_text="False: no new attempt starts there; running attempts continue and are observed."
    )
    is_lost = serializers.BooleanField(
        required=False,
        help_text="True: the cluster is gone for good, and its attempts end as cluster_lost, so that their jobs start elsewhere. "
        "Only of a disabled cluster that does not answer. False, or enabling it: the cluster is back, and what of those attempts "
        "still runs there is stopped.",
    )


class ClusterFindingOut(serializers.Serializer[Any]):
    """One line of a check."""

    check = serializers.CharField(help_text="What was checked, such as reachable, tls, permissions or nodes.")
    outcome = serializers.ChoiceField(choices=[outcome.value for outcome in Outcome])
    text = serializers.CharField()
    hint = serializers.CharField(help_text="Next step; empty where there is nothing to do.")


class ClusterCheckOut(serializers.Serializer[Any]):
    """Result of a check."""

    outcome = serializers.ChoiceField(choices=[outcome.value for outcome in Outcome], help_text="The worst of all lines.")
    items = ClusterFindingOut(many=True)


class ClusterListView(ApiView):
    """List the clusters of this installation."""

    @extend_schema(
        operation_id="clusters_list",
        responses=inline_serializer(
            "ClusterPage", {"items": ClusterOut(many=True), "next": serializers.CharField(allow_null=True)}
        ),
        parameters=[examples.LIMIT, examples.CURSOR],
        examples=[examples.answer("Page", {"items": [examples.CLUSTER], "next": None})],
    )
    def get(self, request: Request) -> Response:
        known_query(request, ())
        show = partial(
            cluster_json, language=reader_language(request), with_settings=allows(self.actor, Cluster(), "cluster.edit")
        )
        return page(request, visible(self.actor, Cluster), order=("name",), serialize=show)

    @extend_schema(
        operation_id="clusters_create",
        request=ClusterIn,
        responses={201: ClusterOut},
        examples=[examples.body("Kubernetes", examples.NEW_CLUSTER), examples.answer("Added", examples.KUBERNETES_CLUSTER)],
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """Add a cluster, as an operator. Its nodes and pools appear within seconds; it need not be reachable yet.

        POST /clusters:check takes the same body, stores nothing, and says what keeps jobs from running there.
        """
        require(self.actor, Cluster(), "cluster.edit")
        cluster = add_cluster(actor=self.actor, wanted=_wanted(request), now=database_now())
        return _answer(self, request, cluster, status=201)


class ClusterCheckNewView(ApiView):
    """Checks of clusters that are not added yet."""

    @extend_schema(
        operation_id="clusters_check_new",
        request=ClusterIn,
        responses=ClusterCheckOut,
        examples=[examples.body("Kubernetes", examples.NEW_CLUSTER), examples.answer("Checked", examples.CLUSTER_CHECK)],
    )
    def post(self, request: Request) -> Response:
        """Check a cluster before it is added: address, TLS, credentials, permissions, nodes. Stores nothing."""
        require(self.actor, Cluster(), "cluster.edit")
        now = database_now()
        return Response(check_json(check_cluster(read_new_cluster(_wanted(request), now=now), now=now), reader_language(request)))


class ClusterView(ApiView):
    """Get a cluster, with its health and its isolation of tenants."""

    @extend_schema(
        operation_id="clusters_get", responses=ClusterOut, examples=[examples.answer("This machine", examples.CLUSTER)]
    )
    def get(self, request: Request, cluster_id: str) -> Response:
        return _answer(self, request, fetch(self.actor, Cluster, cluster_id, "cluster.read"))

    @extend_schema(
        operation_id="clusters_edit",
        parameters=[IF_MATCH],
        request=ClusterEdit,
        responses=ClusterOut,
        examples=[
            examples.body("Disable", {"is_enabled": False}),
            examples.body("Nodes of a label", {"config": {"node_selector": {"team": "research"}, "default_image": None}}),
            examples.answer("After", examples.KUBERNETES_CLUSTER),
        ],
    )
    def patch(self, request: Request, cluster_id: str) -> Response:
        """Change a cluster; all processes use it within seconds, and what runs continues.

        A cluster on which attempts live cannot be pointed at another server or namespace_prefix.
        """
        found = fetch(self.actor, Cluster, cluster_id, "cluster.edit")
        expected = expected_version(request)
        cluster = change_cluster(
            actor=self.actor, cluster_id=found.pk, changes=_changes(request), expected_version=expected, now=database_now()
        )
        return _answer(self, request, cluster)

    @extend_schema(operation_id="clusters_delete", parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, cluster_id: str) -> Response:
        """Remove a cluster with its pools and their limits. Refused while attempts live there, or guarantees or bookings hold."""
        found = fetch(self.actor, Cluster, cluster_id, "cluster.edit")
        remove_cluster(actor=self.actor, cluster_id=found.pk, expected_version=expected_version(request), now=database_now())
        return Response(status=204)


class ClusterCheckView(ApiView):
    """Checks of a cluster."""

    @extend_schema(
        operation_id="clusters_check",
        request=ClusterEdit,
        responses=ClusterCheckOut,
        examples=[examples.body("As it is", {}), examples.answer("Checked", examples.CLUSTER_CHECK)],
    )
    def post(self, request: Request, cluster_id: str) -> Response:
        """Check a cluster as it is, or as it would be with these changes: address, TLS, credentials, permissions, nodes.

        Stores nothing.
        """
        found = fetch(self.actor, Cluster, cluster_id, "cluster.edit")
        now = database_now()
        changed = with_changes(found, _changes(request), now=now)
        return Response(check_json(check_cluster(changed, now=now), reader_language(request)))


def check_json(found: list[Finding], language: str) -> dict[str, Any]:
    """Findings as the API writes them."""
    outcomes = {finding.outcome for finding in found}
    return {
        "outcome": next(outcome for outcome in WORST if outcome in outcomes or outcome is Outcome.OK).value,
        "items": [
            {
                "check": finding.check,
                "outcome": finding.outcome.value,
                "text": finding.text.in_language(language),
                "hint": finding.hint.in_language(language),
            }
            for finding in found
        ],
    }


def _wanted(request: Request) -> NewCluster:
    data = ClusterIn.validated(request.data)
    return NewCluster(data["name"], data["kind"], data["config"], data["credentials"] or "", data["is_enabled"])


def _changes(request: Request) -> ClusterChanges:
    data = ClusterEdit.validated(request.data)
    given = (data["credentials"] or "") if "credentials" in data else None
    return ClusterChanges(data.get("name"), data.get("config"), given, data.get("is_enabled"), data.get("is_lost"))


def _answer(view: ApiView, request: Request, cluster: Cluster, *, status: int = 200) -> Response:
    with_settings = allows(view.actor, cluster, "cluster.edit")
    shown = cluster_json([cluster], language=reader_language(request), with_settings=with_settings)
    return with_etag(Response(shown[0], status=status), cluster.version)
