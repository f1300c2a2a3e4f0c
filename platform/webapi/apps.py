from django.apps import AppConfig


class WebapiConfig(AppConfig):
    name = "webapi"
    default_auto_field = "django.db.models.BigAutoField"
