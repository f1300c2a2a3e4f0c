"""The tenant escape self-test over the wire, on the platform as it runs."""

from __future__ import annotations

import json

import pytest

from tests.builders.live import LivePlatform
from tests.builders.operating import manage

pytestmark = [pytest.mark.engines, pytest.mark.database]


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
    shown = platform.operator.request("GET", "//metrics").text
    assert "berth_selftest_findings 0.0" in shown
