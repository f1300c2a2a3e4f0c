"""The frameworks queue and ordered: what they lay out, and their programs as real processes without a platform."""

from __future__ import annotations

import contextlib
import json
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from jobs.frameworks import GangPlan, RoleShape, get_framework
from tests.builders.live import wait_until
from tests.unit.frameworks.gangs import Gang, running
from tests.unit.frameworks.resolving import a_job, a_role, environment_of


def a_plan(
    command: str, workers: int, shards: str, *, framework: str = "queue", role: str = "worker", **more: object
) -> GangPlan:
    dispatcher = a_role("dispatcher", 1, "/bin/sh", "-c", shards)
    return get_framework(framework).compile(a_job(dispatcher, a_role(role, workers, "/bin/sh", "-c", command), **more))


# --- What is laid out ------------------------------------------------------------------------------------------------


def a_shape(replicas: int = 1) -> RoleShape:
    return RoleShape(replicas, replicas, 0, ())


@pytest.mark.parametrize(
    ("framework", "roles", "codes"),
    [
        ("queue", {"dispatcher": a_shape(), "worker": a_shape(8)}, []),
        ("queue", {"dispatcher": a_shape(), "fast": a_shape(2), "consumer": a_shape(2)}, []),
        ("queue", {"worker": a_shape(8)}, ["role_missing"]),
        ("queue", {"dispatcher": a_shape(2), "worker": a_shape()}, ["role_single"]),
        ("queue", {"dispatcher": a_shape()}, ["role_missing"]),
        ("ordered", {"worker": a_shape(8)}, []),
        ("ordered", {"dispatcher": a_shape(), "worker": a_shape(8)}, []),
        ("ordered", {"dispatcher": a_shape(3), "worker": a_shape(8)}, ["role_single"]),
    ],
)
def test_the_roles_that_a_queue_takes(framework, roles, codes):
    assert [error.code for error in get_framework(framework).validate(roles)] == codes


def test_a_dispatcher_has_no_command_of_its_own():
    for role in ("dispatcher", "worker", "consumer"):
        assert get_framework("queue").default_command(role, ("dispatcher", "worker")) is None


@pytest.mark.parametrize(("framework", "options"), [("queue", ["--"]), ("ordered", ["deal", "--"])])
def test_tasks_run_our_programs_around_their_commands(framework, options):
    plan = get_framework(framework).compile(
        a_job(a_role("worker", 2, "encode"), a_role("dispatcher", 1, "seq", "9"), a_role("consumer", 1, "mine"))
    )
    assert [str(task.name) for task in plan.tasks] == ["dispatcher-0", "consumer-0", "worker-0", "worker-1"]
    agents = [json.loads(environment_of(task)["BERTH_TASK_PLAN"]) for task in plan.tasks]
    commands = [["".join(argument) for argument in agent["argv"]] for agent in agents]
    assert commands[0] == ["python3", "/files/queue_dispatcher.py", *options, "seq", "9"]
    assert commands[1] == ["mine"]
    assert commands[2] == ["python3", "/files/queue_worker.py", "--", "encode"]
    assert [agent.get("after") for agent in agents] == [None, ["dispatcher"], ["dispatcher"], ["dispatcher"]]
    assert [agent.get("max_retry", 0) for agent in agents] == [0, 10, 10, 10]
    for task in plan.tasks:
        assert environment_of(task)["BERTH_QUEUE_URL"] == "http://dispatcher-0.test:<berth-queue>"
        assert task.secret_env == {"BERTH_ATTEMPT_KEY": "k" * 32}
    assert [task.ports for task in plan.tasks] == [("berth-queue", "berth-ready"), (), (), ()]
    assert "k" * 32 not in repr(plan)


def test_without_a_dispatcher_each_ordered_task_is_a_shard():
    plan = get_framework("ordered").compile(a_job(a_role("audio", 2, "true"), a_role("video", 2, "true")))
    assert [environment_of(task)["BERTH_SHARD_INDEX"] for task in plan.tasks] == ["0", "1", "2", "3"]
    assert {environment_of(task)["BERTH_SHARD_COUNT"] for task in plan.tasks} == {"4"}
    assert [task.argv for task in plan.tasks] == [(("true",),)] * 4


# --- Real processes --------------------------------------------------------------------------------------------------


def url_of(gang: Gang) -> str:
    return f"http://127.0.0.1:{gang.ports['dispatcher', 0, 'berth-queue']}"


@pytest.mark.engines
def test_each_shard_is_run_once_with_its_variables(tmp_path):
    command = 'echo "$BERTH_SHARD $BERTH_SHARD_INDEX $BERTH_SHARD_COUNT $BERTH_SHARD_TRY" >>"$WITNESS/ran"'
    lines = "echo 'a b'; echo; echo 'é'; echo a b"
    with running(a_plan(command, 2, lines), tmp_path, QUEUE_COPIES="0") as gang:  # A loaded machine is slow at a quick one.
        assert gang.end_of("dispatcher-0") == 0, gang.log("dispatcher-0")
    assert sorted((tmp_path / "ran").read_text().splitlines()) == ["a b 0 3 1", "a b 2 3 1", "é 1 3 1"]
    assert gang.log("dispatcher-0").splitlines()[-1] == "berth: progress 3/3"


KILLS = """
import os, random, signal
count = int(os.environ["BERTH_SHARD"])
if int(os.environ["BERTH_SHARD_TRY"]) == 1 and count in (5, 25, 45):
    os.kill(os.getpid(), signal.SIGKILL)
if int(os.environ["BERTH_SHARD_TRY"]) == 1 and count in (15, 35, 55):
    os.kill(os.getppid(), signal.SIGKILL)
open(os.path.join(os.environ["WITNESS"], "did-%d" % count), "a").write("x")
"""


@pytest.mark.engines
def test_a_killed_command_and_a_killed_worker_lose_no_shard(tmp_path):
    command = f"exec python3 -c '{KILLS}'"
    plan = a_plan(command, 3, "seq 60", checkpoint_dir=(str(tmp_path / "kept"),))
    with running(plan, tmp_path) as gang:
        assert gang.end_of("dispatcher-0") == 0, gang.log("dispatcher-0")
    assert sorted(tmp_path.glob("did-*")) == sorted(tmp_path / f"did-{number}" for number in range(1, 61))
    kept = (tmp_path / "kept" / "berth-queue-done").read_text().split()
    assert (len(kept), len(set(kept))) == (60, 60)


@pytest.mark.engines
@pytest.mark.parametrize(("tolerated", "code"), [("0", 1), ("0.5", 0)])
def test_a_share_of_failed_shards_is_tolerated_where_the_job_says_so(tmp_path, tolerated, code):
    command = "test $BERTH_SHARD != 3"
    with running(a_plan(command, 2, "seq 4"), tmp_path, QUEUE_TOLERATED=tolerated, QUEUE_TRIES="2") as gang:
        assert gang.end_of("dispatcher-0") == code, gang.log("dispatcher-0")
    words = "2 are" if code == 0 else "none is"
    assert f"berth: 1 of 4 shards failed, {words} tolerated: 2 ('3')" in gang.log("dispatcher-0")


@pytest.mark.engines
def test_the_next_attempt_goes_on_with_what_is_left(tmp_path):
    kept = (str(tmp_path / "kept"),)
    (first, second) = (tmp_path / "first", tmp_path / "second")
    for folder in (first, second):
        folder.mkdir()
    plan = a_plan('test $BERTH_SHARD != 9 && echo $BERTH_SHARD >>"$WITNESS/ran"', 1, "seq 9", checkpoint_dir=kept)
    with running(plan, first, QUEUE_TRIES="1") as gang:
        assert gang.end_of("dispatcher-0") == 1
    plan = a_plan('echo $BERTH_SHARD >>"$WITNESS/ran"', 1, "seq 9", checkpoint_dir=kept, attempt=2)
    with running(plan, second) as gang:
        assert gang.end_of("dispatcher-0") == 0
    assert "berth: 8 of 9 shards were done before" in gang.log("dispatcher-0")
    assert (second / "ran").read_text() == "9\n"


@pytest.mark.engines
@pytest.mark.parametrize(
    ("shards", "env", "code", "words"),
    [
        ("echo x; exit 7", {}, 7, "berth: the command that prints the shards ended with 7"),
        ("seq 3", {"QUEUE_TRIES": "many"}, 64, "berth: QUEUE_TRIES must be a number from 1 to 1000, not 'many'"),
        ("seq 3", {"QUEUE_TOLERATED": "2"}, 64, "berth: QUEUE_TOLERATED must be a number from 0 to 1, not '2'"),
        (":", {}, 0, "berth: progress 0/0"),
    ],
)
def test_what_a_dispatcher_cannot_begin_with_it_says(tmp_path, shards, env, code, words):
    with running(a_plan("true", 1, shards), tmp_path, **env) as gang:
        assert gang.end_of("dispatcher-0") == code
    assert words in gang.log("dispatcher-0").splitlines()


@pytest.mark.engines
def test_a_shard_has_no_more_time_than_the_job_gives_it(tmp_path):
    command = "test $BERTH_SHARD_TRY = 2 || exec sleep 600"
    with running(a_plan(command, 1, "seq 1"), tmp_path, QUEUE_SHARD_SECONDS="0.5") as gang:
        assert gang.end_of("dispatcher-0") == 0, gang.log("dispatcher-0")
    assert "shard 0 (try 1): the command was ended by signal 9 after 0.5 s, which are all it has" in gang.log("worker-0")


@pytest.mark.engines
def test_a_stopped_worker_stops_its_command_and_gives_its_shard_back(tmp_path):
    command = 'test -e "$WITNESS/first" && exit 0; touch "$WITNESS/first"; exec sleep 600'
    with running(a_plan(command, 2, "seq 1"), tmp_path, QUEUE_COPIES="0") as gang:
        wait_until(lambda: (tmp_path / "first").exists(), "a worker at the shard")
        busy = next(name for name in ("worker-0", "worker-1") if is_at_work(gang.processes[name].pid))
        gang.tell(busy, signal.SIGTERM)
        assert gang.end_of("dispatcher-0") == 0, gang.log("dispatcher-0")
        assert gang.end_of(busy) in (143, -signal.SIGTERM)


# --- The protocol ----------------------------------------------------------------------------------------------------


def ask(gang: Gang, body: object, *, key: str = "k" * 32, path: str = "/shards") -> tuple[int, dict[str, object]]:
    headers = {"Authorization": f"Bearer {key}"}
    data = None if body is None else json.dumps(body).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url_of(gang) + path, data, headers), timeout=10) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"{}")


@pytest.mark.engines
def test_a_program_of_the_job_asks_for_shards_itself(tmp_path):
    """As documented: take one, say that it is done, until the end."""
    plan = a_plan("exec sleep 600", 1, "seq 3", role="consumer")
    with running(plan, tmp_path) as gang:
        wait_until(lambda: can_connect(gang), "the dispatcher")
        seen = []
        done: list[object] = []
        while True:
            status, answer = ask(gang, {"worker": "mine", "done": done, "count": 1})
            assert status == 200
            if answer["end"]:
                break
            done = [shard["token"] for shard in answer["shards"]]  # type: ignore[attr-defined]
            seen += [(shard["line"], shard["index"]) for shard in answer["shards"]]  # type: ignore[attr-defined]
        assert seen == [("1", 0), ("2", 1), ("3", 2)]
        assert gang.end_of("dispatcher-0") == 0


@pytest.mark.engines
def test_strangers_get_nothing_and_nonsense_is_refused(tmp_path):
    with running(a_plan("exec sleep 600", 1, "seq 3", role="consumer"), tmp_path) as gang:
        wait_until(lambda: can_connect(gang), "the dispatcher")
        for key in ("wrong", "", "k" * 31):
            assert ask(gang, {"worker": "mine", "count": 3}, key=key) == (401, {})
            assert ask(gang, None, key=key, path="/progress") == (401, {})
        assert ask(gang, ["mine"])[0] == 400
        assert ask(gang, {"count": 1})[0] == 400
        assert ask(gang, {"worker": "mine", "count": "all"})[0] == 400
        assert ask(gang, {"worker": "mine"}, path="/elsewhere")[0] == 404
        assert ask(gang, None, path="/progress") == (200, {"done": 0, "failed": 0, "leased": 0, "total": 3})


def can_connect(gang: Gang) -> bool:
    with contextlib.suppress(OSError):
        return bool(ask(gang, None, path="/progress")[1]["total"])
    return False


def is_at_work(pid: int) -> bool:
    """Whether the worker program below this agent has a child."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return any(Path(f"/proc/{child}/task/{child}/children").read_text().split() for child in below)
