"""One round: start, load, break, heal, wait until everything is at rest, read what is left, decide."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.builders.breakable import BreakableServers, breakable_servers
from tests.builders.live import LivePlatform
from tests.chaos import watching
from tests.chaos.clients import ENDED, Client, Tally
from tests.chaos.faults import Breaker, plan
from tests.chaos.fleet import Fleet, is_awake
from tests.chaos.outages import Service, slow_spans
from tests.chaos.remains import read_remains
from tests.chaos.rest import look, stuck, wait_for_rest
from tests.chaos.stopper import STATES, Stopper
from tests.histories.checker import check
from tests.histories.records import HistoryFile, read_history
from tests.histories.report import Report

CORES = 64  # That the platform believes it has: its tenants' ceilings are what is scarce.
CEILINGS = {"narrow": 3000, "middle": 6000, "wide": 12_000, "stops": 4000}  # Tenant -> thousandths of a core that it may hold.
CLIENTS = ("narrow", "narrow", "middle", "middle", "middle", "wide", "wide", "wide")
QUIET_SECONDS = 1.0
CALM_SECONDS_MAX = 20.0  # Load without faults at the beginning: what is slow even then has no excuse.
CALM_SHARE = 0.15
STOPS_SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Options:
    """What a round is asked for."""

    seed: int
    seconds: float
    folder: Path
    profile: str = "production"
    lease_seconds: float | None = None  # None: as the product has it.
    fault_seconds: float = 5.0
    rate: float = 1.0  # Actions of each client a second.
    settle_seconds: float = 600.0

    @property
    def calm_seconds(self) -> float:
        return min(CALM_SECONDS_MAX, CALM_SHARE * self.seconds)


@dataclass
class Outcome:
    """Everything that a report tells."""

    options: Options
    seconds: float = 0.0
    tally: Tally = field(default_factory=Tally)
    faults: list[dict[str, Any]] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)  # Seconds from the start at which jobs ended.
    acked: list[float] = field(default_factory=list)
    takeovers: dict[str, dict[str, float]] = field(default_factory=dict)
    probe: dict[str, Any] = field(default_factory=dict)
    service: dict[str, dict[str, Any]] = field(default_factory=dict)  # What did not answer, by the fault that it began with.
    stops: dict[str, int] = field(default_factory=dict)  # By the state that they met.
    quota: watching.QuotaSamples | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    report: Report = field(default_factory=Report)
    violations: list[str] = field(default_factory=list)  # Beyond what the checker of histories decides.

    @property
    def holds(self) -> bool:
        return self.report.holds and not self.violations


class Round:
    """The state of a round while it runs. `say` shows one line of progress."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self.options = options
        self.say = say
        self.outcome = Outcome(options)
        self.history = HistoryFile(options.folder / "history.jsonl")
        self.began_at = time.time()

    def tell(self, source: str, event: str, **facts: Any) -> None:
        now = time.time()
        self.history.add(now, source, event, **facts)
        if source == "fault" and event == "injected":
            self.outcome.faults.append({"at": round(now - self.began_at, 2), **facts})
        if event == "submit_acked":
            self.outcome.acked.append(now - self.began_at)

    def run(self) -> Outcome:
        self.say("Starting PostgreSQL, Redis and the platform ...")
        with breakable_servers() as servers, servers.platform(**self._settings()) as platform:
            try:
                self._on(platform, servers)
            except BaseException:
                self._keep_log(platform)
                raise
            self._keep_log(platform)
        return self.outcome

    def _settings(self) -> dict[str, str]:
        settings = {
            "BERTH_SERVER_PROFILE": self.options.profile,
            "BERTH_LOCAL_CPU_MILLIS": str(CORES * 1000),
            "BERTH_LOCAL_SIMULATED_GPUS": "",
            "BERTH_TELEMETRY_SECONDS": "5",
        }
        lease = self.options.lease_seconds
        # Without a wish: what an installation has that sets nothing, and not what other tests set to be quick.
        settings["BERTH_LEASE_SECONDS"] = f"{lease or 30:g}"
        settings["BERTH_LEADERSHIP_SECONDS"] = f"{lease or 10:g}"
        settings["BERTH_SWEEP_SECONDS"] = f"{lease or 30:g}"
        settings["BERTH_POLL_SECONDS"] = "0.5" if lease else "1"
        return settings

    def _on(self, platform: LivePlatform, servers: BreakableServers) -> None:
        watching.install_sampler(platform)
        people = self._people(platform)
        fleet = Fleet(platform)
        stop = threading.Event()
        clients = [
            Client(
                number, seed=self.options.seed, user=people[tenant][0], volume=people[tenant][1], rate=self.options.rate,
                tally=self.outcome.tally, tell=self.tell, stop=stop,
            )
            for number, tenant in enumerate(CLIENTS)
        ]  # fmt: skip
        stopper = Stopper(
            len(CLIENTS), seed=self.options.seed, user=people["stops"][0], volume=people["stops"][1], rate=self.options.rate,
            tally=self.outcome.tally, tell=self.tell, stop=stop, database_url=lambda: _database_url(platform),
        )  # fmt: skip
        clients.append(stopper)
        self.began_at = time.time()
        lease_seconds = self.options.lease_seconds or 30.0
        breaker = Breaker(
            plan(
                self.options.seed, seconds=self.options.seconds, every_seconds=self.options.fault_seconds,
                calm_seconds=self.options.calm_seconds,
            ),
            fleet=fleet, servers=servers, lease_seconds=lease_seconds, tell=self.tell,
        )  # fmt: skip
        leases = watching.Leases(lambda: _database_url(platform), is_up=is_awake)
        probe = watching.Probe(platform.url)
        with _running(fleet, leases, probe, watching.Pulse(self.tell), breaker):
            for client in clients:
                client.start()
            self._wait(clients, breaker, stopper)
            self.say("Healing ...")
            breaker.heal()
            for failure in (breaker.failure, *(client.failure for client in clients)):
                if failure is not None:
                    raise failure
            healed_at = time.monotonic()
            self._ready(platform, stop, clients)
            self.outcome.seconds = time.time() - self.began_at
            self._let_go(clients)
            self._settle(platform, healed_at)
        self.outcome.takeovers = watching.summary(leases.takeovers, [*self._wide_faults()])
        self.outcome.probe = watching.facts(probe)
        self.outcome.stops = {state: stopper.hits[state] for state in STATES}
        self.outcome.service = self._service(probe, fleet)
        self._decide(platform, fleet, clients, people)

    # --- Before ------------------------------------------------------------------------------------------------------

    def _people(self, platform: LivePlatform) -> dict[str, tuple[Any, str]]:
        """A user in each tenant, each with a volume for its witnesses; and the tenants' ceilings."""
        people = {}
        for tenant, cpu_millis in CEILINGS.items():
            user = platform.person(f"user-{tenant}", tenant=tenant)
            volume = user.make_volume(f"witness-{tenant}")
            [queue] = [item for item in platform.operator.items("/queues", tenant=user.tenant) if item["name"] == tenant]
            self._set_ceiling(platform, queue["id"], cpu_millis)
            people[tenant] = (user, volume["name"])
        return people

    def _set_ceiling(self, platform: LivePlatform, queue_id: str, cpu_millis: int) -> None:
        [pool] = platform.operator.items("/pools")
        platform.operator.api("PUT", f"/queues/{queue_id}/limits", [{"pool": pool["id"], "cpu_millis": cpu_millis}])

    # --- While it lasts ----------------------------------------------------------------------------------------------

    def _wait(self, clients: list[Client], breaker: Breaker, stopper: Stopper) -> None:
        """Until the time is over; on a loaded machine somewhat longer, until a stop has met every state."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < self.options.seconds + (0 if stopper.has_met_all else STOPS_SECONDS_MAX):
            time.sleep(0.5)
            if breaker.failure is not None or any(client.failure is not None for client in clients):
                return
            jobs = sum(len(client.jobs) for client in clients)
            ended = sum(state in ENDED for client in clients for state in client.jobs.values())
            retries = sum(self.outcome.tally.retries.values())
            self.say(
                f"{passed:4.0f} of {self.options.seconds:.0f} s  {jobs} jobs promised, {ended} seen to end, "
                f"{breaker.done} of {len(breaker.planned)} faults, {retries} requests repeated"
            )

    def _ready(self, platform: LivePlatform, stop: threading.Event, clients: list[Client]) -> None:
        """Let every client get the answer that it waits for."""
        stop.set()
        for client in clients:
            client.join(120)
            assert not client.is_alive(), f"{client.name} still waits for an answer 120 s after everything was healed"
            if client.failure is not None:
                raise client.failure

    def _let_go(self, clients: list[Client]) -> None:
        """What waits for somebody is released, what would run for ever is stopped."""
        for client in clients:
            with client.reopened():
                for job in sorted(client.held):
                    client.release(job)
                for job in sorted(client.endless):
                    client.stop(job)

    def _settle(self, platform: LivePlatform, healed_at: float) -> None:
        problem = wait_for_rest(
            lambda: look(platform), lambda: stuck(platform), seconds=self.options.settle_seconds, say=self.say
        )
        if problem:
            self.outcome.violations.append(problem)
        self.outcome.facts["rest_after_healing_seconds"] = round(time.monotonic() - healed_at, 2)
        time.sleep(QUIET_SECONDS)  # Whatever would still change a row at rest has had the time to.

    def _wide_faults(self) -> Iterator[float]:
        """When more was broken than one process, in seconds since the epoch."""
        wide = ("kill everything", "kill supervisor", "database stops immediately", "database cuts connections", "thaw")
        return (self.began_at + fault["at"] for fault in self.outcome.faults if fault["what"] in wide)

    def _service(self, probe: watching.Probe, fleet: Fleet) -> dict[str, dict[str, Any]]:
        """What did not answer, by the fault that it began with."""
        faults = [(self.began_at + fault["at"], str(fault["what"])) for fault in self.outcome.faults if is_broken(fault)]
        service = Service(probe.spans, slow_spans(self.outcome.tally.ack_seconds), fleet.restarted_at)
        return service.by_fault(faults)

    # --- Afterwards --------------------------------------------------------------------------------------------------

    def _decide(self, platform: LivePlatform, fleet: Fleet, clients: list[Client], people: dict[str, tuple[Any, str]]) -> None:
        self.say("Reading what is left and deciding ...")
        outcome = self.outcome
        outcome.quota = watching.read_samples(platform)
        if outcome.quota.over:
            outcome.violations.append(f"{outcome.quota.over} of {outcome.quota.samples} samples are above a ceiling")
        if outcome.quota.drifted:
            outcome.violations.append(f"{outcome.quota.drifted} of {outcome.quota.samples} samples differ from the kept sums")
        self.history.add_all(read_remains(platform, self.options.folder))
        outcome.report = check(read_history(self.history.path))
        self._count_jobs(platform, clients)
        outcome.facts["restarts_of_the_whole"] = len(fleet.restarted_at)
        outcome.facts["processes"] = {role: len(pids) for role, pids in fleet.processes().items()}
        if outcome.tally.unexpected:
            outcome.violations.append(
                f"{len(outcome.tally.unexpected)} answers nobody should get: {outcome.tally.unexpected[:3]}"
            )

    def _count_jobs(self, platform: LivePlatform, clients: list[Client]) -> None:
        """Every stored job was promised to somebody, and every promise is stored: each is one and the same set."""
        promised = {job for client in clients for job in client.jobs}
        rows = platform.rows("SELECT id::text, parent_id::text, state, extract(epoch FROM ended_at) FROM jobs_job")
        stored = {row[0] for row in rows if row[1] is None}
        if stored - promised:
            self.outcome.violations.append(f"{len(stored - promised)} jobs are stored that nobody was promised")
        if promised - stored:
            self.outcome.violations.append(f"{len(promised - stored)} promised jobs are not stored")
        states: dict[str, int] = {}
        for _, _, state, ended_at in rows:
            states[state] = states.get(state, 0) + 1
            if ended_at is not None:
                self.outcome.ended.append(float(ended_at) - self.began_at)
        self.outcome.facts |= {"promised": len(promised), "stored": len(rows), "states": states}

    def _keep_log(self, platform: LivePlatform) -> None:
        with contextlib.suppress(OSError):
            (self.options.folder / "platform.log").write_bytes(platform.log.read_bytes())


def is_broken(fault: dict[str, Any]) -> bool:
    """Whether this broke something, and did not only end what had been broken."""
    return fault["what"] not in ("thaw", "everything is healed")


def _database_url(platform: LivePlatform) -> str:
    return platform.environment["BERTH_DATABASE_URL"]


@contextlib.contextmanager
def _running(fleet: Fleet, *threads: Any) -> Iterator[None]:
    fleet.start()
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.stopping.set()
        for thread in threads:
            thread.join(30)
        fleet.end()
