"""Kubeconfigs for tests: of an account with a token, at any address."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Any


def kubeconfig(server: str, *, token: str = "t0ken-that-nobody-may-see", **user: Any) -> str:
    """The text of one, as JSON, which is YAML. `user` adds to the user's entry, or replaces."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "there", "cluster": {"server": server}}],
            "users": [{"name": "berth", "user": {"token": token, **user}}],
            "contexts": [{"name": "berth", "context": {"cluster": "there", "user": "berth"}}],
            "current-context": "berth",
        }
    )


def token_until(moment: datetime, *, account: str = "system:serviceaccount:berth:berth") -> str:
    """A token that names its account and end, as those of service accounts do. Nobody signed it."""
    claims = {"sub": account, "exp": int(moment.timestamp())}
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims, {}))
