"""drf-spectacular: a DELETE that takes a body has one in the description."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema

from upstream.hooks import CORRECTNESS, Hook

HOOKS = (
    Hook(
        upstream="drf_spectacular.openapi.AutoSchema._get_request_body",
        parameters="self, direction",
        ours="BodyOfDelete._get_request_body",
        why="It describes no body of a DELETE and has no setting for it; the removal of a second factor asks for a code.",
        gain=f"{CORRECTNESS}: generated clients could not send the code",
        test="unit/upstream/test_spectacular.py::test_a_delete_that_takes_a_body_is_described_with_it",
    ),
)


class BodyOfDelete(AutoSchema):
    """Describes the body of a DELETE whose handler says `has_body`."""

    def _get_request_body(self, direction: Any = "request") -> Any:
        handler = getattr(self.view, self.method.lower(), None)
        if self.method != "DELETE" or not getattr(handler, "has_body", False):
            return super()._get_request_body(direction)  # type: ignore[no-untyped-call]  # It has no types.
        self.method = "POST"
        try:
            return super()._get_request_body(direction)  # type: ignore[no-untyped-call]
        finally:
            self.method = "DELETE"
