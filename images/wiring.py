"""What images bring to the layers below: errors, the table that requests remember, and who may see what."""

from __future__ import annotations

from django.db.models import Model

from images import models
from images.access import register_rules
from images.errors import FAILURES
from kernel.crashpoints import register_crash_points
from kernel.tenant_rows import TENANT, register_tenant_rows
from tenants.identity.leaving import Belonging, register_belongings
from webapi.facts import register_fact_tables
from webapi.reference import register_errors

ERRORS = {
    "image_exists": "Choose another name, or delete the image that has it.",
    **{failure.code: failure.next_step.en for failure in FAILURES},
    "builder_missing": "Ask an operator to install the Debian packages that the message names.",
    "not_built": "Images with requirements, a Containerfile or a base are built; others are pulled as they are.",
}

FACT_TABLES: dict[type[Model], tuple[str, ...]] = {
    models.Image: ("tenant_id", "name", "kind", "state", "digest", "reference", "location", "error", "is_deleted"),
}

CRASH_POINTS = {
    "images.build.after_seal": "A built environment is sealed, neither request nor image says so.",
    "images.build.after_push": "The end of a container image's build is noted, what it left on this host is still there.",
}

TENANT_ROWS = {
    "images.Image": (TENANT,),
    "images.BuildRequest": (TENANT,),
    "images.RegistryAccount": (TENANT,),
}


BELONGINGS = {
    "images": Belonging(
        lambda user_id: models.Image.objects.filter(created_by_id=user_id, is_deleted=False, tenant_id__isnull=False),
        owner="created_by_id",
    ),
}


def register() -> None:
    """Called once, from `AppConfig.ready`."""
    register_errors(ERRORS)
    register_fact_tables(FACT_TABLES)
    register_crash_points(CRASH_POINTS)
    register_tenant_rows(TENANT_ROWS)
    register_belongings(BELONGINGS)
    register_rules()
