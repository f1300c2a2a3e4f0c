"""A page for people outside the API: what an error code means (the `type` of every problem leads here)."""

from __future__ import annotations

import functools

from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from webapi.documents import error_classes
from webapi.reference import REFERENCE

POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Berth: errors</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }}
body {{ max-width: 46rem; margin: 2rem auto; padding: 0 1rem }}
section {{ border-top: 1px solid #8886; padding: .5rem 0 }}
:target {{ background: #fc83 }}
h2 {{ font: 600 1rem ui-monospace, monospace; margin: .5rem 0 }}
</style>
</head>
<body>
<h1>Errors</h1>
<p>Every failure of the <a href="/api/v1/docs">API</a> has a code that never changes its meaning.</p>
{sections}
</body>
</html>
"""


@require_safe
def errors(request: HttpRequest) -> HttpResponse:
    """Every error code with its meaning and the next step."""
    response = HttpResponse(_errors(), content_type="text/html; charset=utf-8")
    response["Content-Security-Policy"] = POLICY
    return response


@functools.cache
def _errors() -> SafeString:
    return format_html(
        PAGE,
        sections=format_html_join(
            "\n",
            '<section id="{}"><h2>{} &middot; {}</h2><p><b>{}</b> <span lang="zh">{}</span></p><p>{}</p><p>{}</p></section>',
            (
                (error.code, error.code, error.status, error.title.en, error.title.zh, error.meaning or "", next_step)
                for error in error_classes()
                if error.title is not None and (next_step := REFERENCE.get(str(error.code))) is not None
            ),
        ),
    )


urlpatterns = [path("docs/errors", errors, name="errors")]
