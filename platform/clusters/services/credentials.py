"""Credentials of clusters at rest: sealed under a key of each cluster, opened to make its engine and for nothing else.

A row that is copied to another cluster cannot be opened. `manage.py rotate_secrets` seals all anew under the present key.
"""

from __future__ import annotations

import uuid

from cryptography.fernet import InvalidToken, MultiFernet
from django.db import transaction

from clusters.models import Cluster
from kernel.errors import Unavailable
from kernel.words import Text
from reconciling import bulk
from webapi.encryption import box_for

_PURPOSE = b"berth cluster credentials v1"


def seal(cluster_id: uuid.UUID, credentials: str) -> str:
    """Encrypt; empty stays empty: credentials of the pod or machine that Berth runs on."""
    return _box(cluster_id).encrypt(credentials.encode()).decode() if credentials else ""


def unseal(cluster: Cluster) -> str:
    """Decrypt. Raises Unavailable if no key of the installation opens it."""
    if not cluster.credentials_sealed:
        return ""
    try:
        return _box(cluster.pk).decrypt(cluster.credentials_sealed.encode()).decode()
    except InvalidToken:
        raise Unavailable(
            Text(
                f"The credentials of cluster {cluster.name} do not open with this installation's key.",
                f"集群 {cluster.name} 的凭据无法用本系统的密钥打开。",
            ),
            hint=Text(
                "Give them again, or put the key that they were stored under into SECRET_KEY_FALLBACKS.",
                "请重新提供，或将存入时所用的密钥放入 SECRET_KEY_FALLBACKS。",
            ),
        ) from None


def rotate_credentials() -> int:
    """Encrypt all anew under the present key; returns how many. May be repeated."""
    with transaction.atomic():
        rows = Cluster.objects.exclude(credentials_sealed="").select_for_update().order_by("id")
        sealed = list(rows.values_list("id", "credentials_sealed"))
        bulk.update(
            Cluster,
            [{"id": pk, "credentials_sealed": _box(pk).rotate(text.encode()).decode()} for pk, text in sealed],
        )
    return len(sealed)


def _box(cluster_id: uuid.UUID) -> MultiFernet:
    return box_for(_PURPOSE + cluster_id.bytes)
