from django.apps import AppConfig


class StorageConfig(AppConfig):
    name = "storage"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from storage.access import register_policy

        register_policy()
