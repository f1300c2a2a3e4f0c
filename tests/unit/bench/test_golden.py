"""The benchmark of determinism on a few made-up jobs: the same bytes in other processes, and a digest that changed is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.golden import GOLDEN, SCENES, decisions_digest, digest_of, hour, recorded
from bench.live_hour import decision_logs, kept_log
from jobs.scheduling.core.state.decisions import Evict
from jobs.scheduling.replay.log import Log, Submitted
from jobs.scheduling.replay.recorder import decide_again


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Two tenants of one and two nodes, and thirty jobs that come faster than they end."""
    rows = [
        f"2017-10-01 00:{minute:02}:00,{600 + 40 * minute},{(1, 2, 4, 8)[minute % 4]},{('one', 'two')[minute % 2]}"
        for minute in range(30)
    ]
    (tmp_path / "philly_jobs.csv").write_text("timestamp,duration,num_gpus,cluster\n" + "\n".join(rows) + "\n")
    (tmp_path / "philly_vc_nodes.csv").write_text("vc,node num\none,4\ntwo,8\n")
    return tmp_path


@pytest.mark.capability("6.5", "Digests of the decisions on public traces are kept, and a different one is reported")
def test_another_digest_than_the_golden_one_misses_the_level(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = tmp_path / "golden.json"
    words = ["GOLD", "--traces", str(traces), "--first", "30", "--only", "philly", "--golden", str(golden)]
    words += ["--out", str(tmp_path / "out")]
    assert main([*words, "--write"]) == 0
    kept = json.loads(golden.read_text())
    kept["philly"]["decisions"] = "0" * 64
    golden.write_text(json.dumps(kept))

    assert main(words) == 1
    told = capsys.readouterr().out
    assert "philly-processes-agree 1" in told
    assert "philly-golden 0" in told


@pytest.mark.capability("6.5", "An event log gives the same decision log in any process, to the byte")
def test_an_event_log_is_the_same_each_time_and_so_are_the_decisions(traces: Path, tmp_path: Path) -> None:
    logs = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]
    passes = [recorded(SCENES["philly"](traces, 30), path) for path in logs]

    assert passes[0] == passes[1] > 30
    assert logs[0].read_bytes() == logs[1].read_bytes()
    assert decisions_digest(logs[0]) == decisions_digest(logs[1])


def test_without_a_folder_it_says_which_files_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["GOLD"]) == 1
    assert "--traces DIR" in "".join(capsys.readouterr())


def test_what_a_live_installation_did_is_decided_as_it_was_when_last_looked_at() -> None:
    """Whoever changes on purpose what is decided keeps the new digest: `make bench ONLY=GOLD ARGS="--traces DIR --write"`."""
    past, passes = hour()
    assert past.is_masked
    assert len(past.entries) > 60
    made = [decision for decided in passes for decision in decided.decisions]
    assert {type(decision).__name__ for decision in made} >= {"Admit", "Claim", "Evict", "Reserve", "Wait"}
    assert digest_of(passes) == json.loads(GOLDEN.read_text())["hour"]["decisions"]


@pytest.mark.capability("6.5", "The event log of a live installation that borrows and preempts is decided again to the byte")
def test_what_a_live_installation_decided_is_decided_again_to_the_byte() -> None:
    """A change that decides otherwise on purpose lives such an hour anew: `make bench ONLY=HOUR ARGS=--keep`."""
    log = kept_log()
    made = [decision for decided in log.passes for decision in decided.decisions]
    assert {type(decision).__name__ for decision in made} == {"Admit", "Claim", "Evict", "Reserve", "Wait"}
    between, inside = _evictions(log)
    assert between
    assert inside

    assert decide_again(log).difference is None
    then, now = decision_logs(log)
    assert then == now


def _evictions(log: Log) -> tuple[int, int]:
    """How many gangs were evicted for another queue than their own, and for a higher priority of their own."""
    queues = {running.job.id: running.job.queue for running in log.state.running}
    queues |= {job.id: job.queue for job in log.state.waiting}
    queues |= {event.job.id: event.job.queue for event in log.events if isinstance(event, Submitted)}
    evicted = [decision for decided in log.passes for decision in decided.decisions if isinstance(decision, Evict)]
    between = sum(queues[victim.id] != queues[victim.claimant] for victim in evicted)
    return between, len(evicted) - between
