"""Parts of paths that name a tenant or a user."""

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

TENANT_PATH = OpenApiParameter("tenant", str, OpenApiParameter.PATH, description="Slug, id or unique name.")
USER_PATH = OpenApiParameter("user_id", OpenApiTypes.UUID, OpenApiParameter.PATH)
