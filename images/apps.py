from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class ImagesConfig(AppConfig):
    name = "images"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from images import wiring  # Models are loaded only now.

        wiring.register()
        post_migrate.connect(_fill_catalogue, sender=self)


def _fill_catalogue(**_: Any) -> None:
    """The host's own programs are in every catalogue from the first migration on."""
    from images.services import ensure_host_image
    from kernel.clock import database_now

    ensure_host_image(now=database_now())
