"""People under whom everything breaks: they submit, stop, run again and hold, and ask again whenever they got no answer.

Each write carries an idempotency key and is sent again, as it is, until an answer says what became of it. So a client knows
afterwards exactly which jobs it was promised, and every row that it was not promised is one too many.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.builders.live import LiveUser

Json = dict[str, Any]
Tell = Callable[..., None]  # Writes one record of the history: tell(source, event, **facts).

REQUEST_SECONDS = 10.0
UNFINISHED_MAX = 24  # Of one client: past it, it waits like everybody whose quota is full.
TRY_SECONDS_MAX = 300.0
ENDED = frozenset({"succeeded", "failed", "stopped"})

LOW, NORMAL = 100, 500  # Priorities: what is low makes way for what is not, and begins again.

# How every payload begins: it holds a lock that only one of its kind can hold, also when it is killed without a word, and says
# on a file that it alone and its like write when it began, each second that it lives, and how it ended, by both clocks: that of
# the wall, and the seconds since the machine started, which nobody sets. By the second one it began when the kernel made its
# process: on a loaded machine its own first word comes a second later.
BEGINNING = """\
me="$BERTH_JOB_ID $BERTH_ATTEMPT $BERTH_ROLE-$BERTH_INDEX"
say() {  # A stop is heard by all of the task: it ends a `date` and a `read` that are under way.
    at= up=; while [ -z "$at" ]; do at=$(date +%s.%N); done; while [ -z "$up" ]; do read -r up rest < /proc/uptime; done
    echo "$at ${2:-$up} $me $1" >> /witness/log
}
exec 9>> "/witness/lock.$BERTH_JOB_ID"
flock -n 9 || say overlap
read -r stat < /proc/self/stat; set -- $stat; shift 21  # Its start, in hundredths of a second since that of the machine.
say start "$(($1 / 100)).$(($1 / 10 % 10))$(($1 % 10))"
trap 'say stop; exit 143' TERM
"""

PAYLOAD = (
    BEGINNING
    + """\
n=0; while [ $n -lt $LINES ]; do echo "line $n"; n=$((n + 1)); done
say "printed $LINES"
sleep "0.${SECONDS_OF_WORK#*.}" & wait $!
n=0; while [ $n -lt "${SECONDS_OF_WORK%.*}" ]; do sleep 1 & wait $!; say beat; n=$((n + 1)); done
say stop
exit $((BERTH_ATTEMPT < SUCCEEDS_AT))
"""
)

# What a payload does that counts seconds and keeps a checkpoint of each. It says what it found, what it is about to put in place
# and what it has put in place. The second line of a checkpoint is written a moment after the first: an attempt that finds one
# without it was given a half-written one.
COUNTING = (
    BEGINNING
    + """\
n=0 whole= place="$BERTH_CHECKPOINT_DIR"
[ ! -e "$place/count" ] || { read -r n; read -r whole; } < "$place/count"
[ ! -e "$place/count" ] || [ "$whole" = whole ] || half=" half"
n=${n:-0} left=${FAILS_AFTER:-2}
say "restored $n$half"
while [ $n -lt ${COUNTS_TO:-3} ]; do
    [ $BERTH_ATTEMPT -ge $SUCCEEDS_AT ] || [ $left -gt 0 ] || { say stop; exit 1; }
    sleep 1 & wait $!
    n=$((n + 1)) left=$((left - 1))
    { echo $n; sleep 0.05; echo whole; } > "$place/count.new"
    say "saving $n"
    mv "$place/count.new" "$place/count"
    say "saved $n"
    say beat
done
say stop
"""
)


@dataclass
class Tally:
    """What happened to the requests of all clients."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    requests: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)
    ack_seconds: list[tuple[float, float]] = field(default_factory=list)  # When, and how long until the promise.
    answer_seconds: list[float] = field(default_factory=list)  # Of the one request that was answered.

    def count(self, counter: str, key: str) -> None:
        with self.lock:
            getattr(self, counter)[key] += 1


class Client(threading.Thread):
    """One client, its own random numbers, its own connection, its own jobs."""

    def __init__(
        self, number: int, *, seed: int, user: LiveUser, volume: str, rate: float, tally: Tally, tell: Tell, stop: threading.Event
    ) -> None:
        super().__init__(name=f"client-{number}", daemon=True)
        self.number = number
        self.random = random.Random(f"{seed}/client/{number}")
        self.user = user
        self.volume = volume
        self.pause_seconds = 1.0 / rate
        self.tally = tally
        self.tell = tell
        self.stopping = stop
        self.jobs: dict[str, str] = {}  # Jobs promised to us, with the last state that we were told.
        self.held: set[str] = set()
        self.endless: set[str] = set()
        self.failure: BaseException | None = None
        self.http = self._connection()

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self._act()
                self.stopping.wait(self.random.expovariate(1.0 / self.pause_seconds))
        except BaseException as error:  # Told by the round, which fails.
            self.failure = error
        finally:
            self.http.close()

    @contextlib.contextmanager
    def reopened(self) -> Iterator[None]:
        """For what is left to do after the thread has ended."""
        with self._connection() as self.http:
            yield

    def _connection(self) -> httpx2.Client:
        return httpx2.Client(
            base_url=self.user.platform.url,
            headers={"Authorization": f"Bearer {self.user.token}"},
            timeout=REQUEST_SECONDS,
            trust_env=False,
        )

    def _act(self) -> None:
        live = [job for job, state in self.jobs.items() if state not in ENDED]
        actions: list[tuple[Callable[[], None], int]] = [(self.look, 3)]
        if len(live) < UNFINISHED_MAX:
            actions += [(self.submit_one, 10), (self.submit_batch, 2), (self.submit_array, 2), (self.submit_endless, 2)]
            actions += [(self.submit_held, 2), (self.submit_counting, 2)]
            actions += [(self.rerun, 1)] if self.jobs else []
        actions += [(self.stop_one, 2)] if live else []
        actions += [(self.release_one, 3)] if self.held else []
        actions += [(self.stop_endless, 3)] if self.endless else []
        chosen, weights = zip(*actions, strict=True)
        self.random.choices(chosen, weights)[0]()

    # --- What it does --------------------------------------------------------------------------------------------------

    def spec(self, **more: Any) -> Json:
        succeeds_at = self.random.choices((1, 2, 3, 9), (80, 12, 4, 4))[0]
        environment = {
            "SECONDS_OF_WORK": f"{self.random.choice((0.0, 0.1, 0.3, 1.0, 2.0)):.1f}",
            "LINES": str(self.random.choice((1, 3, 20))),
            "SUCCEEDS_AT": str(succeeds_at),
        }
        return {
            "name": f"chaos-{self.number}",
            "command": ["/bin/sh", "-c", PAYLOAD],
            "env": {**environment, **more.pop("env", {})},
            "resources": {"cpu": self.random.choice((1, 1, 1, 2)), "memory": "32Mi"},
            "mounts": [{"volume": self.volume, "path": "/witness"}],
            "retry": {"limit": 2, "on": ["user"]},
            "priority": self.random.choice((LOW, NORMAL, NORMAL)),
            **more,
        }

    def submit_one(self) -> None:
        self.submit("/jobs", {"spec": self.spec()})

    def submit_endless(self) -> None:
        for job in self.submit("/jobs", {"spec": self.spec(env={"SECONDS_OF_WORK": "100000.0"}, priority=LOW)}):
            self.endless.add(job)

    def submit_counting(self) -> None:
        """One that makes way for others, or fails, and goes on where it was."""
        environment = {
            "COUNTS_TO": str(self.random.choice((3, 6, 12))),
            "FAILS_AFTER": str(self.random.choice((1, 2, 4))),
            "SUCCEEDS_AT": str(self.random.choice((1, 1, 2, 3))),
        }
        checkpoint = {"path": "ckpt", "grace": "1s", "interval": "1s"}
        command = ["/bin/sh", "-c", COUNTING]
        self.submit(
            "/jobs", {"spec": self.spec(command=command, env=environment, checkpoint=checkpoint, priority=LOW)}
        )  # fmt: skip

    def submit_held(self) -> None:
        for job in self.submit("/jobs", {"spec": self.spec(hold=True)}):
            self.held.add(job)

    def submit_batch(self) -> None:
        items = [{"name": f"chaos-{self.number}-{place}"} for place in range(self.random.randint(2, 6))]
        self.submit("/jobs:batch", {"spec": self.spec(), "items": items})

    def submit_array(self) -> None:
        size = self.random.randint(2, 5)
        self.submit("/jobs", {"spec": self.spec(array={"size": size, "parallelism": 2})}, array=size)

    def rerun(self) -> None:
        changes = {"env": self.spec()["env"], "hold": False}  # Whatever is run again ends by itself.
        self.submit(f"/jobs/{self._any(self.jobs)}/rerun", {"changes": changes}, again=True)

    def stop_one(self) -> None:
        self.stop(self._any([job for job, state in self.jobs.items() if state not in ENDED]))

    def stop_endless(self) -> None:
        self.stop(self._any(self.endless))

    def stop(self, job: str, *, grace_seconds: float | None = None, **facts: Any) -> None:
        """Ask a job to stop; from the answer on nothing of it may outlive the grace. `facts` go into the history."""
        grace_seconds = self.random.choice((0.0, 0.5, 2.0)) if grace_seconds is None else grace_seconds
        answer = self.write("stop", "POST", f"/jobs/{job}/stop", {"grace_seconds": grace_seconds})
        self.tell("client", "stop_acked", job=job, grace_seconds=grace_seconds, **facts)
        self.jobs[job] = answer["state"]
        self.endless.discard(job)
        self.held.discard(job)

    def release_one(self) -> None:
        self.release(self._any(self.held))

    def release(self, job: str) -> None:
        answer = self.write("edit", "PATCH", f"/jobs/{job}", {"hold": False}, job=job)
        if answer:
            self.tell("client", "edit_acked", job=job)
        self.held.discard(job)

    def look(self) -> None:
        """Read what became of some, and how many there are; what is read late is read again later."""
        counts = self.read("/jobs:counts", params={"tenant": self.user.tenant})
        if counts and any(number < 0 for number in counts["states"].values()):
            self._note(f"numbers of jobs below nothing: {counts['states']}")
        page = self.read("/jobs", params={"mine": "1", "limit": "50"})
        for item in page["items"] if page else ():
            if item["id"] in self.jobs:
                self.jobs[item["id"]] = item["state"]
                if item["state"] in ENDED:
                    self.held.discard(item["id"])
                    self.endless.discard(item["id"])

    def _any(self, jobs: Any) -> str:
        return self.random.choice(sorted(jobs))

    def submit(self, path: str, body: Json, *, array: int = 0, again: bool = False) -> list[str]:
        began = time.time()
        tenant = {} if again else {"tenant": self.user.tenant}
        answer = self.write("rerun" if again else "submit", "POST", path, {**tenant, **body})
        ids = answer.get("ids") or [answer["id"]]
        size = array or (answer.get("array") or {}).get("size") or 0
        with self.tally.lock:
            self.tally.ack_seconds.append((began, time.time() - began))
        self.tell("client", "submit_acked", jobs=ids, array_size=size, key=self._last_key)
        self.jobs.update(dict.fromkeys(ids, "queued"))
        return [str(job) for job in ids]

    # --- Asking until there is an answer --------------------------------------------------------------------------------

    def write(self, what: str, method: str, path: str, body: Json, *, job: str = "") -> Json:
        """Send until an answer says what became of it; nothing when an edit came too late. Other refusals end the round."""
        self._last_key = uuid.UUID(int=self.random.getrandbits(128), version=4).hex
        began, pause = time.monotonic(), 0.1
        while True:
            self.tally.count("requests", what)
            asked = time.monotonic()
            answer = None
            with contextlib.suppress(httpx2.TransportError):
                answer = self.http.request(
                    method, f"/api/v1{path}", json=body, headers={"Idempotency-Key": self._last_key}
                )  # fmt: skip
            if answer is not None:
                self.tally.count("answers", str(answer.status_code))
                if answer.is_success:
                    with self.tally.lock:
                        self.tally.answer_seconds.append(time.monotonic() - asked)
                    found: Json = answer.json()
                    return found
                if what == "edit" and answer.status_code == 409:
                    return {}
                if what == "edit" and answer.status_code == 412:  # It changed in this moment: nothing was done, again.
                    self.tally.count("retries", "412")
                    continue
                if answer.status_code not in (429, 503):
                    self._note(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
                    assert answer.status_code >= 500, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
            self.tally.count("retries", "no answer" if answer is None else str(answer.status_code))
            if what == "edit":  # It has no key: each time that it was carried out and not answered leaves a row of its own.
                self.tell("client", "edit_unknown", job=job)
            assert time.monotonic() - began < TRY_SECONDS_MAX, f"{method} {path}: no answer for {TRY_SECONDS_MAX:.0f} s"
            time.sleep(min(_asked_to_wait(answer), 2.0) or pause * self.random.uniform(0.5, 1.5))
            pause = min(2.0, pause * 2)

    def read(self, path: str, **options: Any) -> Json | None:
        """One look, which may fail."""
        self.tally.count("requests", "read")
        try:
            answer = self.http.get(f"/api/v1{path}", **options)
        except httpx2.TransportError:
            return None
        self.tally.count("answers", str(answer.status_code))
        if not answer.is_success:
            if answer.status_code not in (429, 503):
                self._note(f"GET {path}: {answer.status_code} {answer.text[:300]}")
            return None
        found: Json = answer.json()
        return found

    def _note(self, what: str) -> None:
        with self.tally.lock:
            if len(self.tally.unexpected) < 200:
                self.tally.unexpected.append(what)


def _asked_to_wait(answer: httpx2.Response | None) -> float:
    if answer is None:
        return 0.0
    with contextlib.suppress(ValueError):
        return float(answer.headers.get("Retry-After", "0"))
    return 0.0
