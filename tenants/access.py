"""Who may see what: the rules of each room, and those of the apps below, which have no tenants and no roles."""

from __future__ import annotations

from django.apps import apps

from tenants.billing import access as billing
from tenants.capacity import access as capacity
from tenants.identity import access as identity
from tenants.portal import access as portal


def register_rules() -> None:
    """Register the rules of this app's models and of those below. Called once, when the app is ready."""
    for room in (identity, portal, capacity, billing):
        room.register_rules()
    _register_rules_of_apps_below()


def _register_rules_of_apps_below() -> None:
    """They have no tenants and no roles: who may read their rows is said here, by name, because their models are their own."""
    for label in ("clusters.Cluster", "clusters.Pool", "clusters.Node", "clusters.MaintenanceWindow"):
        identity.installation_rule(apps.get_model(label))
    identity.operators_rule(apps.get_model("clusters.Quarantined"), "quarantine.read")
    identity.tenant_rule(apps.get_model("activity.AuditEvent"), noun="audit")
    identity.tenant_rule(apps.get_model("activity.Event"))
    identity.own_rule(apps.get_model("activity.Subscription"))
    identity.own_rule(apps.get_model("activity.Delivery"))
