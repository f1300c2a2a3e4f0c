"""Is it alive, can it work, how much does it do."""

import pytest

from kernel.errors import Unavailable
from webapi import health, metrics

pytestmark = pytest.mark.database


@pytest.fixture(autouse=True)
def own_checks(monkeypatch):
    monkeypatch.setattr(health, "_checks", {"database": health.check_database})
    monkeypatch.setattr(health, "_last", (float("-inf"), ()))


def test_a_live_process_says_so_without_asking_anything(nobody, django_assert_num_queries):
    with django_assert_num_queries(0):
        response = nobody.get("/livez")

    assert (response.status_code, response.json()) == (200, {"ok": True})


def test_readiness_names_every_check(nobody):
    health.register_check("broker", lambda: "memory")

    body = nobody.get("/readyz").json()

    assert body["ok"] is True
    assert {name: check["ok"] for name, check in body["checks"].items()} == {"database": True, "broker": True}
    assert body["checks"]["broker"]["detail"] == "memory"


def test_one_failing_check_makes_the_server_not_ready_and_hides_no_other(nobody):
    def refuse():
        raise Unavailable("Redis does not answer.")

    def fault():
        raise ValueError("password=hunter2")

    health.register_check("broker", refuse)
    health.register_check("engine", fault)

    response = nobody.get("/readyz")

    assert response.status_code == 503
    checks = response.json()["checks"]
    assert checks["broker"] == {"ok": False, "detail": "Redis does not answer.", "milliseconds": checks["broker"]["milliseconds"]}
    assert checks["engine"]["detail"] == "ValueError"
    assert checks["database"]["ok"] is True


def test_a_flood_of_probes_costs_one_round_of_checks(nobody):
    calls = []
    health.register_check("counted", lambda: calls.append(1) or "ok")

    for _ in range(5):
        nobody.get("/readyz")

    assert len(calls) == 1


@pytest.mark.parametrize("path", ["/livez/", "/api/v1/livez", "/x/livez", "/readyz/jobs", "/metricsx", "/api/v1/jobs/livez"])
def test_only_the_exact_paths_are_open(nobody, path):
    assert nobody.get(path).status_code == 404


def test_metrics_need_an_operator_or_the_scrape_token(nobody, alice, client_of, configure, monkeypatch):
    from dataclasses import replace

    from tests.api.webapi import urls

    monkeypatch.setitem(urls.CREDENTIALS, "olga-token", replace(urls.BOB, name="olga", is_operator=True))
    assert nobody.get("/metrics").status_code == 401
    assert client_of("garbage").get("/metrics").status_code == 401
    assert alice.get("/metrics").status_code == 403
    assert client_of("olga-token").get("/metrics").status_code == 200

    configure(metrics_token="s" * 40)
    assert client_of("s" * 40).get("/metrics").status_code == 200
    assert client_of("s" * 39).get("/metrics").status_code == 401


def test_collectors_of_apps_are_shown(client_of, configure):
    from prometheus_client.core import GaugeMetricFamily

    class Berths:
        def collect(self):
            yield GaugeMetricFamily("berth_test_berths", "Berths of the test.", value=7)

    collector = Berths()
    metrics.register_collector(collector)
    try:
        configure(metrics_token="s" * 40)
        response = client_of("s" * 40).get("/metrics")
        assert b"berth_test_berths 7.0" in response.content
        assert response["Content-Type"].startswith("text/plain")
    finally:
        metrics.registry.unregister(collector)
