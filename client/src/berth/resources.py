"""The rest of the API, one small class per noun; each method is one request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from berth.errors import Ambiguous, NotFound, PreconditionFailed
from berth.limits import FILES_PAGE
from berth.metrics import Series, read_series
from berth.naming import is_id
from berth.paging import iterate, list_all
from berth.transfers import Progress, download, upload_file
from berth.transport import Call, Transport, post

Row = dict[str, Any]
Rows = list[dict[str, Any]]
Measured = list[Series]
NAMING_KEYS = ("slug", "path", "mount_as", "name")
"""What something may be called by, the most exact first."""
TRIES_OF_A_CHANGE = 5  # Of reading and writing back; each one lost means that another change has succeeded.
_RESOURCES = ("cpu_millis", "memory_bytes", "gpu_millis")


class _Resource:
    def __init__(self, transport: Transport, *, tenant: str = "") -> None:
        self._transport = transport
        self._tenant = tenant

    def _get(self, path: str, /, **params: object) -> Row:
        return dict(self._transport.json(Call("GET", path, params)))

    def _post(self, path: str, body: Mapping[str, object] | None = None) -> Row:
        return dict(self._transport.json(post(path, _given(body or {}))) or {})

    def _patch(self, path: str, body: Mapping[str, object], *, version: int | None = None) -> Row:
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        call = Call("PATCH", path, json=_given(body), headers=headers, repeatable=version is None)
        return dict(self._transport.json(call) or {})

    def _put(self, path: str, body: object, *, version: int | None = None) -> Any:
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        return self._transport.json(Call("PUT", path, json=body, headers=headers, repeatable=version is None))

    def _delete(self, path: str, /, **params: object) -> None:
        self._transport.send(Call("DELETE", path, params))

    def _take_back(self, path: str) -> Row:
        """DELETE of what stays visible: the answer is what became of it."""
        return dict(self._transport.json(Call("DELETE", path)) or {})

    def _find(self, path: str, name: str, **params: object) -> Row:
        """One object by id, or by its name among those that may be seen."""
        if is_id(name):
            return self._get(f"{path}/{name}")
        nouns = path.strip("/")
        named = [item for item in iterate(self._transport, path, params) if name in (item.get(key) for key in NAMING_KEYS)]
        for key in NAMING_KEYS:
            found = [item for item in named if item.get(key) == name]
            if len(found) > 1:
                found = [item for item in found if self._is_of_own_tenant(item)]
                if len(found) != 1:
                    raise Ambiguous(f"Several {nouns} are called {name!r}.", hint=f"Name it by its id: berth {nouns} -o wide")
            if found:
                return dict(found[0])
        noun = nouns.rstrip("s")
        raise NotFound(f"There is no {noun} {name!r} that you may see.", hint=f"List them: berth {nouns}", status=404)

    def _is_of_own_tenant(self, item: Mapping[str, Any]) -> bool:
        """Whether it belongs to the tenant that was chosen."""
        return bool(self._tenant) and self._tenant in (item.get("tenant") or {}).values()


class Tenants(_Resource):
    """Tenants, their members, secrets and service accounts."""

    def list(self) -> Iterator[Row]:
        return iterate(self._transport, "/tenants", {})

    def get(self, tenant: str) -> Row:
        return self._get(f"/tenants/{_segment(tenant)}")

    def create(self, name: str, *, parent: str | None = None, description: str | None = None) -> Row:
        return self._post("/tenants", {"name": name, "parent": parent, "description": description})

    def disable(self, tenant: str, *, reason: str | None = None, stop_jobs: bool = False, dry_run: bool = False) -> Row:
        """Let nothing begin in a tenant and in those below it; what runs goes on, unless `stop_jobs`. With `dry_run` only whom it
        would touch. For operators."""
        body = {"stop_jobs": stop_jobs} | ({} if reason is None else {"reason": reason})
        params = {"dry_run": True if dry_run else None}
        return dict(self._transport.json(post(f"/tenants/{_segment(tenant)}/disable", body, params=params)))

    def enable(self, tenant: str) -> Row:
        """Let things begin in a tenant again; its waiting jobs start by themselves. For operators."""
        return self._post(f"/tenants/{_segment(tenant)}/enable")

    def delete(self, tenant: str, *, confirm: str = "", dry_run: bool = False, plan: str | None = None) -> Row:
        """Delete a disabled tenant without live jobs; `confirm` is its name. With `dry_run` only what would go; with the `plan`
        of that just this goes, or nothing (`plan_changed`). For operators."""
        params = {"dry_run": True if dry_run else None, "plan": plan}
        return dict(self._transport.json(post(f"/tenants/{_segment(tenant)}/delete", {"confirm": confirm}, params=params)))

    def members(self, tenant: str) -> Rows:
        return list_all(self._transport, f"/tenants/{_segment(tenant)}/members")

    def add_member(self, tenant: str, user: str, role: str) -> Row:
        return self._post(f"/tenants/{_segment(tenant)}/members", {"user": user, "role": role})

    def change_member(self, tenant: str, user_id: str, role: str) -> Row:
        return self._patch(f"/tenants/{_segment(tenant)}/members/{_segment(user_id)}", {"role": role})

    def member_left(self, tenant: str, user: str) -> Row:
        """What a member would leave, or a former member has left, by kind: count and the first of them."""
        return self._get(f"/tenants/{_segment(tenant)}/members/{_segment(user)}/left")

    def hand_over(self, tenant: str, user: str, to: str) -> Row:
        """Give a member what another user has in the tenant, or has left there; users by name or id."""
        return self._post(f"/tenants/{_segment(tenant)}/members/{_segment(user)}/hand-over", {"to": to})

    def remove_member(self, tenant: str, user_id: str, *, stop_jobs: bool = False, hand_to: str | None = None) -> None:
        """Running jobs continue and waiting jobs are held, unless all are stopped or handed over to a member."""
        path = f"/tenants/{_segment(tenant)}/members/{_segment(user_id)}"
        self._delete(path, stop_jobs=stop_jobs or None, hand_to=hand_to)

    def secrets(self, tenant: str) -> Rows:
        """Names only; values cannot be read back."""
        return list_all(self._transport, f"/tenants/{_segment(tenant)}/secrets")

    def set_secret(self, tenant: str, name: str, value: str) -> None:
        self._put(f"/tenants/{_segment(tenant)}/secrets/{_segment(name)}", {"value": value})

    def delete_secret(self, tenant: str, name: str) -> None:
        self._delete(f"/tenants/{_segment(tenant)}/secrets/{_segment(name)}")

    def registries(self, tenant: str) -> Rows:
        """Accounts at container registries; passwords cannot be read back."""
        return list_all(self._transport, f"/tenants/{_segment(tenant)}/registries")

    def set_registry(self, tenant: str, host: str, *, username: str, password: str) -> Row:
        body = {"username": username, "password": password}
        return dict(self._put(f"/tenants/{_segment(tenant)}/registries/{_segment(host)}", body))

    def delete_registry(self, tenant: str, host: str) -> None:
        self._delete(f"/tenants/{_segment(tenant)}/registries/{_segment(host)}")

    def check_registry(self, tenant: str, host: str, *, image: str | None = None) -> Row:
        """Whether the registry takes the account (`ok`), and what is wrong if not; for one `image`, its digest."""
        return self._post(f"/tenants/{_segment(tenant)}/registries/{_segment(host)}/check", {"image": image})

    def create_service_account(self, tenant: str, name: str, role: str) -> Row:
        return self._post(f"/tenants/{_segment(tenant)}/service-accounts", {"name": name, "role": role})


class Tokens(_Resource):
    """Personal access tokens. The secret part is in the answer of `create` and nowhere else."""

    def list(self, *, user: str | None = None) -> Iterator[Row]:
        """One's own; of `user`, by id or name, for operators."""
        return iterate(self._transport, "/tokens", {} if user is None else {"user": user})

    def create(self, name: str, *, scopes: Sequence[str] | None = None, expires_at: str | None = None) -> Row:
        return self._post("/tokens", {"name": name, "scopes": None if scopes is None else [*scopes], "expires_at": expires_at})

    def revoke(self, token_id: str) -> None:
        self._delete(f"/tokens/{_segment(token_id)}")


class DeviceCodes(_Resource):
    """Signing in by a browser that is signed in (RFC 8628). Needs no token."""

    def ask(self, client: str) -> Row:
        """A code that a person approves, and the secret that fetches the token then."""
        return dict(self._transport.json(Call("POST", "/device-codes", json={"client": client}, repeatable=False)))

    def redeem(self, device_code: str) -> Row:
        """The token, once it is approved; an ApiError with code `authorization_pending` or `slow_down` until then. The answer is
        the only place where the token stands, so the request is not sent again once it may have arrived."""
        body = {"device_code": device_code}
        return dict(self._transport.json(Call("POST", "/device-codes:redeem", json=body, repeatable=False)))


class Users(_Resource):
    """People of the installation; for operators."""

    def list(self) -> Iterator[Row]:
        return iterate(self._transport, "/users", {})

    def change(self, user_id: str, **changes: object) -> Row:
        return self._patch(f"/users/{_segment(user_id)}", changes)

    def left(self, user_id: str) -> Row:
        """What a user would leave in all tenants, by kind."""
        return self._get(f"/users/{_segment(user_id)}/left")

    def invite(self, email: str, *, tenant: str | None = None, role: str | None = None) -> Row:
        return self._post("/invitations", {"email": email, "tenant": tenant, "role": role})

    def accept_invitation(self, code: str, *, name: str = "", password: str = "") -> Row:
        """Use an invitation up: for the account of this client's token, or without one for a new account. The answer is the
        only place where the new account's first token stands, so the request is not sent again once it may have arrived."""
        body = {"token": code, **({"name": name, "password": password} if name or password else {})}
        return dict(self._transport.json(Call("POST", "/invitations:accept", json=body, repeatable=False)))

    def import_csv(self, text: str) -> Row:
        call = Call(
            "POST", "/users:import", content=text.encode(), headers={"Content-Type": "text/csv; charset=utf-8"}, repeatable=False
        )
        return dict(self._transport.json(call) or {})


class Queues(_Resource):
    """The tree of capacity, and its ceilings per pool."""

    def list(self) -> Iterator[Row]:
        return iterate(self._transport, "/queues", {"tenant": self._tenant or None})

    def get(self, queue: str) -> Row:
        return self._find("/queues", queue)

    def create(self, name: str, *, parent: str | None = None) -> Row:
        """Split a queue; `parent` by id, path, or name within the tenant. None is the tenant's own."""
        if parent and "/" in parent:
            parent = str(self.get(parent)["id"])
        return self._post("/queues", {"name": name, "parent": parent, "tenant": self._tenant or None})

    def rename(self, queue: str, name: str) -> Row:
        """Give a queue another name; jobs keep pointing at it."""
        return self._patch(f"/queues/{self.get(queue)['id']}", {"name": name})

    def delete(self, queue: str) -> None:
        """Delete an empty queue; its finished jobs and its history stay."""
        self._delete(f"/queues/{self.get(queue)['id']}")

    def set_limits(self, queue_id: str, limits: Sequence[Mapping[str, object]], *, version: int | None = None) -> Any:
        """Replace the ceilings of all pools: entries {pool, cpu_millis, memory_bytes, gpu_millis}; null is unlimited. With
        `version`, only if the queue was not changed since."""
        return self._put(f"/queues/{_segment(queue_id)}/limits", [dict(entry) for entry in limits], version=version)

    def limit(self, queue: str, pool: str, **ceilings: int | None) -> Row:
        """Change ceilings of one pool (cpu_millis, memory_bytes, gpu_millis; None is unlimited). What is not named, and other
        pools, stay as they are: read, changed and written back, again from the start if another change came between."""
        found = self.get(queue)
        for tried in range(1, TRIES_OF_A_CHANGE + 1):
            try:
                return dict(self.set_limits(found["id"], _changed_limits(found, pool, ceilings), version=found["version"]))
            except PreconditionFailed:
                if tried == TRIES_OF_A_CHANGE:
                    raise
                found = self._get(f"/queues/{found['id']}")
        raise AssertionError("unreachable")


class Clusters(_Resource):
    """What there is to run on."""

    def list(self) -> Iterator[Row]:
        return iterate(self._transport, "/clusters", {})

    def get(self, cluster: str) -> Row:
        return self._find("/clusters", cluster)

    def add(self, cluster: Mapping[str, object]) -> Row:
        """Add a cluster, as an operator: name, kind, config, credentials (None: the account of the pod that Berth runs in)."""
        return dict(self._transport.json(post("/clusters", dict(cluster))))

    def check_new(self, cluster: Mapping[str, object]) -> Row:
        """Check a cluster before it is added; nothing is stored. `outcome` is the worst of `items`."""
        return dict(self._transport.json(Call("POST", "/clusters:check", json=dict(cluster), repeatable=True)))

    def change(self, cluster_id: str, changes: Mapping[str, object], *, version: int | None = None) -> Row:
        """Change what is named: name, config (None restores a default), credentials, is_enabled."""
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        call = Call("PATCH", f"/clusters/{cluster_id}", json=dict(changes), headers=headers, repeatable=version is None)
        return dict(self._transport.json(call))

    def check(self, cluster_id: str, changes: Mapping[str, object] | None = None) -> Row:
        """Check a cluster as it is, or as it would be with these changes."""
        call = Call("POST", f"/clusters/{cluster_id}/check", json=dict(changes or {}), repeatable=True)
        return dict(self._transport.json(call))

    def remove(self, cluster_id: str) -> None:
        """Remove a cluster on which nothing lives, with its pools and their limits."""
        self._delete(f"/clusters/{cluster_id}")

    def pools(self) -> Iterator[Row]:
        return iterate(self._transport, "/pools", {})

    def nodes(self) -> Iterator[Row]:
        return iterate(self._transport, "/nodes", {})

    def node(self, node: str) -> Row:
        return self._find("/nodes", node)

    def cordon(self, node: str, *, reason: str = "") -> Row:
        """Cordon a node: no new task starts there. The reason is shown to users whose jobs wait for it."""
        return self._patch(f"/nodes/{self.node(node)['id']}", {"cordoned": True, "cordon_reason": reason})

    def drain(self, node: str, *, reason: str = "", dry_run: bool = False, plan: str | None = None) -> Row:
        """Drain a node: cordon it and evict its jobs. With `dry_run` the jobs are only listed; with the `plan` of that exactly
        these are evicted, or none (`plan_changed`)."""
        params = {"dry_run": True if dry_run else None, "plan": plan}
        path = f"/nodes/{self.node(node)['id']}/drain"
        return dict(self._transport.json(post(path, {"reason": reason}, params=params)))

    def uncordon(self, node: str) -> Row:
        """Uncordon a node."""
        return self._patch(f"/nodes/{self.node(node)['id']}", {"cordoned": False})

    def taint(self, node: str, taints: Mapping[str, str | None]) -> Row:
        """Change an operator's taints of a node: avoid or keep-out by name, None takes one away; what is not named stays. Read,
        changed and written back, again from the start if another change came between."""
        found = self.node(node)
        for tried in range(1, TRIES_OF_A_CHANGE + 1):
            wanted = {name: effect for name, effect in {**found["own_taints"], **taints}.items() if effect is not None}
            try:
                return self._patch(f"/nodes/{found['id']}", {"taints": wanted}, version=found["version"])
            except PreconditionFailed:
                if tried == TRIES_OF_A_CHANGE:
                    raise
                found = self._get(f"/nodes/{found['id']}")
        raise AssertionError("unreachable")

    def pool(self, pool: str) -> Row:
        return self._find("/pools", pool)

    def edit_pool(self, pool: str, **rules: object) -> Row:
        """Its name, and how it is filled: policy, weights, gpu_shares, shared_devices_max, levels. What is not named stays; None
        puts a rule back to its default."""
        call = Call("PATCH", f"/pools/{self.pool(pool)['id']}", json=rules, repeatable=True)
        return dict(self._transport.json(call) or {})

    def pool_metrics(self, pool: str, **params: object) -> Measured:
        """Series of one pool; params: metric, since, until, points."""
        pool_id = pool if is_id(pool) else str(self.pool(pool)["id"])
        return read_series(self._transport.json(Call("GET", f"/pools/{pool_id}/metrics", params)))

    def node_metrics(self, node: str, **params: object) -> Measured:
        """Series of one node; params: metric, since, until, points."""
        node_id = node if is_id(node) else str(self.node(node)["id"])
        return read_series(self._transport.json(Call("GET", f"/nodes/{node_id}/metrics", params)))


class Images(_Resource):
    """Software to run in."""

    def list(self) -> Iterator[Row]:
        return iterate(self._transport, "/images", {"tenant": self._tenant or None})

    def get(self, image: str) -> Row:
        return self._find("/images", image)

    def create(
        self,
        name: str,
        *,
        kind: str,
        requirements: str | None = None,
        reference: str | None = None,
        containerfile: str | None = None,
        context_sha256: str | None = None,
        base: str | None = None,
    ) -> Row:
        """A new image. A `registry` image with `containerfile`, or with `base` and `requirements`, is built and pushed to
        `reference`; `context_sha256` is the digest of an uploaded folder."""
        body = {"tenant": self._tenant or None, "name": name, "kind": kind, "requirements": requirements, "reference": reference}
        build = {"containerfile": containerfile, "context_sha256": context_sha256, "base": base}
        return self._post("/images", {**body, **{field: value for field, value in build.items() if value is not None}})

    def delete(self, image: str) -> None:
        self._delete(f"/images/{self.get(image)['id']}")

    def build_again(self, image: str) -> Row:
        """Build a failed image once more, or any container image that was built here; the new build."""
        return self._post(f"/images/{self.get(image)['id']}/builds", None)

    def builds(self, image: str) -> Rows:
        """The builds of an image; each is a job whose log tells its progress."""
        return list_all(self._transport, f"/images/{self.get(image)['id']}/builds")


class Templates(_Resource):
    """Jobs to fill in."""

    def list(self, *, q: str | None = None, tag: str | None = None) -> Iterator[Row]:
        return iterate(self._transport, "/templates", {"tenant": self._tenant or None, "q": q, "tag": tag})

    def get(self, template: str) -> Row:
        return self._find("/templates", template)

    def render(
        self,
        template: str,
        parameters: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        queue: str | None = None,
        preview: bool = True,
    ) -> Row:
        """`spec`, the job that these parameters make, and `problems` of it. `preview` False counts it as a use."""
        body = {"parameters": dict(parameters or {}), "name": name, "queue": queue, "preview": preview}
        return self._post(f"/templates/{self.get(template)['id']}/render", body)

    def test(self, template: str, *, tenant: str | None = None, queue: str | None = None) -> Row:
        """Submit the job of a template's defaults, for users who may edit it; the answer's `test` tells job and result."""
        body = {"tenant": tenant or self._tenant or None, "queue": queue or ""}
        return self._post(f"/templates/{self.get(template)['id']}/test", body)


class Volumes(_Resource):
    """Data that jobs mount."""

    def list(self) -> Iterator[Row]:
        return iterate(self._transport, "/volumes", {"tenant": self._tenant or None})

    def get(self, volume: str) -> Row:
        return self._find("/volumes", volume, tenant=self._tenant or None)

    def create(self, name: str, **options: object) -> Row:
        return self._post("/volumes", {"tenant": self._tenant or None, "name": name, **options})

    def delete(self, volume: str) -> None:
        self._delete(f"/volumes/{self._id(volume)}")

    def grant(self, volume: str, tenant: str, *, read_only: bool = True) -> Row:
        return self._post(f"/volumes/{self._id(volume)}/grants", {"tenant": tenant, "read_only": read_only})

    def revoke(self, volume: str, grant_id: str) -> None:
        self._delete(f"/volumes/{self._id(volume)}/grants/{_segment(grant_id)}")

    def files(self, volume: str, path: str = "") -> Rows:
        """What lies in one folder of the volume."""
        return list_all(self._transport, f"/volumes/{self._id(volume)}/files", path=path or None, limit=FILES_PAGE)

    def upload(self, volume: str, source: str | Path, path: str, *, progress: Progress | None = None) -> Row:
        """Send one file to `path` on the volume; takes up where an interrupted one stopped."""
        target = {"volume": self._id(volume), "path": path}
        return upload_file(self._transport, Path(source), tenant=self._tenant, target=target, progress=progress)

    def download(
        self, volume: str, path: str, dest: str | Path, *, size_bytes: int | None = None, progress: Progress | None = None
    ) -> Path:
        """Fetch one file of the volume."""
        call = Call("GET", f"/volumes/{self._id(volume)}/content", {"path": path})
        return download(self._transport, call, Path(dest), size_bytes=size_bytes, progress=progress)

    def remove(self, volume: str, path: str) -> None:
        """Delete a file of the volume."""
        self._delete(f"/volumes/{self._id(volume)}/content", path=path)

    def _id(self, volume: str) -> str:
        return volume if is_id(volume) else str(self.get(volume)["id"])


class Activity(_Resource):
    """What happened, who did it, and who is told."""

    def events(self, *, after: str | None = None, limit: int | None = None) -> Iterator[Row]:
        return iterate(self._transport, "/events", {"tenant": self._tenant or None, "after": after}, limit=limit)

    def audit(self, *, limit: int | None = None, **filters: object) -> Iterator[Row]:
        return iterate(self._transport, "/audit", {"tenant": self._tenant or None, **filters}, limit=limit)

    def subscriptions(self) -> Rows:
        return list_all(self._transport, "/subscriptions")

    def channels(self) -> Rows:
        """The notification channels, with the fields of each."""
        return list(self._transport.json(Call("GET", "/notification-channels"))["items"])

    def subscribe(self, **subscription: object) -> Row:
        """`channel` is a kind of `channels`, `target` its field of that name, `settings` its others."""
        return self._post("/subscriptions", subscription)

    def change_subscription(self, subscription_id: str, **changes: object) -> Row:
        """Of `settings`, those that are not named stay, and an empty one is removed."""
        return self._patch(f"/subscriptions/{_segment(subscription_id)}", changes)

    def test_subscription(self, subscription_id: str) -> Row:
        """Send a test message; the answer is its delivery, which is sent soon after."""
        return self._post(f"/subscriptions/{_segment(subscription_id)}/test")

    def unsubscribe(self, subscription_id: str) -> None:
        self._delete(f"/subscriptions/{_segment(subscription_id)}")

    def deliveries(self, *, limit: int | None = None) -> Iterator[Row]:
        return iterate(self._transport, "/deliveries", {}, limit=limit)

    def retry_delivery(self, delivery_id: str) -> Row:
        return self._post(f"/deliveries/{_segment(delivery_id)}/retry")


def _changed_limits(queue: Mapping[str, Any], pool: str, ceilings: Mapping[str, int | None]) -> Rows:
    """The ceilings of all pools as they are, but for this one's."""
    named = [share["pool"] for share in queue["pools"] if pool in _names_of_pool(share["pool"])]
    if len(named) > 1:
        raise Ambiguous(
            f"Several clusters have a pool {pool!r}.", hint=f"Say which: {', '.join(_names_of_pool(pool)[1] for pool in named)}"
        )
    if not named:
        raise NotFound(f"There is no pool {pool!r}.", hint="List them: berth pools", status=404)
    limits = []
    for share in queue["pools"]:
        ceiling = {name: share["ceiling"][name] for name in _RESOURCES}
        if share["pool"]["id"] == named[0]["id"]:
            ceiling |= ceilings
        if any(amount is not None for amount in ceiling.values()):
            limits.append({"pool": share["pool"]["id"], **ceiling})
    return limits


def _names_of_pool(pool: Mapping[str, Any]) -> tuple[str, str, str]:
    """What a pool may be called by: its name, its cluster and name, its id."""
    return pool["name"], f"{pool['cluster']}/{pool['name']}", pool["id"]


def _segment(text: str) -> str:
    return quote(text, safe="")


def _given(body: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in body.items() if value is not None}
