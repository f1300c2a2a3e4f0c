"""The web portal, as it was built: one document for every page, and the files that it names.

The document is the same for all and says nothing about any user; its reader has to sign in. Its policy lets no
script run but those files, and no style but those and what carries the nonce of this one answer.
"""

from __future__ import annotations

import functools
import secrets
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, register_converter
from django.urls.converters import StringConverter
from django.views.decorators.http import require_safe

NONCE_BYTES = 16
NONCE_PLACE = "<head>"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# What answers in another form than a page: an unknown address there stays a problem in JSON.
OTHERS = ("api", "ws", "admin", "static", "assets", "livez", "readyz", "metrics", "docs")


class PageConverter(StringConverter):
    """An address that may be one of the portal's pages."""

    regex = rf"(?!(?:{'|'.join(OTHERS)})(?:/|$))[^\0]+"


register_converter(PageConverter, "page")


@require_safe
def begin(request: HttpRequest) -> HttpResponse:
    """The portal; where it was not built, the description of the API."""
    return show(request) if _document() else HttpResponseRedirect("/api/v1/docs")


@require_safe
def show(request: HttpRequest, page: str = "") -> HttpResponse:
    """The portal's document, for a browser that asks for one of its pages."""
    document = _document()
    if not document or "text/html" not in request.headers.get("Accept", ""):
        raise Http404
    nonce = secrets.token_urlsafe(NONCE_BYTES)
    text = document.replace(NONCE_PLACE, f'{NONCE_PLACE}<meta name="csp-nonce" content="{nonce}">', 1)
    response = HttpResponse(text, content_type="text/html; charset=utf-8")
    response["Content-Security-Policy"] = POLICY.format(nonce=nonce)
    response["Cache-Control"] = "no-cache"
    response["Vary"] = "Accept"
    return response


@functools.cache
def _document() -> str:
    file = Path(settings.PORTAL) / "index.html"
    return file.read_text(encoding="utf-8") if file.is_file() else ""


urlpatterns = [
    path("", begin, name="begin"),
    path("<page:page>", show, name="portal"),
]
