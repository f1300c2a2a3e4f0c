"""The tenant escape self-test over the wire, on the platform as it runs."""

from __future__ import annotations

import json

import pytest

from clusters import isolation_facts
from tests.builders.live import LivePlatform, running_platform
from tests.builders.operating import manage

pytestmark = [pytest.mark.engines, pytest.mark.database]


@pytest.mark.capability("6.18", "Every operation is tried from one throw-away tenant on another, and nothing is left behind")
def test_it_passes_and_leaves_nothing_behind(live_platform: LivePlatform) -> None:
    platform = live_platform
    before = platform.rows("SELECT count(*) FROM tenants_tenant")
    volumes = {path.name for path in (platform.data_dir / "volumes").iterdir()}
    report = json.loads(manage(platform, "selftest_isolation", "--json").stdout)

    assert (report["verdict"], report["findings"], report["detail"]) == ("passed", [], "")
    assert report["requests"] > 200
    assert report["removed"]
    assert platform.rows("SELECT count(*) FROM tenants_tenant") == before
    assert {path.name for path in (platform.data_dir / "volumes").iterdir()} == volumes
    assert platform.operator.items("/selftests")[0]["id"] == report["id"]
    assert not list((platform.data_dir / "engine").glob(f"{report['id']}*"))
    shown = platform.operator.request("GET", "//metrics").text
    assert "berth_selftest_findings 0.0" in shown


def test_it_asks_its_own_installation_wherever_another_one_listens(live_platform: LivePlatform) -> None:
    """On a machine with two: the settings of the shell name the port of the other."""
    theirs = live_platform.operator.items("/selftests")
    with running_platform(BERTH_SELFTEST_HOURS="0") as own:
        elsewhere = {"BERTH_PORT": str(live_platform.port)}
        report = json.loads(manage(own, "selftest_isolation", "--json", **elsewhere).stdout)
        assert (report["verdict"], report["detail"]) == ("passed", "")
        own.stop()
        refused = manage(own, "selftest_isolation", refused=True, **elsewhere)

    assert "No web server of this installation runs on this machine" in refused.stderr
    assert live_platform.operator.items("/selftests") == theirs


def test_it_tells_what_a_job_can_reach_on_the_machine_that_runs_it(live_platform: LivePlatform) -> None:
    """Tried by a job of the throw-away tenant, under the launcher, user, sandbox and filter of every other job."""
    platform = live_platform
    report = json.loads(manage(platform, "selftest_isolation", "--json").stdout)
    outcomes = {wall["boundary"]: wall["outcome"] for wall in report["walls"]}
    [cluster] = platform.operator.items("/clusters")

    assert {wall["cluster"] for wall in report["walls"]} == {cluster["name"]}
    assert isolation_facts.NETWORK.en in cluster["isolation"]["facts"]
    assert {name for name, outcome in outcomes.items() if outcome == "open"} <= {"socket_names", "loopback"} | (
        set() if isolation_facts.SANDBOX.en in cluster["isolation"]["facts"] else outcomes.keys()
    )
    assert outcomes["loopback"] == "open"  # Our own port answered: the facts say that the network is the host's.
    assert "hole" not in outcomes.values()
    if isolation_facts.FILTER.en in cluster["isolation"]["facts"]:
        assert outcomes["user_namespaces"] == outcomes["mounts"] == outcomes["kernel_programs"] == "closed"
    texts = {wall["boundary"]: wall["text"] for wall in platform.operator.items("/selftests")[0]["walls"]}
    assert texts["loopback"] == "A job reaches the host's loopback and other jobs' ports."
