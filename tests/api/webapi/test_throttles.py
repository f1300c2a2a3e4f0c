"""How often one caller may call."""

import os

import pytest

from kernel.words import NO_HINT, Text
from webapi.addresses import client_address, network_of
from webapi.throttles import Buckets, Charge

pytestmark = pytest.mark.usefixtures("still_counts")


class Clock:
    now = 1_000.0

    def __call__(self):
        return self.now


def test_a_bucket_empties_and_refills_evenly():
    clock = Clock()
    buckets = Buckets(clock)

    assert [buckets.take(Charge("a", 60)) for _ in range(60)] == [0] * 60
    assert buckets.take(Charge("a", 60)) == pytest.approx(1)
    assert buckets.take(Charge("b", 60)) == 0
    clock.now += 1
    assert buckets.take(Charge("a", 60)) == 0
    assert buckets.take(Charge("a", 60)) > 0
    clock.now += 10_000
    assert [buckets.take(Charge("a", 60)) for _ in range(61)][-1] > 0


def test_a_token_that_calls_too_often_is_told_when_to_come_back(alice, bob, configure):
    configure(requests_per_minute=3, redis_url="")

    assert [alice.get("/api/v1/echo").status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = alice.get("/api/v1/echo")
    assert refused.json()["code"] == "too_many_requests"
    assert int(refused["Retry-After"]) >= 20
    assert bob.get("/api/v1/echo").status_code == 200


def test_guessing_tokens_is_bounded_by_address(client_of, nobody, alice, configure):
    configure(requests_per_minute=3, redis_url="")

    answers = [client_of(f"guess-{number}").get("/api/v1/echo").status_code for number in range(5)]
    assert answers == [401, 401, 401, 429, 429]
    assert nobody.get("/api/v1/echo").status_code == 429
    assert alice.get("/api/v1/echo").status_code == 200


def test_a_forged_forwarding_header_does_not_change_the_address(client_of, configure):
    configure(requests_per_minute=2, redis_url="")

    answers = [client_of("guess").get("/api/v1/echo", HTTP_X_FORWARDED_FOR=f"10.0.0.{number}").status_code for number in range(4)]
    assert answers == [401, 401, 429, 429]


def test_zero_switches_the_throttle_off(alice, configure):
    configure(requests_per_minute=0)

    assert {alice.get("/api/v1/echo").status_code for _ in range(20)} == {200}


def test_a_redis_that_does_not_answer_is_replaced_by_the_local_count(alice, configure):
    configure(requests_per_minute=2, redis_url="unix:///nonexistent/berth.sock")

    assert [alice.get("/api/v1/echo").status_code for _ in range(3)] == [200, 200, 429]


@pytest.mark.skipif(not os.environ.get("BERTH_REDIS_URL"), reason="BERTH_REDIS_URL names no Redis; tests/servers.py starts one")
def test_processes_share_their_count_in_redis():
    from redis import Redis

    from webapi.throttles import SharedCounts

    clock = Clock()
    clock.now = 60_000_000.0
    first, other = (SharedCounts(Redis.from_url(os.environ["BERTH_REDIS_URL"]), clock) for _ in range(2))
    charges = [Charge(f"test:{os.getpid()}", 4)]

    assert [first.take_all(charges), other.take_all(charges)] * 2 == [[0]] * 4
    assert [first.take_all(charges), other.take_all(charges)] == [[0]] * 2
    assert first.take_all(charges)[0] > 0
    clock.now += 119
    assert other.take_all(charges) == [0]


@pytest.mark.skipif(not os.environ.get("BERTH_REDIS_URL"), reason="BERTH_REDIS_URL names no Redis; tests/servers.py starts one")
def test_several_names_are_counted_in_one_round_trip():
    from redis import Redis

    from webapi.throttles import SharedCounts

    clock = Clock()
    clock.now = 60_000_000.0
    counts = SharedCounts(Redis.from_url(os.environ["BERTH_REDIS_URL"]), clock)
    charges = [Charge(f"token:{os.getpid()}", 10), Charge(f"tenant:{os.getpid()}", 2)]

    assert [counts.take_all(charges) for _ in range(2)] == [[0, 0]] * 2
    waits = counts.take_all(charges)
    assert waits[0] == 0
    assert waits[1] > 0


def test_whoever_was_refused_is_refused_until_the_time_is_over():
    from webapi.throttles import Refusals

    clock = Clock()
    refusals = Refusals(clock)
    words = Text("This token", "此令牌")
    assert refusals.of("Bearer a") == (0.0, NO_HINT)
    refusals.note("Bearer a", seconds=3, words=words)

    assert refusals.of("Bearer a") == (3.0, words)
    assert refusals.of("Bearer b")[0] == 0
    clock.now += 3
    assert refusals.of("Bearer a")[0] == 0


LONG = "fe80::1%" + "x" * 300


@pytest.mark.parametrize(
    ("trusted", "peer", "told", "address"),
    [
        ("", "127.0.0.1", "192.0.2.1", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1", "10.9.9.9, 192.0.2.1", "192.0.2.1"),
        ("127.0.0.1", "127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1", "nobody", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1", LONG, "fe80::1"),
        ("127.0.0.1", "::ffff:127.0.0.1", "::ffff:192.0.2.1", "192.0.2.1"),
        ("127.0.0.1", "192.0.2.9", "192.0.2.1", "192.0.2.9"),
        ("10.0.0.0/8, 2001:db8::/32", "10.0.0.1", "1.1.1.1, 192.0.2.1, 2001:db8::7", "192.0.2.1"),
        ("10.0.0.0/8", "10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.0/8", "", "192.0.2.1", ""),
    ],
)
def test_a_proxy_that_is_trusted_tells_the_address_and_nobody_else_does(trusted, peer, told, address, configure):
    configure(trusted_proxies=trusted)

    assert client_address({"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": told}) == address


def test_requests_behind_a_trusted_proxy_are_counted_apart(client_of, configure):
    configure(requests_per_minute=1, redis_url="", trusted_proxies="127.0.0.1")
    hosts = ["192.0.2.1", "192.0.2.2", "192.0.2.1"]

    answers = [client_of("guess").get("/api/v1/echo", HTTP_X_FORWARDED_FOR=f"198.51.100.9, {host}").status_code for host in hosts]
    assert answers == [401, 401, 429]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:0DB8:1:2::1%eth0", "2001:db8:1:2::/64"),
        ("::1", "::1"),
        ("", ""),
        ("nobody", "nobody"),
    ],
)
def test_an_address_counts_as_the_network_of_one_subscriber(address, network):
    assert network_of(address) == network
