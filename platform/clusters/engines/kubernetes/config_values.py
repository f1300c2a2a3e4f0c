"""What the API server would refuse of an operator's values, by its own rules for names, labels, networks and quantities: told
when they are written, not when the first job starts."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any

from clusters.engines.kubernetes.names import is_label_value, is_qualified, is_subdomain
from kernel.words import Text

Rule = tuple[Callable[[Any], bool], Text[str]]
ACCESS_MODES = ("ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany")
_TOLERATION = frozenset({"key", "operator", "value", "effect", "tolerationSeconds"})
_SHARE_MAX = 999
_QUANTITY = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")


def check_value(name: str, value: Any) -> Text[str] | None:
    """What is wrong with a value that is of the right type, or None."""
    rule = _RULES.get(name)
    return None if rule is None or rule[0](value) else rule[1]


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _are_labels(value: Mapping[str, str]) -> bool:
    return all(is_qualified(label) and is_label_value(wanted) for label, wanted in value.items())


def _are_shares(value: Mapping[str, str]) -> bool:
    return all(
        share.isascii() and share.isdigit() and 1 <= int(share) <= _SHARE_MAX and is_qualified(resource)
        for share, resource in value.items()
    )


_NAME: Rule = (
    lambda value: not value or is_subdomain(value),
    Text(
        "must be the name of an object: lower-case letters, digits, hyphens and dots", "须为对象名称：小写字母、数字、连字符与点"
    ),
)
_RESOURCE: Rule = (
    lambda value: not value or is_qualified(value),
    Text("must be the name of a resource, such as nvidia.com/gpu", "须为资源名称，例如 nvidia.com/gpu"),
)
_LABEL: Rule = (
    lambda value: not value or is_qualified(value),
    Text("must be the name of a label, such as nvidia.com/gpu.product", "须为标签名称，例如 nvidia.com/gpu.product"),
)
_NETWORKS: Rule = (
    lambda value: all(map(_is_network, value)),
    Text("must be a list of networks, such as 10.0.0.0/8", "须为网段列表，例如 10.0.0.0/8"),
)
_RULES: Mapping[str, Rule] = {
    "priority_class": _NAME,
    "storage_class": _NAME,
    "cluster_domain": _NAME,
    "image_pull_secrets": (lambda value: all(map(is_subdomain, value)), _NAME[1]),
    "gpu_resource": _RESOURCE,
    "rdma_resource": _RESOURCE,
    "gpu_model_label": _LABEL,
    "gpu_memory_label": _LABEL,
    "egress": _NETWORKS,
    "egress_except": _NETWORKS,
    "node_selector": (
        _are_labels,
        Text("must be labels with their values, such as team: research", "须为标签及其值，例如 team: research"),
    ),
    "gpu_shares": (
        _are_shares,
        Text(
            'must name a resource for shares in thousandths, such as "250": nvidia.com/mig-1g.10gb',
            '须以千分之一为单位指定资源，例如 "250": nvidia.com/mig-1g.10gb',
        ),
    ),
    "tenant_quota": (
        lambda value: all(
            is_qualified(name.removeprefix("requests.").removeprefix("limits.")) and _QUANTITY.fullmatch(amount)
            for name, amount in value.items()
        ),
        Text('must be quantities by resource, such as requests.cpu: "64"', '须为各资源的数量，例如 requests.cpu: "64"'),
    ),
    "tolerations": (
        lambda value: all(item and set(item) <= _TOLERATION for item in value),
        Text(
            f"must be tolerations with {', '.join(sorted(_TOLERATION))}", f"须为容忍，可用字段：{'、'.join(sorted(_TOLERATION))}"
        ),
    ),
    "storage_access": (
        lambda value: value in ACCESS_MODES,
        Text(f"must be one of {', '.join(ACCESS_MODES)}", f"须为 {'、'.join(ACCESS_MODES)} 之一"),
    ),
    "default_image": (
        lambda value: not any(letter.isspace() for letter in value),
        Text("must be the reference of an image, without spaces", "须为镜像引用，不含空格"),
    ),
}
