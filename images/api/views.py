"""The image catalogue and its builds over HTTP. Views translate; services act."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import Q
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from images.api import serializers as shapes
from images.models import BuildRequest, Image, ImageKind
from images.pinning import check_container_build
from images.services import NewImage, build_again, create_image, delete_image
from images.services.builds import builds_of
from kernel.clock import database_now
from kernel.errors import FieldError, InvalidInput
from kernel.limits import NAME_LENGTH
from kernel.words import Text
from tenants.identity.access import demand
from tenants.identity.standing import demand_enabled
from tenants.selectors import find_tenant
from webapi import access
from webapi.etags import with_etag
from webapi.idempotency import idempotent
from webapi.pagination import page
from webapi.schema import page_of
from webapi.views import ApiView, known_query

KINDS = [str(kind) for kind in ImageKind]
STATES = ["queued", "building", "ready", "failed"]
FILTERS = [
    OpenApiParameter(
        "tenant", str, description="Slug, id or name of a tenant: its own images and the images shared with all tenants."
    ),
    OpenApiParameter("name", str, description="Exact name."),
    OpenApiParameter("q", str, description="Part of the name, case-insensitive."),
    OpenApiParameter("kind", str, enum=KINDS),
    OpenApiParameter("state", str, enum=STATES),
]
EXAMPLES = [
    OpenApiExample(
        "A Python environment",
        value={"name": "jax-cpu", "kind": "python", "requirements": "jax\nnumpy\nscikit-learn\n"},
        request_only=True,
    ),
    OpenApiExample(
        "A container image",
        value={"name": "train", "kind": "registry", "reference": "registry.example.org/vision/train:1.2"},
        request_only=True,
    ),
    OpenApiExample(
        "A container image to build",
        value={
            "name": "train",
            "kind": "registry",
            "base": "docker.io/library/python:3.12",
            "requirements": "numpy\n",
            "reference": "registry.example.org/vision/train:1.3",
        },
        request_only=True,
    ),
]


class ImagesView(ApiView):
    """Software that jobs run in."""

    @extend_schema(parameters=FILTERS, responses=page_of(shapes.ImageOut))
    def get(self, request: Request) -> Response:
        """List images that you may use, newest first."""
        known_query(request, ("tenant", "name", "q", "kind", "state"))
        rows = access.visible(self.actor, Image)
        tenant = request.query_params.get("tenant")
        if tenant is not None:
            rows = rows.filter(Q(tenant_id=find_tenant(self.actor, tenant).id) | Q(tenant_id__isnull=True))
        for name, allowed in (("kind", KINDS), ("state", STATES)):
            value = request.query_params.get(name)
            if value is not None:
                rows = rows.filter(**{name: _choice(name, value, allowed)})
        if "name" in request.query_params:
            rows = rows.filter(name=request.query_params["name"][:NAME_LENGTH])
        if part := request.query_params.get("q"):
            rows = rows.filter(name__icontains=part[:NAME_LENGTH])
        return page(request, rows.defer("packages"), order=("-id",), serialize=shapes.show_images)

    @extend_schema(request=shapes.ImageIn, responses={201: shapes.ImageOut}, examples=EXAMPLES)
    @idempotent
    def post(self, request: Request) -> Response:
        """Add an image. What has to be built is built by a job of the tenant; an environment that is there is READY at once."""
        body = shapes.ImageIn.validated(request.data)
        shared, tenant = body.pop("shared"), body.pop("tenant")
        tenant_id = None if shared else find_tenant(self.actor, tenant).id
        demand(self.actor, tenant_id, "image.share" if shared else "image.create")
        new = NewImage(**{name: value if value is not None else "" for name, value in body.items()})
        if tenant_id is not None:
            check_container_build(tenant_id=tenant_id, new=new)
        image = create_image(actor=self.actor, tenant_id=tenant_id, new=new, now=database_now())
        response = Response(_image_body(image), status=201, headers={"Location": f"/api/v1/images/{image.id}"})
        return with_etag(response, image.version)


class ImageView(ApiView):
    """One image."""

    @extend_schema(responses=shapes.ImageOut)
    def get(self, request: Request, image_id: uuid.UUID) -> Response:
        """Get an image with its packages."""
        image = access.fetch(self.actor, Image, image_id, "image.read")
        return with_etag(Response(_image_body(image)), image.version)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, image_id: uuid.UUID) -> Response:
        """Delete an image from the catalogue. Jobs that use it continue."""
        image = access.fetch(self.actor, Image, image_id, "image.delete")
        delete_image(actor=self.actor, image=image, now=database_now())
        return Response(status=204)


class BuildsView(ApiView):
    """Builds of an image."""

    @extend_schema(responses=page_of(shapes.BuildOut))
    def get(self, request: Request, image_id: uuid.UUID) -> Response:
        """List the builds of an image, newest first; each is a job with a log."""
        known_query(request, ())
        image = access.fetch(self.actor, Image, image_id, "image.read")
        rows = access.visible(self.actor, BuildRequest).filter(builds_of(image))
        return page(request, rows.defer("requirements"), order=("-id",), serialize=shapes.show_builds)

    @extend_schema(request=None, responses={201: shapes.BuildOut})
    @idempotent
    def post(self, request: Request, image_id: uuid.UUID) -> Response:
        """Rebuild a failed image, or any container image that was built here."""
        image = access.fetch(self.actor, Image, image_id, "image.edit")
        if image.tenant_id is not None:
            demand_enabled(image.tenant_id, "image.create")
        build = build_again(actor=self.actor, image=image, now=database_now())
        return Response(shapes.show_builds([build])[0], status=201)


def _image_body(image: Image) -> dict[str, Any]:
    return shapes.show_images([image], with_packages=True)[0]


def _choice(name: str, value: str, allowed: list[str]) -> str:
    if value not in allowed:
        message = Text(f"{name} must be one of {', '.join(allowed)}.", f"{name} 可选：{', '.join(allowed)}。")
        raise InvalidInput(message, fields=[FieldError(f"/{name}", "invalid_choice", message)])
    return value
