"""What the engine promises beyond the contract, on a real API server and a real kubelet."""

from __future__ import annotations

import hashlib
import io
import json
import os
import select
import signal
import tarfile
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clusters.engines.interface import (
    AddressOf,
    Asker,
    CodeRef,
    Ensured,
    ExitReason,
    FileOf,
    Forgotten,
    GiveUp,
    Gone,
    ImageKind,
    ImageRef,
    NotRunning,
    PullAccount,
    Retry,
    StartStep,
    Stop,
    StopCause,
    Stopping,
    Stream,
    TaskName,
    TaskState,
    TerminalSize,
    Workload,
)
from clusters.engines.kubernetes import names, states
from clusters.engines.kubernetes.api import Conflict
from clusters.engines.kubernetes.record import Gate
from kernel.resources import Resources
from tests.builders.kubernetes import allow_plain_http
from tests.builders.registry import PASSWORD, USER, RealRegistry, registry
from tests.builders.registry import shell as registry_shell
from tests.contract.engines.bench import Behaviour, Script, ignores_signals, runs_on, succeeds, writes
from tests.engines.kubernetes.conftest import Place

pytestmark = pytest.mark.kubernetes
FIRST = TaskName("worker", 0)


def shell(text: str) -> Behaviour:
    return Behaviour(text, Script())


def stop(workload: Workload, grace_seconds: float = 60.0, signal: str = "TERM") -> Stop:
    return Stop(workload.attempt_id, grace_seconds, StopCause.USER, signal)


# --- One start, whatever happens ----------------------------------------------------------------------------------------


def test_a_foreign_pod_with_our_name_is_not_adopted_and_nothing_starts(place: Place) -> None:
    place.bench.wait_for_end(place.bench.start(succeeds()).attempt_id)  # The namespace is there.
    workload = place.bench.workload(runs_on(), runs_on())
    foreign = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": names.pod_name(workload.attempt_id, 1), "namespace": place.namespace()},
        "spec": {
            "schedulingGates": [{"name": "example.com/never"}],
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "main",
                    "image": "x",
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }
    place.cluster.create(foreign)
    (answer,) = place.engine.ensure([workload])
    assert isinstance(answer, GiveUp)
    assert answer.code == "foreign_object"
    assert place.pods(workload.attempt_id) == []
    assert place.engine.stop([stop(workload)]) == [Gone(workload.attempt_id)]


@pytest.mark.parametrize("step", ["gate", "pods"])
def test_a_start_that_died_half_way_is_completed_by_the_next_and_runs_once(place: Place, step: str) -> None:
    workload = place.bench.workload(writes(b"once\n"))
    starter = place.engine._starter
    if step == "gate":
        starter._make_objects = _die  # type: ignore[method-assign]
    else:
        starter._release = _die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        place.engine.ensure([workload])
    seen = place.bench.see(workload.attempt_id)
    assert seen is not None
    assert [task.state for task in seen.tasks] == [TaskState.PENDING]
    place.bench.restart()
    assert place.engine.ensure([workload]) == [Ensured(workload.attempt_id, created=False)]
    place.bench.wait_for_end(workload.attempt_id)
    assert place.bench.read_all(workload.attempt_id, FIRST) == b"once\n"


def test_a_start_that_died_after_its_release_is_completed_by_looking(place: Place) -> None:
    workload = place.bench.workload(writes(b"once\n"))
    place.engine._pods.release = _die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        place.engine.ensure([workload])
    place.bench.restart()
    place.bench.wait_for_end(workload.attempt_id)
    assert place.bench.read_all(workload.attempt_id, FIRST) == b"once\n"


@pytest.mark.parametrize("step", ["gate", "pods"])
def test_a_start_that_slept_through_stop_and_forget_starts_nothing(place: Place, step: str) -> None:
    """The first caller wakes when the attempt is long over: its pods keep their gate, and it removes them."""
    workload = place.bench.workload(writes(b"twice?\n"))
    starter = place.engine._starter
    objects, release = starter._make_objects, starter._release

    def over() -> None:
        assert place.engine.stop([stop(workload)]) == [Gone(workload.attempt_id)]
        assert place.engine.forget([workload.attempt_id]) == [Forgotten(workload.attempt_id)]

    if step == "gate":
        starter._make_objects = lambda plan: (over(), objects(plan))[1]  # type: ignore[method-assign,func-returns-value]
    else:
        starter._release = lambda gate, created: (over(), release(gate, created=created))[1]  # type: ignore[method-assign]
    (answer,) = place.engine.ensure([workload])
    assert isinstance(answer, GiveUp)
    assert answer.code == "attempt_forgotten"
    assert place.pods(workload.attempt_id) == []


def test_two_changes_of_a_gate_at_once_have_one_winner(place: Place) -> None:
    workload = place.bench.start(runs_on())
    gates = place.engine._gates
    gate = gates.read(workload.attempt_id)
    assert gate is not None
    gates.replace(replace(gate, name="first"))
    with pytest.raises(Conflict):
        gates.replace(replace(gate, name="second"))


def test_a_gate_that_cannot_be_read_is_told_of_and_nothing_is_done(place: Place) -> None:
    workload = place.bench.start(runs_on())
    path = f"{place.engine._gates._path}/{names.gate_name(workload.attempt_id)}"
    merge = "application/merge-patch+json"
    place.cluster.request("PATCH", path, {"data": {"attempt.json": "rubbish"}}, content_type=merge)
    place.bench.wait_until(lambda: bool((seen := place.bench.see(workload.attempt_id)) and not seen.tasks), "the broken record")
    (answer,) = place.engine.stop([stop(workload)])
    assert isinstance(answer, Retry)
    assert isinstance(place.engine.ensure([workload])[0], GiveUp)


def test_old_tombstones_are_deleted_by_day(place: Place) -> None:
    old, new = uuid.uuid4(), uuid.uuid4()
    place.engine.stop([Stop(new, 0, StopCause.USER)])
    day = datetime.fromtimestamp(time.time() - 9 * 86_400, UTC).date()
    place.engine._gates.create(Gate(old, is_tombstone=True, forgotten_on=day))
    place.engine._gates.purge()
    assert place.engine._gates.read(old) is None
    assert place.engine._gates.read(new) is not None


# --- Ends -----------------------------------------------------------------------------------------------------------------


def test_a_pod_deleted_by_hand_ends_with_its_code_and_as_evicted(place: Place) -> None:
    workload = place.bench.start(shell("trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done"))
    place.bench.wait_for_output(workload.attempt_id, b"ready")
    place.cluster.request("DELETE", place.pod_path(workload.attempt_id))
    (task,) = place.bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert (task.exit.code, task.exit.reason) == (3, ExitReason.EVICTED)
    assert place.bench.read_all(workload.attempt_id, FIRST) == b"ready\n"


def test_a_pod_removed_by_force_is_gone(place: Place) -> None:
    workload = place.bench.start(runs_on())
    place.bench.wait_until(lambda: _state(place, workload) is TaskState.RUNNING, "the start")
    path = place.pod_path(workload.attempt_id)
    place.cluster.request("DELETE", path, {"gracePeriodSeconds": 0})
    place.cluster.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type="application/merge-patch+json")
    place.bench.wait_until(lambda: _state(place, workload) is TaskState.GONE, "its being gone")


def test_an_evicted_pod_is_told_as_such(place: Place) -> None:
    workload = place.bench.start(runs_on())
    place.bench.wait_until(lambda: _state(place, workload) is TaskState.RUNNING, "the start")
    name = names.pod_name(workload.attempt_id, 0)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": place.namespace()}}
    eviction["deleteOptions"] = {"gracePeriodSeconds": 1}  # type: ignore[assignment]
    place.cluster.request("POST", f"{place.pod_path(workload.attempt_id)}/eviction", eviction)
    (task,) = place.bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert task.exit.reason is ExitReason.EVICTED
    assert "Evict" in task.exit.evidence


@pytest.mark.capability("6", "A task that cannot begin says what it waits for, and ends with the reason")
def test_an_image_that_cannot_be_had_ends_the_task_with_the_reason(open_place: Callable[..., Place]) -> None:
    place = open_place(image_patience_seconds=2.0)
    workload = place.bench.workload(succeeds())
    image = ImageRef(ImageKind.REGISTRY, "", "127.0.0.1:9/nothing:1")
    place.engine.ensure([replace(workload, image=image)])
    (task,) = place.bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert task.exit.reason is ExitReason.START_FAILED
    assert task.exit.given_up == "image_unreachable"
    assert "127.0.0.1:9/nothing:1" in task.exit.evidence


def pulls_with(place: Place, images: RealRegistry, password: str) -> Workload:
    """A task whose image the registry gives to that account alone."""
    allow_plain_http(place.cluster, images.host)
    images.push("team/shell:1", [registry_shell()])
    account = PullAccount(images.host, USER, password)
    image = ImageRef(ImageKind.REGISTRY, "", f"{images.host}/team/shell:1", pull=account)
    return replace(place.bench.workload(succeeds()), image=image)


def test_an_account_that_the_registry_refuses_ends_the_task_as_denied(open_place: Callable[..., Place]) -> None:
    place = open_place(image_patience_seconds=1.0)
    with registry(password=PASSWORD, address=place.cluster.host) as images:
        workload = pulls_with(place, images, "another")
        place.engine.ensure([workload])
        (task,) = place.bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert (task.exit.reason, task.exit.given_up) == (ExitReason.START_FAILED, "image_denied")


def test_an_account_that_is_refused_at_first_is_tried_again(place: Place) -> None:
    """As where a kubelet pulls before it has the account's Secret."""
    with registry(password=PASSWORD, address=place.cluster.host) as images:
        workload = pulls_with(place, images, "next")
        place.engine.ensure([workload])
        place.bench.wait_until(lambda: _is_refused(place, workload), "the refusal")
        images.change_password("next")
        (task,) = place.bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert task.exit.code == 0


@pytest.mark.capability("6", "A task that cannot begin says what it waits for, and ends with the reason")
def test_a_task_says_that_its_image_is_being_pulled_as_long_as_it_is(place: Place) -> None:
    with registry(address=place.cluster.host) as images:
        allow_plain_http(place.cluster, images.host)
        images.push("team/shell:2", [registry_shell()])
        workload = place.bench.workload(succeeds())
        images.process.send_signal(signal.SIGSTOP)  # It takes the connection, and gives nothing.
        place.engine.ensure([replace(workload, image=ImageRef(ImageKind.REGISTRY, "", f"{images.host}/team/shell:2"))])
        place.bench.wait_until(lambda: _waits_for(place, workload) is StartStep.PULLING_IMAGE, "the pull")
        images.process.send_signal(signal.SIGCONT)
        (task,) = place.bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert (task.exit.code, task.waiting) == (0, None)


def _waits_for(place: Place, workload: Workload) -> StartStep | None:
    seen = place.bench.see(workload.attempt_id)
    waiting = seen.tasks[0].waiting if seen is not None and seen.tasks else None
    return None if waiting is None else waiting.code


def _is_refused(place: Place, workload: Workload) -> bool:
    assert _state(place, workload) is TaskState.PENDING
    assert _waits_for(place, workload) in (StartStep.CREATING, StartStep.PULLING_IMAGE, StartStep.IMAGE_RETRY)
    trouble = states.find_trouble(place.pod(workload.attempt_id))
    return trouble is not None and trouble.code == "image_denied"


@pytest.mark.capability("6", "A task that cannot begin says what it waits for, and ends with the reason")
def test_what_no_node_takes_ends_with_the_schedulers_words(open_place: Callable[..., Place]) -> None:
    place = open_place(unschedulable_patience_seconds=1.0)
    workload = place.bench.workload(succeeds())
    greedy = replace(workload.tasks[0], resources=Resources(cpu_millis=100, memory_bytes=1 << 20, gpu_millis=64_000))
    place.engine.ensure([replace(workload, tasks=(greedy,))])
    (task,) = place.bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert task.exit.reason is ExitReason.START_FAILED
    assert task.exit.given_up == "unschedulable"
    assert "nvidia.com/gpu" in task.exit.evidence


def test_a_stop_before_the_start_ends_without_a_code(place: Place) -> None:
    workload = place.bench.workload(succeeds())
    elsewhere = replace(workload.tasks[0], node="no-such-node")
    place.engine.ensure([replace(workload, tasks=(elsewhere,))])
    assert place.engine.stop([stop(workload)]) == [Stopping(workload.attempt_id)]
    (task,) = place.bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert (task.exit.code, task.exit.reason, task.exit.stop_cause) == (None, ExitReason.STOPPED, StopCause.USER)
    assert place.engine.forget([workload.attempt_id]) == [Forgotten(workload.attempt_id)]
    assert place.pods(workload.attempt_id) == []


def test_another_signal_than_term_reaches_the_task(place: Place) -> None:
    workload = place.bench.start(shell("trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done"))
    place.bench.wait_for_output(workload.attempt_id, b"ready")
    place.engine.stop([stop(workload, signal="USR1")])
    (task,) = place.bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert (task.exit.code, task.exit.reason) == (9, ExitReason.STOPPED)


def test_a_shortened_grace_ends_what_runs(place: Place) -> None:
    workload = place.bench.start(ignores_signals())
    place.bench.wait_for_output(workload.attempt_id, b"ready")
    place.engine.stop([stop(workload, 3_600)])
    place.engine.stop([stop(workload, 2)])
    (task,) = place.bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert (task.exit.code, task.exit.reason) == (137, ExitReason.STOPPED)


# --- What a task has ------------------------------------------------------------------------------------------------------


def test_secrets_reach_the_task_and_stand_in_no_pod(place: Place) -> None:
    secret = "it's $(HOME) $$ \n two lines"
    workload = place.bench.start(shell('printf %s "$SECRET"'), secret_env={"SECRET": secret})
    place.bench.wait_for_end(workload.attempt_id)
    assert place.bench.read_all(workload.attempt_id, FIRST) == secret.encode()
    assert "two lines" not in json.dumps(place.pod(workload.attempt_id))
    place.engine.forget([workload.attempt_id])
    query = f"/api/v1/namespaces/{place.namespace()}/secrets?labelSelector={names.ATTEMPT}%3D{workload.attempt_id}"
    assert place.cluster.request("GET", query)["items"] == []


def test_nothing_of_a_users_text_is_expanded(place: Place) -> None:
    text = "$(HOME) $$(HOME) $HOME `id` $$ ${PATH} %s \\n"
    behaviour = Behaviour("", Script(), argv=(("printf",), ("%s|%s",), (text,), ("$(TEXT)",)))
    workload = place.bench.start(behaviour, env={"TEXT": (text,)})
    place.bench.wait_for_end(workload.attempt_id)
    assert place.bench.read_all(workload.attempt_id, FIRST) == f"{text}|$(TEXT)".encode()


def test_a_tasks_user_is_named_in_its_environment(place: Place) -> None:
    named = place.bench.start(shell("echo $USER $LOGNAME"))
    otherwise = place.bench.start(shell("echo $USER $LOGNAME"), env={"USER": ("alice",)})
    for workload, name in ((named, b"berth-tenant-1"), (otherwise, b"alice")):
        place.bench.wait_for_end(workload.attempt_id)
        assert place.bench.read_all(workload.attempt_id, FIRST) == name + b" berth-tenant-1\n"


@pytest.mark.capability(
    "26", "A task's pod is restricted, without a token, in a namespace of its tenant that is put back when it is changed"
)
def test_a_pod_has_no_rights_and_no_token(place: Place) -> None:
    said = "id -u; grep -E 'NoNewPrivs|CapEff|CapBnd|Seccomp:' /proc/self/status; ls /var/run/secrets 2>&1; exit 0"
    first, second = place.bench.start(shell(said)), place.bench.start(shell(said), tenant=2)
    for workload, uid in ((first, b"200001"), (second, b"200002")):
        place.bench.wait_for_end(workload.attempt_id)
        lines = place.bench.read_all(workload.attempt_id, FIRST).split(b"\n")
        assert lines[0] == uid
        assert b"CapEff:\t0000000000000000" in lines
        assert b"CapBnd:\t0000000000000000" in lines
        assert b"NoNewPrivs:\t1" in lines
        assert b"Seccomp:\t2" in lines
        assert any(b"No such file" in line for line in lines)


def test_tasks_of_a_gang_find_each_other_by_name_where_the_cluster_has_dns(open_place: Callable[..., Place]) -> None:
    place = open_place(pod_addresses=False)
    program = "import os, socket; print(socket.gethostbyname(os.environ['PEER']))"
    behaviour = Behaviour("", Script(), argv=(("/usr/bin/python3",), ("-c",), (program,)))
    env = {"PEER": (AddressOf("worker", 1),), "HOSTS": (FileOf("hosts"),)}
    files = {"hosts": (AddressOf("worker", 0), "\n")}
    workload = place.bench.start(behaviour, behaviour, env=env, files=files)
    _, second = place.bench.wait_for_end(workload.attempt_id)
    assert second.address.startswith("worker-1.")
    address = place.pod(workload.attempt_id, 1)["status"]["podIP"]
    assert place.bench.read_all(workload.attempt_id, FIRST) == f"{address}\n".encode()


def test_a_gpu_is_the_schedulers_to_give_and_the_shared_memory_is_bounded(place: Place) -> None:
    workload = place.bench.workload(shell("df -k /dev/shm | tail -1"))
    task = replace(workload.tasks[0], resources=Resources(100, 64 << 20, 1_000), shm_bytes=32 << 20, node="node-1")
    place.engine.ensure([replace(workload, tasks=(task,))])
    place.bench.wait_for_end(workload.attempt_id)
    assert place.bench.read_all(workload.attempt_id, FIRST).split()[1] == b"32768"
    assert place.pod(workload.attempt_id)["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_code_too_large_for_an_object_is_carried_into_every_pod_before_any_begins(place: Place, tmp_path: Path) -> None:
    noise = os.urandom(3_000_000)
    archive = tmp_path / "code"
    with tarfile.open(archive, "w:gz") as packed:
        entry = tarfile.TarInfo("sub/noise")
        entry.size = len(noise)
        packed.addfile(entry, io.BytesIO(noise))
    digest = shell("sha256sum <noise")
    code = CodeRef("sha256:x", str(archive))
    workload = replace(place.bench.workload(digest, digest), code=code, workdir="sub")
    place.engine.ensure([workload])
    ended = place.bench.wait_for_end(workload.attempt_id)
    assert [task.exit and task.exit.code for task in ended] == [0, 0]
    for task in ended:
        assert place.bench.read_all(workload.attempt_id, task.name).startswith(hashlib.sha256(noise).hexdigest().encode())


# --- Output ---------------------------------------------------------------------------------------------------------------


@pytest.mark.capability("41", "A gap is marked, never silent")
def test_a_log_that_the_node_rotated_has_a_marker_and_right_offsets(place: Place) -> None:
    line = b"x" * 99 + b"\n"
    program = "import sys; [sys.stdout.write('x' * 99 + chr(10)) for _ in range(300000)]"
    workload = place.bench.start(shell(f'/usr/bin/python3 -c "{program}"; sleep 12; echo end'))
    place.bench.wait_for_end(workload.attempt_id)
    cursor, data, skipped = 0, b"", 0
    while True:
        answer = place.engine.logs(workload.attempt_id, FIRST, Stream.OUT, cursor)
        for chunk in answer.chunks:
            assert chunk.offset == cursor
            cursor += len(chunk.data) + chunk.skipped_bytes
            skipped += chunk.skipped_bytes
            data += chunk.data
        assert answer.cursor == cursor
        if answer.complete:
            break
    assert cursor == 300_000 * len(line) + 4
    assert skipped > 0
    assert data.endswith(b"end\n")


# --- A program beside a task ----------------------------------------------------------------------------------------------


def test_a_person_types_and_the_code_comes_home(place: Place) -> None:
    workload = place.bench.start(runs_on())
    place.bench.wait_until(lambda: _state(place, workload) is TaskState.RUNNING, "the start")
    execution = place.engine.execute(workload.attempt_id, FIRST, [], TerminalSize(31, 97), Asker("t", "u"))
    os.write(execution.input, b"stty size; echo $((40 + 2)); pwd; exit 7\n")
    output = _read(execution)
    assert b"31 97" in output
    assert b"42" in output
    assert b"/berth/work" in output
    assert execution.exit_code() == 7
    execution.close()


def test_a_command_has_pipes_and_its_input_ends(place: Place) -> None:
    workload = place.bench.start(runs_on())
    place.bench.wait_until(lambda: _state(place, workload) is TaskState.RUNNING, "the start")
    command = ["/bin/sh", "-c", 'tr a-z A-Z; echo "$0 $1" >&2; exit 3', "a b", "$HOME"]
    execution = place.engine.execute(workload.attempt_id, FIRST, command, None, Asker("t", "u"))
    os.write(execution.input, b"some text\n")
    execution.end_input()
    assert sorted(_read(execution).splitlines()) == [b"SOME TEXT", b"a b $HOME"]  # Two streams come in either order.
    assert execution.exit_code() == 3
    execution.close()
    place.engine.stop([stop(workload, 0)])
    place.bench.wait_for_end(workload.attempt_id)
    with pytest.raises(NotRunning):
        place.engine.execute(workload.attempt_id, FIRST, [], None, Asker("t", "u"))


# --- The cluster ----------------------------------------------------------------------------------------------------------


def test_the_inventory_counts_what_other_people_run(place: Place) -> None:
    before = next(node for node in place.engine.inventory().nodes if node.name == "node-1")
    assert before.gpu_model
    assert before.ready
    assert len(before.gpus) == 4
    with place.cluster.namespace() as namespace:
        from tests.builders.kubernetes import pod

        requests = {"requests": {"cpu": "100m", "memory": "64Mi"}}
        place.cluster.create(pod("other", namespace, "sleep 100", resources=requests))
        place.cluster.wait_for_pod(namespace, "other", "Running")
        after = next(node for node in place.engine.inventory().nodes if node.name == "node-1")
    assert after.capacity.cpu_millis == before.capacity.cpu_millis - 100
    assert after.capacity.memory_bytes == before.capacity.memory_bytes - (64 << 20)


@pytest.mark.capability(
    "26", "A task's pod is restricted, without a token, in a namespace of its tenant that is put back when it is changed"
)
def test_a_namespace_of_somebody_else_is_not_taken_over(place: Place) -> None:
    place.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place.namespace(5)}})
    workload = place.bench.workload(succeeds(), tenant=5)
    (answer,) = place.engine.ensure([workload])
    assert isinstance(answer, GiveUp)
    assert answer.code == "foreign_object"
    place.cluster.request("DELETE", f"/api/v1/namespaces/{place.namespace(5)}")


@pytest.mark.capability(
    "26", "A task's pod is restricted, without a token, in a namespace of its tenant that is put back when it is changed"
)
def test_what_was_changed_of_a_namespace_is_put_back(place: Place) -> None:
    place.bench.wait_for_end(place.bench.start(succeeds()).attempt_id)
    path = f"/apis/networking.k8s.io/v1/namespaces/{place.namespace()}/networkpolicies/berth-deny"
    place.cluster.request("DELETE", path)
    place.bench.restart()
    place.bench.wait_for_end(place.bench.start(succeeds()).attempt_id)
    assert place.cluster.request("GET", path)["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_what_a_task_uses_is_measured_by_its_kubelet(open_place: Callable[..., Place]) -> None:
    place = open_place(kubelet_summary=True)
    workload = place.bench.start(shell("while :; do :; done"))
    subject = f"task:{workload.attempt_id}:worker:0"

    def measured() -> bool:
        place.bench.see(workload.attempt_id)
        found = {sample.metric: sample.value for sample in place.engine.sample() if sample.subject == subject}
        return found.get("cpu_millis", 0) > 100 and found.get("memory_bytes", 0) > 0

    place.bench.wait_until(measured, "a measurement")
    assert {"cpu_millis", "memory_bytes", "disk_used_bytes"} <= {
        sample.metric for sample in place.engine.sample() if sample.subject == "node:node-1"
    }


def test_a_cluster_without_the_metrics_api_gives_no_samples(place: Place) -> None:
    place.bench.see(place.bench.start(runs_on()).attempt_id)
    assert place.engine.sample() == []


def _state(place: Place, workload: Workload) -> TaskState | None:
    seen = place.bench.see(workload.attempt_id)
    return seen.tasks[0].state if seen is not None and seen.tasks else None


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def _read(execution: object) -> bytes:
    """All that it prints until it has ended."""
    data, deadline = b"", time.monotonic() + 30
    while time.monotonic() < deadline:
        ready = select.select([execution.output, execution.ended], [], [], 1.0)[0]  # type: ignore[attr-defined]
        if execution.output in ready:  # type: ignore[attr-defined]
            try:
                part = os.read(execution.output, 65_536)  # type: ignore[attr-defined]
            except OSError:
                part = b""
            data += part
            if part:
                continue
        if execution.ended in ready:  # type: ignore[attr-defined]
            return data
    raise AssertionError(data)
