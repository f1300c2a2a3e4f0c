"""The ClusterRole of the documents is the one that the engine needs."""

from __future__ import annotations

import yaml

from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.permissions import cluster_role
from tests.architecture.sources import ROOT


def test_the_role_of_the_documents_is_what_the_engine_needs() -> None:
    text = (ROOT / "docs" / "kubernetes.md").read_text().split("```text\n")[1].split("```")[0]
    assert yaml.safe_load(text) == cluster_role("berth", KubernetesConfig(cluster_id=""))
