"""`manage.py rotate_secrets`: encrypt every stored secret under the present key, so that a previous one can be removed."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from activity import notifications
from clusters.services import rotate_credentials
from images.services import rotate_accounts
from tenants.services import rotate_second_factors, rotate_secrets


class Command(BaseCommand):
    help = "Encrypt all secrets anew under the present key. May be repeated."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"{rotate_secrets()} secrets of tenants are encrypted under the present key.")
        self.stdout.write(f"{rotate_accounts()} accounts at registries are encrypted under the present key.")
        self.stdout.write(f"{rotate_second_factors()} second factors are encrypted under the present key.")
        self.stdout.write(f"{notifications.rotate_secrets()} secrets of webhooks are encrypted under the present key.")
        self.stdout.write(f"{rotate_credentials()} credentials of clusters are encrypted under the present key.")
