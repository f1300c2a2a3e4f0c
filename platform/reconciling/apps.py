from django.apps import AppConfig


class ReconcilingConfig(AppConfig):
    name = "reconciling"
    default_auto_field = "django.db.models.BigAutoField"
