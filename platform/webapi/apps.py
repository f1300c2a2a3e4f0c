from django.apps import AppConfig


class WebapiConfig(AppConfig):
    name = "webapi"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapi import wiring  # Models are loaded only now.

        wiring.register()
