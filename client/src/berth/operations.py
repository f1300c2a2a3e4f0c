"""What keeps an installation in order: announcements, maintenance windows, features; each method is one request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from berth.paging import iterate
from berth.resources import Row, Rows, _Resource, _segment


class Announcements(_Resource):
    """Announcements to all users, by operators, or to a tenant and its child tenants, by its managers."""

    def list(self, *, all_: bool = False) -> Iterator[Row]:
        """Those that are shown now; with `all_` also dismissed, planned and past ones that you may change."""
        return iterate(self._transport, "/announcements", {"all": all_ or None})

    def create(
        self,
        text: str,
        *,
        text_zh: str = "",
        level: str = "info",
        tenant: str | None = None,
        starts_at: str | None = None,
        ends_at: str | None = None,
    ) -> Row:
        """Publish an announcement; without a `tenant` to all users, which operators may."""
        body: dict[str, object] = {"text": text, "text_zh": text_zh, "level": level, "tenant": tenant}
        return self._post("/announcements", body | {"starts_at": starts_at, "ends_at": ends_at})

    def delete(self, announcement: str) -> None:
        self._delete(f"/announcements/{_segment(announcement)}")


class Maintenance(_Resource):
    """Windows in which nodes, or a pool as a whole, are out of service."""

    def list(self, *, open_: bool = True) -> Iterator[Row]:
        """Planned and active windows; with `open_` False also those that are over or cancelled."""
        return iterate(self._transport, "/maintenance", {"open": True if open_ else None})

    def create(
        self,
        *,
        starts_at: str,
        ends_at: str,
        pool: str | None = None,
        nodes: Sequence[str] = (),
        drain: bool = False,
        reason: str = "",
    ) -> Row:
        """Plan a window for a pool or for nodes. `drain` requeues what runs there when it begins."""
        body: dict[str, object] = {"starts_at": starts_at, "ends_at": ends_at, "pool": pool, "drain": drain, "reason": reason}
        return self._post("/maintenance", body | ({"nodes": list(nodes)} if nodes else {}))

    def cancel(self, window: str) -> Row:
        """Cancel a planned window, or end an active one now."""
        return self._take_back(f"/maintenance/{_segment(window)}")


class Features(_Resource):
    """Parts of the product that operators switch off and on."""

    def list(self, *, tenant: str | None = None) -> Rows:
        return list(self._get("/features", tenant=tenant)["items"])

    def set(self, name: str, enabled: bool | None, *, tenant: str | None = None) -> None:
        """Switch a feature on or off, for the installation or one tenant; None: as inherited."""
        self._put(f"/features/{_segment(name)}", {"enabled": enabled, "tenant": tenant})
