"""Who sees which jobs: tenants their own; of templates also those that are published."""

from __future__ import annotations

from jobs.models import Job, PriorityRequest, Template
from jobs.selectors.templates import allows_template, sees_template
from tenants.identity.access import tenant_rule
from webapi.access import register


def register_rules() -> None:
    """Register the rules of this app's models. Called once, when the app is ready."""
    tenant_rule(Job, owner="user_id")
    tenant_rule(PriorityRequest, owner="created_by_id", noun="priority_request")
    register(Template, sees=sees_template, allows=allows_template)
