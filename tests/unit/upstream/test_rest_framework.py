"""What is written to Django's request inside that of REST framework is there for the middleware."""

from django.http import HttpRequest
from rest_framework.request import Request

from upstream.rest_framework import plain, remember


def test_what_is_written_to_the_plain_request_is_seen_by_the_middleware() -> None:
    django = HttpRequest()
    request = Request(django)
    remember(request, facts="all of them", session_text="x")
    assert plain(request) is django
    assert (django.facts, django.session_text) == ("all of them", "x")
