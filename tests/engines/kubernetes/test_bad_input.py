"""What operators get wrong of a cluster, told by a check on the real API server: what, of which object, and what to do next.

What a kubeconfig says of itself is refused before anything is asked: `tests/services/clusters/test_registration.py`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from clusters.engines.kubernetes import names, open_engine
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.settings import Finding, Outcome
from tests.engines.kubernetes.conftest import Place
from tests.factories.kubeconfig import kubeconfig

pytestmark = pytest.mark.kubernetes


def failures(config: KubernetesConfig, **changes: object) -> list[Finding]:
    """What a check of the changed cluster calls failed; each says what to do, in both languages."""
    engine = open_engine(replace(config, **changes))  # type: ignore[arg-type]
    try:
        found = [finding for finding in engine.check(datetime.now(UTC)) if finding.outcome is Outcome.FAILED]
    finally:
        engine.close()
    for finding in found:
        assert finding.hint.en, finding
        assert finding.hint.zh, finding
        assert finding.text.en != finding.text.zh, finding
    return found


def told(config: KubernetesConfig, **changes: object) -> tuple[str, str]:
    """The only failure, by its check and words."""
    found = failures(config, **changes)
    assert len(found) == 1, found
    return found[0].check, found[0].text.en


def changed(text: str, **cluster: Any) -> str:
    """The kubeconfig with another cluster entry; None leaves a name out."""
    document = json.loads(text)
    entry: dict[str, Any] = {**document["clusters"][0]["cluster"], **cluster}
    document["clusters"][0]["cluster"] = {name: value for name, value in entry.items() if value is not None}
    return json.dumps(document)


def test_an_address_or_an_account_that_is_wrong_is_told_as_what_it_is(place: Place) -> None:
    config = replace(place.engine.config, connect_seconds=1.0, read_seconds=2.0)
    server, mine = place.cluster.server, config.kubeconfig
    cases: Mapping[str, tuple[str, str, str]] = {
        "nothing listens": (changed(mine, server="https://127.0.0.1:9"), "reachable", "refused"),
        "no such host": (changed(mine, server="https://api.invalid:6443"), "reachable", "api.invalid"),
        "another authority": (changed(mine, **{"certificate-authority-data": None}), "tls", "certificate"),
        "http in place of https": (changed(mine, server=server.replace("https:", "http:")), "reachable", "HTTPS"),
        "unknown token": (kubeconfig_of(mine, token="nobody's"), "authentication", "credentials"),
    }
    for name, (text, check, words) in cases.items():
        found = told(config, kubeconfig=text)
        assert found[0] == check, (name, found)
        assert words in found[1], (name, found)


def kubeconfig_of(text: str, *, token: str) -> str:
    cluster = json.loads(text)["clusters"][0]["cluster"]
    return changed(kubeconfig(cluster["server"], token=token), **cluster)


def test_an_account_that_is_too_weak_hears_which_rights_it_lacks(place: Place) -> None:
    user = f"weak-{secrets.token_hex(4)}"
    found = failures(place.engine.config, kubeconfig=place.cluster.kubeconfig_for(user).read_text())
    assert {finding.check for finding in found} == {"permissions"}
    said = " ".join(finding.text.en for finding in found)
    assert "list on nodes" in said
    assert "create" in said
    assert "docs/kubernetes.md" in found[0].hint.en


def test_settings_that_the_cluster_cannot_meet_are_told(place: Place, open_place: Callable[..., Place]) -> None:
    config = place.engine.config
    check, text = told(config, node_selector={"team": "nobody"})
    assert (check, "team=nobody" in text) == ("nodes", True)
    check, text = told(config, object_kind="volcanojob")
    assert (check, "jobs.batch.volcano.sh" in text) == ("objects", True)
    for setting in ("storage_class", "priority_class"):
        check, text = told(config, **{setting: "golden"})
        assert (check, f"({setting})" in text) == ("classes", True)
    lacking = open_place(gang_scheduler="kueue", scheduler_queue="team")
    assert lacking.engine.inventory().abilities.lacks == ("localqueues.kueue.x-k8s.io",)


def test_a_namespace_prefix_that_another_platform_uses_is_told(place: Place) -> None:
    config = place.engine.config
    namespace = names.control_namespace(config.namespace_prefix)
    place.engine.ensure([])
    place.engine.observe(None)
    place.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    check, text = told(config, cluster_id="another")
    assert (check, namespace in text) == ("namespaces", True)
