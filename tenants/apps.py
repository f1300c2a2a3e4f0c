from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "tenants"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from activity import registry  # Models are loaded only now.
        from tenants import credentials, selectors
        from tenants.access import register_policy
        from tenants.features import Features
        from webapi.asgi_auth import register_authenticator, register_session_authenticator
        from webapi.features import register_source

        register_policy()
        register_source(Features())
        register_authenticator(credentials.authenticate_token)
        register_session_authenticator(credentials.authenticate_session)
        registry.register_recipient_directory(credentials.recipients)
        registry.register_actor_refresh(credentials.refresh_actors)
        registry.register_channel_policy("tenant", lambda actor, text: selectors.find_tenant(actor, text).id)
