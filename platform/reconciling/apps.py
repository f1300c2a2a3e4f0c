from django.apps import AppConfig


class ReconcilingConfig(AppConfig):
    name = "reconciling"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from reconciling import wiring

        wiring.register()
