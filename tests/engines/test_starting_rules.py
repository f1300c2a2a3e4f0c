"""What jobs say of the start and the end of their tasks, through the product: policies, tries alone, readiness."""

from __future__ import annotations

import pytest

from tests.builders.live import Json, LivePlatform

pytestmark = pytest.mark.engines

SMALL = {"resources": {"cpu": "100m", "memory": "64Mi"}}
SLEEPS = {**SMALL, "command": ["sleep", "600"]}


def a_role(command: str, **more: object) -> Json:
    return {**SMALL, "command": command, **more}


def attempts_of(platform: LivePlatform, job: Json) -> int:
    return len(platform.operator.items(f"/jobs/{job['id']}/attempts"))


@pytest.mark.capability("17", "A failure that its policy restarts ends all tasks once, and the next attempt begins")
def test_a_policy_restarts_the_whole_job(live_platform: LivePlatform) -> None:
    fails_first = a_role("test $BERTH_ATTEMPT = 2 || exit 9", policies=[{"on": "failed", "exit_code": 9, "do": "restart_job"}])
    waits_first = a_role("test $BERTH_ATTEMPT = 2 || exec sleep 600")
    job = live_platform.submit({"roles": {"worker": fails_first, "peer": waits_first}}, wait=True)
    assert (job["state"], attempts_of(live_platform, job)) == ("succeeded", 2)


def test_a_policy_aborts_a_job_that_has_retries_left(live_platform: LivePlatform) -> None:
    broken = a_role("exit 9", policies=[{"on": "failed", "do": "abort"}])
    job = live_platform.submit({"roles": {"worker": broken, "peer": SLEEPS}, "retry": {"limit": 3}}, wait=True)
    assert (job["state"], job["exit"]["code"], attempts_of(live_platform, job)) == ("failed", 9, 1)


@pytest.mark.capability("17", "The success of a role completes the job, and the rest is stopped")
def test_a_policy_completes_a_job_whose_other_tasks_never_end(live_platform: LivePlatform) -> None:
    evaluator = a_role("echo best", replicas=2, policies=[{"on": "role_succeeded", "do": "complete"}])
    spare = a_role("exit 3", policies=[{"on": "failed", "do": "ignore"}])
    job = live_platform.submit({"roles": {"evaluator": evaluator, "spare": spare, "server": SLEEPS}}, wait=True)
    tasks = live_platform.operator.items(f"/jobs/{job['id']}/tasks")
    assert job["state"] == "succeeded"
    assert [task["state"] for task in tasks if task["role"] == "server"] == ["stopped"]


@pytest.mark.capability("2", "A killed task is started again alone, in its place, while the others go on")
def test_a_killed_command_is_started_again_alone_and_its_peers_go_on(live_platform: LivePlatform) -> None:
    dies_once = "echo try; test -e tried && exit 0; touch tried; kill -9 $$"
    roles = {
        "map": a_role(dies_once, policies=[{"on": "failed", "exit_code": 137, "do": "restart_task"}], max_retry=1),
        "peer": a_role("echo once"),
    }
    job = live_platform.submit({"roles": roles}, wait=True)
    text = live_platform.logs(job)
    assert (job["state"], attempts_of(live_platform, job)) == ("succeeded", 1), text
    assert (text.count("try\n"), text.count("once\n")) == (2, 1)
    assert "was ended by signal 9; it is started again (1 of 1)" in text


def test_a_role_starts_after_another_is_ready_and_a_job_whose_role_never_is_says_so(live_platform: LivePlatform) -> None:
    serve = "exec python3 -m http.server -b 127.0.0.1 $BERTH_PORT_WEB"
    ready = {"port": "web", "path": "/", "timeout": "60s"}
    server = {**SMALL, "command": serve, "ports": ["web"], "ready": ready}
    fetch = "import os, urllib.request as u; print(u.urlopen('http://127.0.0.1:' + os.environ['BERTH_SERVER_PORTS_WEB']).status)"
    client = {**SMALL, "command": ["python3", "-c", fetch], "start_after_ready": ["server"]}
    job = live_platform.submit({"roles": {"server": server, "client": client}, "completion": {"chief": "client"}}, wait=True)
    assert job["state"] == "succeeded", live_platform.logs(job)
    silent = {**SLEEPS, "ports": ["web"], "ready": {"port": "web", "timeout": "1s"}}
    job = live_platform.submit({"roles": {"server": silent, "client": client}}, wait=True)
    assert (job["state"], job["exit"]["class"], job["exit"]["task"]) == ("failed", "not_ready", "server-0")
    assert "not ready after 1 s: this task" in job["exit"]["evidence"]


@pytest.mark.capability("118", "Simulators on cores start again alone beside a learner with a GPU, whose loss is a new attempt")
@pytest.mark.simulated_gpus
def test_simulators_and_a_learner_of_one_gang_have_rules_of_their_own(live_platform: LivePlatform) -> None:
    """A simulator is killed once in each attempt; the learner is killed in the first."""
    simulate = "test -e crashed && { echo simulated; exec sleep 600; }; touch crashed; kill -9 $$"
    learn = 'test "$BERTH_ATTEMPT" != 1 || kill -9 $$; echo learned on "$CUDA_VISIBLE_DEVICES"'
    learner = a_role(learn, policies=[{"on": "failed", "do": "restart_job"}])
    learner["resources"] = {**SMALL["resources"], "gpu": 1}
    roles = {"simulator": a_role(simulate, replicas=2, max_retry=3), "learner": learner}
    job = live_platform.submit({"roles": roles, "completion": {"chief": "learner"}}, wait=True)
    text = live_platform.logs(job, attempt=2)
    assert (job["state"], attempts_of(live_platform, job)) == ("succeeded", 2), text
    assert "learned on " in text
    tasks = live_platform.operator.items(f"/jobs/{job['id']}/tasks")
    assert {(task["role"], len(task["gpus"])) for task in tasks} == {("simulator", 0), ("learner", 1)}


@pytest.mark.capability("16", "Tasks of a job go to one another by ssh without a password, and a job of others does not")
def test_tasks_of_a_job_go_to_one_another_by_ssh(live_platform: LivePlatform) -> None:
    """Another tenant's job, whose tasks have the same names, knows where a server is and has no key for it."""
    other = live_platform.person("olga", tenant="other")
    first = "test $BERTH_INDEX = 1 || ssh worker-1 id -un; exec sleep 600"
    job = live_platform.submit({"roles": {"worker": a_role(first, replicas=2)}, "ssh": True})
    live_platform.operator.wait_for_line(job, "berth-")
    tasks = live_platform.operator.items(f"/jobs/{job['id']}/tasks")
    port = next(task["ports"]["berth-ssh"] for task in tasks if task["index"] == 1)
    knock = f"ssh -p {port} 127.0.0.1 true"
    stranger = other.submit({"roles": {"worker": a_role(knock)}, "ssh": True}, wait=True)
    assert (stranger["state"], stranger["exit"]["code"]) == ("failed", 255), other.logs(stranger)
    live_platform.operator.stop(job)
    live_platform.wait(job)
