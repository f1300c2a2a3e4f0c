"""Edits of limits, per-user caps, run time limits of queues, and bookings of GPUs; each method is one request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from berth.paging import iterate
from berth.resources import Row, Rows, _given, _Resource, _segment
from berth.transport import post


class Quota(_Resource):
    """Limits of queues, edited for several queues at once, and per-user caps."""

    def edit(
        self,
        changes: Sequence[Mapping[str, object]],
        *,
        dry_run: bool = False,
        effective_from: str | None = None,
        comment: str = "",
        versions: Mapping[str, int] | None = None,
        plan: str | None = None,
    ) -> Row:
        """Change limits together or not at all: entries {queue, pool, resource} with any of guarantee, deserved, ceiling and
        weight. With `dry_run` nothing changes and `forecast` says what would; `effective_from` makes it wait for its time. With
        the `plan` of a dry run just that is done, or nothing (`plan_changed`)."""
        body: dict[str, object] = {"changes": [dict(change) for change in changes], "dry_run": dry_run, "comment": comment}
        body |= {"effective_from": effective_from, "versions": versions, "tenant": self._tenant or None}
        return dict(self._transport.json(post("/quota/edits", _given(body), params={"plan": plan})))

    def edits(self, *, state: str | None = None) -> Iterator[Row]:
        return iterate(self._transport, "/quota/edits", {"tenant": self._tenant or None, "state": state})

    def get_edit(self, edit_id: str) -> Row:
        return self._get(f"/quota/edits/{_segment(edit_id)}")

    def cancel_edit(self, edit_id: str) -> Row:
        """Cancel a scheduled edit."""
        return self._take_back(f"/quota/edits/{_segment(edit_id)}")

    def request(self, changes: Sequence[Mapping[str, object]], *, effective_from: str | None = None, reason: str = "") -> Row:
        """Request changes that a manager of the limits decides on: entries as for `edit`."""
        body: dict[str, object] = {"changes": [dict(change) for change in changes], "reason": reason}
        return self._post("/quota/requests", body | {"effective_from": effective_from, "tenant": self._tenant or None})

    def requests(self, *, state: str | None = None) -> Iterator[Row]:
        return iterate(self._transport, "/quota/requests", {"tenant": self._tenant or None, "state": state})

    def approve(self, request_id: str, *, answer: str = "", effective_from: str | None = None) -> Row:
        """Make the requested edit."""
        body: dict[str, object] = {"answer": answer, "effective_from": effective_from}
        return self._post(f"/quota/requests/{_segment(request_id)}/approve", body)

    def deny(self, request_id: str, *, answer: str = "") -> Row:
        return self._post(f"/quota/requests/{_segment(request_id)}/deny", {"answer": answer})

    def withdraw(self, request_id: str) -> Row:
        """Withdraw a pending request."""
        return self._take_back(f"/quota/requests/{_segment(request_id)}")

    def caps(self, tenant: str) -> Rows:
        """The per-user caps of a tenant; the line without a user is the cap of all others."""
        return list(self._get(f"/tenants/{_segment(tenant)}/caps")["items"])

    def set_caps(self, tenant: str, lines: Sequence[Mapping[str, object]]) -> Rows:
        """Replace all caps of a tenant: entries {user, gpu_millis, jobs, containers}; null is no cap."""
        return list(self._put(f"/tenants/{_segment(tenant)}/caps", [dict(line) for line in lines])["items"])

    def rules(self, queue_id: str) -> Row:
        """How long jobs of a queue may run, and how many may."""
        return self._get(f"/queues/{_segment(queue_id)}/rules")

    def set_rules(self, queue_id: str, *, version: int | None = None, **rules: int | None) -> Row:
        """`max_runtime_seconds`, `default_runtime_seconds` (for planning alone), and of a tenant's top queue `max_jobs` and
        `max_containers`; None lifts it, the rest stays."""
        return dict(self._put(f"/queues/{_segment(queue_id)}/rules", dict(rules), version=version))


class Bookings(_Resource):
    """GPUs of a pool for a queue and a window."""

    def list(self, *, state: str | None = None) -> Iterator[Row]:
        return iterate(self._transport, "/bookings", {"tenant": self._tenant or None, "state": state})

    def get(self, booking_id: str) -> Row:
        return self._get(f"/bookings/{_segment(booking_id)}")

    def create(
        self, pool: str, gpu_millis: int, *, starts_at: str, ends_at: str, queue: str | None = None, comment: str = ""
    ) -> Row:
        """Book whole GPUs (1000 each). Conflict, with the other bookings in `fields`, where others have booked them."""
        body: dict[str, object] = {"pool": pool, "gpu_millis": gpu_millis, "starts_at": starts_at, "ends_at": ends_at}
        return self._post("/bookings", body | {"queue": queue, "comment": comment, "tenant": self._tenant or None})

    def cancel(self, booking_id: str) -> Row:
        return self._take_back(f"/bookings/{_segment(booking_id)}")
