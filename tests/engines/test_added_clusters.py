"""Clusters that are added to a platform that runs, and do not answer: they delay no other cluster and fail no job."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from tests.builders.live import Json, LivePlatform, wait_until
from tests.factories.kubeconfig import kubeconfig

pytestmark = [pytest.mark.engines, pytest.mark.database, pytest.mark.timeout(300)]

PATIENCE = 90.0
QUIET_SECONDS = 12.0  # A cluster that lost contact is asked every ten seconds.
SILENCES = ("refuses", "hangs")


@pytest.fixture(scope="module")
def silent() -> Iterator[dict[str, str]]:
    """Addresses, by what happens there: nothing listens, or a server takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=200) as hanging, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        yield {
            "refuses": f"https://127.0.0.1:{free.getsockname()[1]}",
            "hangs": f"https://127.0.0.1:{hanging.getsockname()[1]}",
        }


@pytest.fixture(scope="module")
def added(live_platform: LivePlatform, silent: dict[str, str]) -> Iterator[dict[str, Json]]:
    operator = live_platform.operator
    clusters = {
        name: operator.api("POST", "/clusters", {"name": name, "kind": "kubernetes", "credentials": kubeconfig(address)})
        for name, address in silent.items()
    }
    yield clusters
    for cluster in clusters.values():
        operator.request("DELETE", f"/clusters/{cluster['id']}")


def is_asked_within(listening: socket.socket, seconds: float) -> bool:
    listening.settimeout(seconds)
    try:
        listening.accept()[0].close()
    except TimeoutError:
        return False
    return True


def condition(platform: LivePlatform, cluster: Json) -> Json:
    found: Json = platform.api("GET", f"/clusters/{cluster['id']}")["condition"]
    return found


@pytest.mark.capability("67", "A cluster that does not answer delays no job of another, and fails none of its own")
def test_clusters_that_do_not_answer_delay_no_other_and_fail_no_job(live_platform: LivePlatform, added: dict[str, Json]) -> None:
    for name in SILENCES:
        wait_until(
            lambda name=name: condition(live_platform, added[name])["name"] == "lost_contact",  # type: ignore[misc]
            f"lost contact with the cluster that {name}",
            timeout=PATIENCE,
        )
    assert "refused" in condition(live_platform, added["refuses"])["detail"].lower()
    took = []
    for number in range(5):
        began = time.monotonic()
        job = live_platform.submit({"name": f"quick-{number}", "command": "echo done"}, wait=True)
        took.append(time.monotonic() - began)
        assert (job["state"], job["attempt"]) == ("succeeded", 1)
        assert live_platform.logs(job) == "done\n"
    print("seconds of jobs beside two clusters that do not answer:", [round(seconds, 2) for seconds in took])
    assert min(took) < 5  # The clusters that hang cost 5 s for each try to connect.
    ready = live_platform.operator.request("GET", "//readyz").json()
    assert ready["ok"] or "lost_contact" in str(ready)


def test_settings_are_taken_up_without_a_restart(live_platform: LivePlatform, added: dict[str, Json]) -> None:
    cluster = added["refuses"]
    with socket.create_server(("127.0.0.1", 0), backlog=200) as other:
        address = f"https://127.0.0.1:{other.getsockname()[1]}"
        live_platform.api("PATCH", f"/clusters/{cluster['id']}", {"credentials": kubeconfig(address)})
        wait_until(
            lambda: "refused" not in condition(live_platform, cluster)["detail"].lower(), "the new address", timeout=PATIENCE
        )


def test_a_cluster_that_is_removed_is_asked_no_more(live_platform: LivePlatform, silent: dict[str, str]) -> None:
    operator = live_platform.operator
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listening:
        listening.settimeout(PATIENCE)
        address = f"https://127.0.0.1:{listening.getsockname()[1]}"
        body = {"name": "short", "kind": "kubernetes", "credentials": kubeconfig(address), "config": {"connect_seconds": 0.5}}
        cluster = operator.api("POST", "/clusters", body)
        listening.accept()[0].close()  # It is asked within seconds.
        operator.api("DELETE", f"/clusters/{cluster['id']}")
        wait_until(lambda: not is_asked_within(listening, QUIET_SECONDS), "the end of its loops", timeout=PATIENCE)
    assert "loop_failed" not in live_platform.log.read_text()
