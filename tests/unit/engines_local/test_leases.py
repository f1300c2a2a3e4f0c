"""Ports and GPUs of a host are leased once, to one attempt, until it is gone."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from clusters.engines.interface import EngineUnreachable
from clusters.engines.local import leases
from clusters.engines.local.leases import HostLeases, Lease, LeaseRefused, Table

DEVICES = ("gpu-0", "gpu-1", "gpu-2", "gpu-3")
RANGE = (20_900, 20_950)  # Where no platform of this machine leases any.


def take(table: Table, attempt: str, *, ports: tuple[str, ...] = (), **gpu_millis: int) -> Lease:
    return table.take(attempt, "/root", ports=ports, gpu_millis=gpu_millis, devices=DEVICES, port_range=RANGE)


@pytest.mark.capability("9", "GPUs are leased exclusively")
@pytest.mark.capability("32", "Whole GPUs belong to one task")
def test_whole_devices_are_exclusive_and_all_or_none(tmp_path: Path) -> None:
    with HostLeases(str(tmp_path)).locked() as table:
        assert take(table, "a", worker=3_000).gpus == {"worker": {"gpu-0": 1000, "gpu-1": 1000, "gpu-2": 1000}}
        with pytest.raises(LeaseRefused, match="not enough is free"):
            take(table, "b", worker=2_000)
        assert take(table, "c", worker=1_000).gpus == {"worker": {"gpu-3": 1000}}
        table.release(["a"])
        assert len(take(table, "b", worker=2_000).gpus["worker"]) == 2


def test_a_share_goes_to_the_fullest_device_with_room_and_never_over_it(tmp_path: Path) -> None:
    with HostLeases(str(tmp_path)).locked() as table:
        for attempt in ("a", "b", "c"):
            take(table, attempt, worker=300)
        assert {device for lease in table.leases.values() for device in lease.gpus["worker"]} == {"gpu-0"}
        assert take(table, "d", worker=300).gpus == {"worker": {"gpu-1": 300}}
        assert take(table, "e", worker=3_000 - 1_000).gpus["worker"].keys() == {"gpu-2", "gpu-3"}
        assert all(table.used_millis(device) <= 1000 for device in DEVICES)


def test_a_gang_that_does_not_fit_together_gets_nothing(tmp_path: Path) -> None:
    with HostLeases(str(tmp_path)).locked() as table, pytest.raises(LeaseRefused):
        take(table, "a", one=3_000, two=2_000)
    with HostLeases(str(tmp_path)).locked() as table:
        assert table.leases == {}


def test_the_same_attempt_is_given_its_lease_again_also_by_another_process(tmp_path: Path) -> None:
    with HostLeases(str(tmp_path)).locked() as table:
        first = take(table, "a", ports=("w/main",), worker=1_000)
    with HostLeases(str(tmp_path)).locked() as table:
        assert take(table, "a", ports=("w/main",), worker=1_000) == first


def test_ports_in_use_by_others_are_passed_over_and_a_full_range_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", RANGE[0])), HostLeases(str(tmp_path)).locked() as table:
        lease = take(table, "a", ports=tuple(f"w/{index}" for index in range(10)))
        assert RANGE[0] not in lease.ports.values()
        assert len(set(lease.ports.values())) == 10
        with pytest.raises(LeaseRefused, match="No port"):
            take(table, "b", ports=tuple(f"w/{index}" for index in range(60)))


def test_threads_at_once_never_get_the_same(tmp_path: Path) -> None:
    leases: list[Lease] = []

    def work(name: str) -> None:
        with HostLeases(str(tmp_path)).locked() as table:
            leases.append(take(table, name, ports=("w/main",), worker=500))

    threads = [threading.Thread(target=work, args=(f"attempt-{index}",)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({port for lease in leases for port in lease.ports.values()}) == 8
    with HostLeases(str(tmp_path)).locked() as table:
        assert [table.used_millis(device) for device in DEVICES] == [1000] * 4


def test_a_process_that_froze_with_the_table_makes_nobody_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LOCK_SECONDS", 0.05)
    with HostLeases(str(tmp_path)).locked(), pytest.raises(EngineUnreachable, match="hangs or is stopped"):
        HostLeases(str(tmp_path)).locked().__enter__()
    with HostLeases(str(tmp_path)).locked() as table:
        assert take(table, "a", worker=1_000)


def test_two_tables_of_one_machine_begin_at_different_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither knows of the other's leases, and a port that is leased but not bound yet looks free."""
    starts = iter([RANGE[0] + 10, RANGE[0] + 30])
    monkeypatch.setattr(leases.secrets, "choice", lambda ports: next(starts))
    taken = [take(Table({}, 0), "a", ports=("web",)).ports["web"] for _ in range(2)]
    assert taken == [RANGE[0] + 10, RANGE[0] + 30]
