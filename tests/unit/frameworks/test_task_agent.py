"""What runs around the command of a task, as real processes without a platform."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jobs.frameworks import GangPlan, ReadyCheck
from jobs.frameworks.agent import gang
from jobs.frameworks.environment import lay_out
from jobs.frameworks.task_run import OwnVariable, Requirement, Scratch, Service, TaskRun, WorkFolder
from tests.unit.frameworks.gangs import running
from tests.unit.frameworks.resolving import a_job, a_role, environment_of, run, text_of

pytestmark = pytest.mark.engines

LISTEN = """
import os, socket
server = socket.create_server(("127.0.0.1", int(os.environ["BERTH_PORT_WEB"])))
while True:
    server.accept()[0].close()
"""


def planned(*roles, run_of=lambda rank, role, index: TaskRun(), **more) -> GangPlan:
    return gang(lay_out(a_job(*roles, **more)), run_of)


def results_of(plan: GangPlan, folder: Path) -> dict[str, tuple[int, str]]:
    return {str(name): result for name, result in run(plan, folder).items()}


def test_a_task_without_rules_is_its_command_alone():
    plan = planned(a_role("worker", 2, "train"))
    assert [task.argv for task in plan.tasks] == [(("train",),), (("train",),)]
    assert set(plan.files) == {"berth-hosts"}
    assert not {name for task in plan.tasks for name in environment_of(task) if name.startswith("BERTH_TASK")}


def test_a_failed_command_is_started_again_alone_as_often_as_the_role_says(tmp_path):
    counting = "echo try >>tries; test $(wc -l <tries) -eq 3"
    plan = planned(a_role("map", 2, "sh", "-c", counting, max_retry=2), a_role("other", 1))
    results = results_of(plan, tmp_path)
    assert [code for code, _ in results.values()] == [0, 0, 0]
    assert "berth: the command ended with code 1; it is started again (2 of 2)" in results["map-0"][1]
    plan = planned(a_role("map", 1, "sh", "-c", "kill -9 $$", max_retry=1))
    (tmp_path / "again").mkdir()
    code, output = results_of(plan, tmp_path / "again")["map-0"]
    assert (code, output.count("started again")) == (-signal.SIGKILL, 1)


def test_nothing_of_a_failed_try_outlives_it(tmp_path):
    """A child in a session of its own, whose parent is gone, would be there twice after the next try."""
    script = "test -e pid && { kill -0 $(cat pid) 2>/dev/null && exit 9; exit 0; }; setsid sleep 600 & echo $! >pid; exit 1"
    plan = planned(a_role("worker", 1, "sh", "-c", script, max_retry=1))
    code, output = results_of(plan, tmp_path)["worker-0"]
    assert code == 0, output


@pytest.mark.parametrize(
    ("ready", "server"),
    [
        (ReadyCheck(port="web"), [sys.executable, "-c", LISTEN]),
        (ReadyCheck(log="now serving"), ["sh", "-c", "echo it is now serving; touch served; exec sleep 600"]),
        (
            ReadyCheck(port="web", path="/tree"),
            ["sh", "-c", "mkdir tree; exec python3 -m http.server -b 127.0.0.1 $BERTH_PORT_WEB"],
        ),
    ],
)
def test_a_role_starts_when_the_tasks_of_another_are_ready(tmp_path, ready, server):
    """Once the client's command has started, each server answers or has said so; the servers run until they are ended."""
    plan = planned(
        a_role("server", 2, *server, ports=("web",), ready=ready),
        a_role("client", 1, "echo", "all there", start_after_ready=("server",)),
    )
    with running(plan, tmp_path) as gang:
        assert (gang.end_of("client-0"), gang.log("client-0")) == (0, "all there\n")
        assert gang.processes["server-0"].poll() is None
        if ready.log:
            assert (tmp_path / "server-1" / "served").exists()


def test_a_task_that_is_not_ready_in_time_says_so_and_ends(tmp_path):
    role = a_role("server", 1, "sleep", "600", ports=("web",), ready=ReadyCheck(port="web", seconds=1))
    code, output = results_of(planned(role), tmp_path)["server-0"]
    assert (code, output) == (75, "berth: not ready after 1 s: this task\n")


def test_a_package_that_is_not_in_the_image_is_named_with_what_to_install(tmp_path):
    absent = Requirement("numpie", "pip install numpie", module="numpie_is_not_there")
    there = Requirement("json", "pip install json", module="json")
    plan = planned(a_role("worker", 1, "true"), run_of=lambda *_: TaskRun(requires=(absent, there)))
    assert results_of(plan, tmp_path)["worker-0"] == (
        1,
        "berth: not installed in the image: numpie. Add it: pip install numpie\n",
    )


def test_a_package_that_a_variable_of_the_image_names_is_not_looked_for(tmp_path):
    absent = Requirement("numpie", "pip install numpie", module="numpie_is_not_there", variable="NUMPIE_HOME")
    job = a_role("worker", 1, "echo", "there", env={"NUMPIE_HOME": "/opt/numpie"})
    assert results_of(planned(job, run_of=lambda *_: TaskRun(requires=(absent,))), tmp_path)["worker-0"] == (0, "there\n")


def test_a_folder_for_outputs_is_made_in_the_working_directory(tmp_path):
    """Said as an absolute path, so that a command that changes its directory finds it."""
    run = TaskRun(extra_env={"EVENTS": (WorkFolder("events"),)})
    plan = planned(a_role("driver", 1, "sh", "-c", "cd / && echo kept >$EVENTS/log"), run_of=lambda *_: run)
    assert results_of(plan, tmp_path)["driver-0"] == (0, "")
    assert (tmp_path / "driver-0" / "events" / "log").read_text() == "kept\n"


def test_a_service_runs_beside_the_command_and_ends_with_it(tmp_path):
    service = Service("web", ((sys.executable,), ("-c",), (LISTEN,)), "web")
    look = "import os, socket; socket.create_connection(('127.0.0.1', int(os.environ['BERTH_PORT_WEB'])))"
    plan = planned(
        a_role("head", 1, "sh", "-c", f'{sys.executable} -c "{look}" && cat $PLACE/conf && exit 3', ports=("web",)),
        run_of=lambda *_: TaskRun(
            services=(service,),
            secret=True,
            extra_env={"PLACE": (Scratch("etc"),)},
            files={"etc/conf": ("key ", OwnVariable("BERTH_ATTEMPT_KEY"), "\n")},
        ),
    )
    assert results_of(plan, tmp_path)["head-0"] == (3, f"key {'k' * 32}\n")
    assert "k" * 32 not in repr(plan)


def test_a_program_that_refuses_the_usual_loopback_is_looked_for_where_it_listens(tmp_path):
    service = Service("web", ((sys.executable,), ("-c",), (LISTEN.replace("127.0.0.1", "127.0.0.2"),)), "web")
    plan = planned(
        a_role("head", 1, "echo", "up", ports=("web",)), run_of=lambda *_: TaskRun(services=(service,), loopback="127.0.0.2")
    )
    assert results_of(plan, tmp_path)["head-0"] == (0, "up\n")


def test_a_command_whose_service_ends_fails(tmp_path):
    service = Service("scheduler", (("sh",), ("-c",), ("sleep 0.2; exit 4",)))
    plan = planned(a_role("head", 1, "sleep", "600"), run_of=lambda *_: TaskRun(services=(service,)))
    assert results_of(plan, tmp_path)["head-0"] == (4, "berth: scheduler ended with code 4, and the command with it\n")


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("trap 'echo saved; exit 0' TERM; mkfifo f; exec 9<>f; echo up; while :; do read -t 1 line <&9; done", 0),
        ("echo up; exec sleep 600", -signal.SIGTERM),
    ],
)
def test_a_stop_reaches_the_command_and_is_no_failure_to_try_again(tmp_path, script, code):
    plan = planned(a_role("worker", 1, "bash", "-c", script, max_retry=5))
    task = plan.tasks[0]
    for name, text in plan.files.items():
        (tmp_path / name).write_text(text_of(text, folder=tmp_path))
    process = subprocess.Popen(
        [text_of(argument, folder=tmp_path) for argument in task.argv],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", **environment_of(task)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    killer = threading.Timer(60, process.kill)
    killer.start()
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        if code == 0:  # An engine gives it to all processes that handle it, and so not to one that does not.
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert (process.wait(), rest) == (code, "saved\n" if code == 0 else "")
    finally:
        killer.cancel()
        process.stdout.close()
