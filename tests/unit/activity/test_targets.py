"""Where webhooks may go (security T10): a corpus of addresses that lead inside, and a resolver that changes its mind."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

import pytest

from activity.notifications import posting
from activity.notifications.outcomes import GiveUp, Sent, TryAgain
from kernel import targets
from kernel.targets import TargetRefused, check_address, parse_target, resolve

INSIDE = [
    "http://127.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://0/",
    "http://0.0.0.0/",
    "http://127.0.0.1.:80/",
    "http://127.127.127.127/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::a00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a00:1::]/",
    "http://[2001:0:7f00:1::]/",
    "http://10.0.0.1/",
    "http://10.255.255.255/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://100.100.100.200/",
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/",
    "http://192.0.0.192/",
    "http://168.63.129.16/",
    "http://[fd00:ec2::254]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[fc00::1]/",
    "http://[fd12::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://198.18.0.1/",
    "http://192.0.2.1/",
    "http://203.0.113.9/",
    "http://[2001:db8::1]/",
    "http://[100::1]/",
    "http://[5f00::1]/",
]

MALFORMED = [
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "javascript:alert(1)",
    "//example.com/",
    "example.com",
    "http:/example.com",
    "http:///path",
    "http://user:pass@example.com/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1\\@example.com/",
    "http://example.com#@127.0.0.1/",
    "http://example.com/#f",
    "http://exa%6dple.com/",
    "http://example.com:22/",
    "http://example.com:5432/",
    "http://example.com:6379/",
    "http://example.com:99999/",
    "http://example.com:abc/",
    "http://éxample.com/",
    "http://example。com/",
    "http://[::1",
    "http://]::1[/",
    "http://-a.com/",
    "http://a..b/",
    'http://example.com/"onload=',
    "http://example.com/<x>",
    "http://example.com/a|b",
    "http://①②⑦.⓪.⓪.①/",
    "http://example.com/a b",
    "http://example.com/\r\nX: y",
    "http://example.com/\t",
    "",
    "http://" + "a" * 3000,
]

PUBLIC = {
    "https://example.com/hook?key=a%20b": ("example.com", 443, "/hook?key=a%20b"),
    "https://EXAMPLE.com": ("example.com", 443, "/"),
    "http://hooks.example.com:8080/x": ("hooks.example.com", 8080, "/x"),
    "https://xn--bcher-kva.example/": ("xn--bcher-kva.example", 443, "/"),
    "https://8.8.8.8/": ("8.8.8.8", 443, "/"),
    "https://[2606:4700:4700::1111]:8443/": ("2606:4700:4700::1111", 8443, "/"),
}


@pytest.mark.parametrize("url", INSIDE)
def test_an_address_inside_is_refused_however_it_is_written(url: str) -> None:
    with pytest.raises(TargetRefused):
        parse_target(url)


@pytest.mark.parametrize("url", MALFORMED)
def test_an_unusual_url_is_refused(url: str) -> None:
    with pytest.raises(TargetRefused):
        parse_target(url)


@pytest.mark.parametrize(("url", "parts"), PUBLIC.items())
def test_an_ordinary_url_is_taken_apart(url: str, parts: tuple[str, int, str]) -> None:
    target = parse_target(url)
    assert (target.host, target.port, target.path) == parts


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(INSIDE) + len(MALFORMED) >= 60


ANSWERS_INSIDE = ["127.0.0.1", "10.1.2.3", "::1", "::ffff:10.0.0.1", "169.254.169.254", "fe80::1%eth0", "fd00::1", "0.0.0.0"]


@pytest.mark.parametrize("address", ANSWERS_INSIDE)
def test_a_name_that_leads_inside_is_refused(address: str) -> None:
    with pytest.raises(TargetRefused):
        resolve(parse_target("https://hooks.example.com/"), resolver=lambda host, port: [address])


def test_one_address_inside_among_public_ones_refuses_the_name() -> None:
    with pytest.raises(TargetRefused):
        resolve(parse_target("https://hooks.example.com/"), resolver=lambda host, port: ["8.8.8.8", "10.0.0.1"])


@pytest.mark.parametrize("text", ["169.254.169.254", "fd00:ec2::254", "168.63.129.16", "224.0.0.1", "fe80::1", "0.0.0.0"])
def test_metadata_services_stay_out_of_reach_where_private_targets_are_allowed(text: str) -> None:
    with pytest.raises(TargetRefused):
        check_address(ipaddress.ip_address(text), allow_private=True)
    check_address(ipaddress.ip_address("10.0.0.1"), allow_private=True)


class Rebinding:
    """A name server that answers something public first, and something inside from then on."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        return ["93.184.216.34"] if self.asked == 1 else ["127.0.0.1"]


def test_a_name_that_changes_its_address_is_reached_at_the_one_that_was_checked() -> None:
    resolver, reached = Rebinding(), []

    def connect(address: str, port: int, timeout_seconds: float) -> socket.socket:
        reached.append((address, port))
        raise ConnectionRefusedError("nobody there")

    outcome = posting.post(
        "http://rebind.example.com/x", body=b"{}", headers={}, allow_private=False, resolver=resolver, connect=connect
    )
    assert isinstance(outcome, TryAgain)
    assert (reached, resolver.asked) == ([("93.184.216.34", 80)], 1)


def test_a_refused_target_is_never_connected_to() -> None:
    def connect(address: str, port: int, timeout_seconds: float) -> socket.socket:
        raise AssertionError("connected")

    for url in [*INSIDE, *MALFORMED]:
        assert isinstance(posting.post(url, body=b"", headers={}, allow_private=False, connect=connect), GiveUp)


def test_a_name_that_cannot_be_resolved_is_tried_again() -> None:
    def resolver(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    assert isinstance(posting.post("https://a.example/", body=b"", headers={}, allow_private=False, resolver=resolver), TryAgain)


def exchange(answer: bytes, *, timeout_seconds: float = 5.0, is_over: bool = True) -> object:
    """Post to a server that says exactly this, and then nothing more (`is_over`: and ends)."""
    ours, theirs = socket.socketpair()

    def connect(address: str, port: int, _: float) -> socket.socket:
        ours.settimeout(timeout_seconds)
        return ours

    with theirs:
        theirs.sendall(answer)
        if is_over:
            theirs.shutdown(socket.SHUT_WR)
        return posting.post(
            "http://8.8.8.8/", body=b"{}", headers={}, allow_private=False, resolver=lambda host, port: [host], connect=connect
        )


def test_a_redirect_is_not_followed() -> None:
    outcome = exchange(b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n")
    assert isinstance(outcome, GiveUp)
    assert outcome.status == 302


@pytest.mark.parametrize(
    ("status", "kind"), [(200, Sent), (204, Sent), (400, GiveUp), (404, GiveUp), (410, GiveUp), (429, TryAgain), (500, TryAgain)]
)
def test_a_status_decides_whether_to_try_again(status: int, kind: type) -> None:
    assert isinstance(exchange(b"HTTP/1.1 %d x\r\nContent-Length: 0\r\n\r\n" % status), kind)


def test_what_the_receiver_asks_to_wait_is_kept_within_an_hour() -> None:
    outcome = exchange(b"HTTP/1.1 503 x\r\nRetry-After: 999999\r\nContent-Length: 0\r\n\r\n")
    assert isinstance(outcome, TryAgain)
    assert outcome.after_seconds == posting.RETRY_AFTER_SECONDS_MAX


def test_an_answer_without_end_is_read_to_a_bound() -> None:
    outcome = exchange(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 150_000)
    assert isinstance(outcome, Sent)


@pytest.mark.parametrize("answer", [b"", b"\x00\xff garbage\r\n\r\n", b"HTTP/1.1 20", b"HTTP/1.1 999999 x\r\n\r\n"])
def test_an_answer_that_is_no_http_is_tried_again(answer: bytes) -> None:
    assert isinstance(exchange(answer), TryAgain)


def test_a_receiver_that_drips_is_cut_off_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "SECONDS_MAX", 0.2)
    outcome = exchange(b"HTTP/1.1 20", timeout_seconds=60, is_over=False)
    assert isinstance(outcome, TryAgain)
    assert "within" in outcome.error


def test_the_public_addresses_of_the_world_are_public() -> None:
    for text in ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e"]:
        check_address(ipaddress.ip_address(text))
    assert targets.ADDRESSES_MAX >= 2
