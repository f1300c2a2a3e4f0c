"""What tenants answer when a layer below asks: who sends a request, who people are, and which features are on."""

from __future__ import annotations

from activity import registry
from clusters.services import register_removal
from tenants import selectors
from tenants.capacity.services import cluster_removal
from tenants.identity import credentials
from tenants.portal.features import Features
from webapi.asgi_auth import register_authenticator, register_session_authenticator
from webapi.features import register_source


def register_hooks() -> None:
    """Called once, when the app is ready."""
    register_source(Features())
    register_authenticator(credentials.authenticate_token)
    register_session_authenticator(credentials.authenticate_session)
    registry.register_recipient_directory(credentials.recipients)
    registry.register_actor_refresh(credentials.refresh_actors)
    registry.register_channel_policy("tenant", lambda actor, text: selectors.find_tenant(actor, text).id)
    register_removal(cluster_removal.obstacles, clean=cluster_removal.clean)
