"""Turns the mounts that a job asks for into what an engine gets. What is not granted does not exist."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from clusters.engines.interface import MountRef, Place
from kernel.errors import FieldError, InvalidInput
from kernel.words import Text
from storage import bounds
from storage.models import Volume, VolumeGrant
from storage.places import place_of
from tenants.selectors import tenant_facts

_MEANT_AT_ONCE = 250
_HINT = Text("`berth volumes` lists what this tenant may mount.", "`berth volumes` 列出此租户可挂载的存储卷。")


@dataclass(frozen=True, slots=True)
class MountRequest:
    """One mount of a job. `volume` is a name, an id, or `<owner tenant>/<name>` for a volume of another tenant."""

    volume: str
    path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class _Usable:
    volume: Volume
    read_only: bool


def resolve_mounts(*, tenant_id: uuid.UUID, mounts: Sequence[MountRequest], path: str = "/mounts") -> tuple[MountRef, ...]:
    """What the tenant's job gets mounted. InvalidInput with an error for every mount that cannot be; three queries."""
    refs, errors = check_mounts(tenant_id=tenant_id, mounts=mounts, path=path)
    if errors:
        raise InvalidInput(errors[0].message, fields=errors, hint=errors[0].hint)
    return refs


def check_mounts(
    *, tenant_id: uuid.UUID, mounts: Sequence[MountRequest], path: str = "/mounts"
) -> tuple[tuple[MountRef, ...], tuple[FieldError, ...]]:
    """The same, with the errors as a value for a caller that collects more of them."""
    if not mounts:
        return (), ()
    if len(mounts) > bounds.MOUNTS_MAX:
        return (), (
            FieldError(
                path,
                "too_many",
                Text(f"A job has at most {bounds.MOUNTS_MAX} mounts.", f"每个作业最多 {bounds.MOUNTS_MAX} 个挂载。"),
            ),
        )
    usable = _usable_volumes(tenant_id, mounts)
    refs: list[MountRef] = []
    errors: list[FieldError] = []
    targets: set[str] = set()
    for number, mount in enumerate(mounts):
        found = usable.get(mount.volume)
        place = f"{path}/{number}"
        if found is None:
            message = Text(
                f"There is no volume {mount.volume[:80]!r} that this tenant may mount.",
                f"没有此租户可挂载的存储卷 {mount.volume[:80]!r}。",
            )
            errors.append(FieldError(f"{place}/volume", "not_found", message, _HINT))
        elif found.read_only and not mount.read_only:
            message = Text(f"Volume {mount.volume} may only be read here.", f"存储卷 {mount.volume} 在此只读。")
            errors.append(
                FieldError(
                    f"{place}/read_only",
                    "volume_read_only",
                    message,
                    Text("Write `read_only: true`.", "请填写 `read_only: true`。"),
                )
            )
        elif mount.path in targets:
            errors.append(
                FieldError(
                    f"{place}/path",
                    "taken",
                    Text(f"Two mounts have the path {mount.path[:200]}.", f"有两个挂载使用路径 {mount.path[:200]}。"),
                )
            )
        else:
            refs.append(_ref(found.volume, mount))
        targets.add(mount.path)
    return tuple(refs), tuple(errors)


def _ref(volume: Volume, mount: MountRequest) -> MountRef:
    return MountRef(
        volume_id=volume.id, place=place_of(volume), target=mount.path, read_only=mount.read_only, group=volume.number
    )


def _usable_volumes(tenant_id: uuid.UUID, mounts: Sequence[MountRequest]) -> dict[str, _Usable]:
    """Volumes of the tenant and volumes granted to it, by every text that a mount may name them with."""
    names = {mount.volume.rpartition("/")[2] for mount in mounts}
    ids = {found for found in map(_as_id, names) if found is not None}
    granted = dict(
        VolumeGrant.objects.filter(tenant_id=tenant_id)
        .filter(Q(volume__name__in=names) | Q(volume_id__in=ids))
        .values_list("volume_id", "read_only")
    )
    rows = Volume.objects.filter(is_deleted=False).filter(
        Q(tenant_id=tenant_id, name__in=names) | Q(tenant_id=tenant_id, id__in=ids) | Q(id__in=granted)
    )
    volumes = list(rows)
    owners = tenant_facts({volume.tenant_id for volume in volumes})
    exact: dict[str, _Usable] = {}
    by_name: dict[str, list[_Usable]] = {}
    for volume in volumes:
        found = _Usable(volume, volume.read_only or granted.get(volume.id, False))
        owner = owners[volume.tenant_id]
        exact[str(volume.id)] = exact[f"{owner.slug}/{volume.name}"] = found
        if volume.tenant_id == tenant_id:
            exact[volume.name] = found
        by_name.setdefault(f"{owner.name}/{volume.name}", []).append(found)
    # Two tenants may have one name: then only the slug says which is meant.
    return {**{text: found[0] for text, found in by_name.items() if len(found) == 1}, **exact}


@dataclass(frozen=True, slots=True)
class MeantVolume:
    """`cluster_name`: of its cluster, where it is a claim."""

    id: uuid.UUID
    place: Place
    cluster_name: str = ""


def volumes_meant(wanted: Collection[tuple[uuid.UUID, str]]) -> dict[tuple[uuid.UUID, str], MeantVolume]:
    """Which volume each tenant means by each name, without a look at grants: to know where its data is, not to read it.

    What means nothing, or more than one, is left out. Two queries for 250 names.
    """
    found: dict[tuple[uuid.UUID, str], MeantVolume] = {}
    for part, rows in _named(wanted):
        volumes = list(rows.filter(is_deleted=False).select_related("cluster"))
        meant: dict[object, MeantVolume] = {}
        for volume, (*texts, _) in _with_names(volumes):  # Names of tenants are not unique.
            cluster = volume.cluster.name if volume.cluster is not None else ""
            meant.update(dict.fromkeys(texts, MeantVolume(volume.id, place_of(volume), cluster)))
        for tenant_id, text in part:
            told = meant.get((tenant_id, text)) or meant.get(text)
            if told is not None:
                found[tenant_id, text] = told
    return found


def volumes_held(wanted: Collection[tuple[uuid.UUID, str]]) -> frozenset[uuid.UUID]:
    """All volumes that a job of these tenants may have mounted by these names: also those that were deleted meanwhile, or whose
    grant was withdrawn. Two queries for 250 names."""
    held: set[uuid.UUID] = set()
    for part, rows in _named(wanted):
        asked = {*part, *(text for _, text in part)}
        held.update(volume.id for volume, texts in _with_names(list(rows.filter(removed_at=None))) if asked & {*texts})
    return frozenset(held)


def _named(wanted: Collection[tuple[uuid.UUID, str]]) -> Iterator[tuple[Sequence[tuple[uuid.UUID, str]], QuerySet[Volume]]]:
    """Some of them at a time, with all volumes that may be meant."""
    asked = sorted(wanted, key=str)
    for start in range(0, len(asked), _MEANT_AT_ONCE):
        part = asked[start : start + _MEANT_AT_ONCE]
        names = {text.rpartition("/")[2] for _, text in part}
        ids = {volume_id for volume_id in map(_as_id, names) if volume_id is not None}
        yield part, Volume.objects.filter(Q(name__in=names) | Q(id__in=ids))


def _with_names(volumes: Sequence[Volume]) -> Iterator[tuple[Volume, Sequence[object]]]:
    """Each with what it may be called by: its id, its name in its own tenant, and its name behind its tenant's slug or name."""
    owners = tenant_facts({volume.tenant_id for volume in volumes})
    for volume in volumes:
        owner, name = owners[volume.tenant_id], volume.name
        yield volume, (str(volume.id), (owner.id, name), f"{owner.slug}/{name}", f"{owner.name}/{name}")


def _as_id(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
