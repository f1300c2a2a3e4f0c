"""What requests remember of images (`kernel/facts.py`), from a table whose changes leave a mark."""

from __future__ import annotations

import uuid

from images.services import ResolvedImage, resolve_image
from kernel.facts import Facts


def remembered_image(facts: Facts, tenant_id: uuid.UUID, text: str) -> ResolvedImage:
    """As `resolve_image`."""
    return facts.find(("image", tenant_id, text), lambda: resolve_image(tenant_id=tenant_id, text=text))
