"""What a kubeconfig and settings say that nothing could use: refused with what is wrong, before anything is asked."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from clusters.engines.kubernetes.config import ConfigInvalid, read_config
from clusters.engines.kubernetes.credentials import read_settings
from clusters.engines.settings import SettingsInvalid
from tests.factories.kubeconfig import kubeconfig

THERE = "https://there:6443"


def with_server(server: object, **cluster: str) -> str:
    document = json.loads(kubeconfig(THERE))
    document["clusters"][0]["cluster"] = {"server": server, **cluster} if server else dict(cluster)
    return json.dumps(document)


def with_user(**user: object) -> str:
    document = json.loads(kubeconfig(THERE))
    document["users"][0]["user"] = user
    return json.dumps(document)


def with_context(name: str | None = "berth", **context: str) -> str:
    document = json.loads(kubeconfig(THERE))
    document["contexts"][0]["context"].update(context)
    return json.dumps({**document, "current-context": name})


NO_PEM = base64.b64encode(b"hello").decode()
KEYS = {"client-certificate-data": NO_PEM, "client-key-data": NO_PEM}
KUBECONFIGS: Mapping[str, tuple[str, str]] = {
    "text that is no YAML": ("a: [", "no YAML"),
    "a page of a login": ("<html><body>login</body></html>", "no mapping"),
    "nothing in it": ("{}", "current-context is not named"),
    "a context that is not there": (with_context("other"), "'other', and `contexts` has none"),
    "a context of no cluster": (with_context(cluster="other"), "'other', and `clusters` has none"),
    "a context of no user": (with_context(user="other"), "'other', and `users` has none"),
    "no server": (with_server(""), "`server` is no address"),
    "a server without a host": (with_server("https://"), "`server` is no address"),
    "a server with a port that is none": (with_server("https://there:99999"), "`server` is no address"),
    "a server with a password": (with_server("https://u:secret@there"), "`server` is no address"),
    "an authority that is none": (with_server(THERE, **{"certificate-authority-data": NO_PEM}), "`certificate-authority-data`"),
    "a file of an authority": (with_server(THERE, **{"certificate-authority": "/ca.pem"}), "`certificate-authority` is refused"),
    "a program": (with_user(exec={"command": "aws"}), "`exec` is refused"),
    "files of keys": (with_user(**{"client-certificate": "/a", "client-key": "/b"}), "`client-key` is refused"),
    "a user without anything": (with_user(), "neither a client certificate nor a token"),
    "a password": (with_user(username="a", password="secret"), "`password` is not supported"),
    "another's name": (with_user(token="t", **{"as": "admin"}), "`as` is not supported"),
    "a certificate and a key that are none": (with_user(**KEYS), "`client-key-data` is no private key"),
}


@pytest.mark.parametrize("name", KUBECONFIGS)
def test_a_kubeconfig_that_cannot_be_used_is_refused_with_the_way_to_make_one(name: str) -> None:
    text, words = KUBECONFIGS[name]
    with pytest.raises(SettingsInvalid) as caught:
        read_settings({}, text)
    messages = [str(field.message) for field in caught.value.fields]
    assert any(words in message for message in messages), messages
    assert not any("secret" in message for message in messages)
    assert {(field.path, "--minify --flatten --raw" in str(field.hint)) for field in caught.value.fields} == {
        ("/credentials", True)
    }


def test_what_the_api_server_would_refuse_of_settings_is_told_when_they_are_written() -> None:
    wrong: dict[str, Any] = {
        "node_selector": {"bad key!": "x"},
        "priority_class": "Bad Name",
        "storage_class": "Bad Name",
        "image_pull_secrets": ["Bad Name"],
        "gpu_resource": "nvidia gpu",
        "rdma_resource": "rdma ib",
        "gpu_shares": {"quarter": "nvidia.com/mig-1g.10gb"},
        "gpu_model_label": "product of",
        "tolerations": [{"keey": "team"}],
        "egress": ["everywhere"],
        "egress_except": ["169.254.0.0"],
        "tenant_quota": {"requests.cpu": "lots"},
        "storage_access": "Any",
        "default_image": "base image",
        "cluster_domain": "Cluster_Local",
    }
    with pytest.raises(ConfigInvalid) as caught:
        read_config("c", wrong)
    assert {problem.split(":")[0] for problem in caught.value.problems} == set(wrong)
    right = {
        "node_selector": {"node-role.kubernetes.io/gpu": "", "team": "research"},
        "priority_class": "batch.low",
        "image_pull_secrets": ["harbor"],
        "gpu_resource": "amd.com/gpu",
        "gpu_shares": {"250": "nvidia.com/mig-1g.10gb"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "egress": ["10.0.0.0/8", "fd00::/8"],
        "tenant_quota": {
            "requests.cpu": "64",
            "limits.memory": "1.5Ti",
            "requests.nvidia.com/gpu": "8",
            "count/jobs.batch": "1e3",
        },
        "default_image": "registry.example:5000/team/base:2@sha256:" + "a" * 64,
    }
    assert read_config("c", right).priority_class == "batch.low"
