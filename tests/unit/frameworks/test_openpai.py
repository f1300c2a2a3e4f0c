"""Framework openpai: every task finds all that OpenPAI's runtime tells, spelled as there."""

from __future__ import annotations

import re
from pathlib import Path

from jobs import bounds
from jobs.frameworks import get_framework
from tests.unit.frameworks.resolving import a_job, a_role, environment_of

PAGE = Path(__file__).parents[3] / "jobs" / "frameworks" / "openpai.md"
SPELLED = {"PAI_CURRENT_TASK_ROLE_NAME": "Task_Role", "PAI_CONTAINER_HOST_PORT_LIST": "SynPort:synport,synport-1;tb:tb"}
# OpenPAI's manual, and what its runtime sets beside that for older jobs.
DOCUMENTED = """
PAI_JOB_NAME PAI_USER_NAME PAI_TASK_ROLE_COUNT PAI_TASK_ROLE_LIST PAI_TASK_ROLE_TASK_COUNT_Task_Role
PAI_TASK_ROLE_TASK_COUNT_ps PAI_HOST_IP_Task_Role_0 PAI_HOST_IP_Task_Role_1 PAI_HOST_IP_ps_0 PAI_PORT_LIST_Task_Role_1_SynPort
PAI_PORT_LIST_Task_Role_0_tb PAI_PORT_LIST_ps_0_http PAI_RESOURCE_Task_Role PAI_RESOURCE_ps PAI_MIN_FAILED_TASK_COUNT_ps
PAI_MIN_SUCCEEDED_TASK_COUNT_Task_Role PAI_CURRENT_TASK_ROLE_NAME PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX
PAI_CURRENT_CONTAINER_IP PAI_CURRENT_CONTAINER_PORT PAI_CONTAINER_HOST_IP PAI_CONTAINER_HOST_PORT PAI_CONTAINER_SSH_PORT
PAI_CONTAINER_HOST_PORT_LIST PAI_TASK_ROLE_Task_Role_HOST_LIST PAI_Task_Role_0_SynPort_PORT PAI_Task_Role_1_ssh_PORT
PAI_TASK_ROLE_INSTANCES PAI_TASK_INDEX PAI_JOB_TASK_COUNT PAI_JOB_TASK_ROLE_COUNT PAI_JOB_TASK_ROLE_LIST
PAI_CURRENT_TASK_ROLE_TASK_COUNT PAI_CURRENT_TASK_ROLE_CPU_COUNT PAI_CURRENT_TASK_ROLE_MEM_MB PAI_CURRENT_TASK_ROLE_SHM_MB
PAI_CURRENT_TASK_ROLE_GPU_COUNT PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT
"""


def plan():
    worker = a_role(
        "task-role", 2, ports=("synport", "synport-1", "tb"), env=SPELLED, gpu_millis=2000, cpu_millis=3000, memory_bytes=2**30
    )
    return get_framework("openpai").compile(a_job(worker, a_role("ps", 1, min_failed=None, min_succeeded=1), user="alice"))


def test_every_task_has_the_documented_set():
    for task in plan().tasks:
        assert [name for name in DOCUMENTED.split() if name not in task.env] == []


def test_values_are_those_of_the_placement():
    ps, first, second = (environment_of(task) for task in plan().tasks)
    for task in (ps, first, second):
        assert task["PAI_TASK_ROLE_LIST"] == "ps,Task_Role"
        assert task["PAI_TASK_ROLE_INSTANCES"] == "ps:0,Task_Role:0,Task_Role:1"
        assert task["PAI_HOST_IP_Task_Role_1"] == "task-role-1.test"
        assert task["PAI_PORT_LIST_Task_Role_1_SynPort"] == task["PAI_Task_Role_1_SynPort_PORT"] == "<synport>,<synport-1>"
        assert task["PAI_RESOURCE_Task_Role"] == "2,3,1024,512"
        assert (task["PAI_MIN_FAILED_TASK_COUNT_ps"], task["PAI_MIN_SUCCEEDED_TASK_COUNT_ps"]) == ("-1", "1")
        assert task["PAI_TASK_ROLE_Task_Role_HOST_LIST"] == "task-role-0.test:<berth-http>,task-role-1.test:<berth-http>"
    assert [second["PAI_CURRENT_TASK_ROLE_NAME"], second["PAI_TASK_INDEX"], ps["PAI_TASK_INDEX"]] == ["Task_Role", "1", "0"]
    assert second["PAI_CONTAINER_HOST_PORT_LIST"] == "SynPort:<synport>,<synport-1>;tb:<tb>;ssh:<berth-ssh>;http:<berth-http>;"
    assert second["PAI_CONTAINER_HOST_SynPort_PORT_LIST"] == "<synport>,<synport-1>"
    assert (second["PAI_CURRENT_CONTAINER_IP"], second["PAI_CONTAINER_SSH_PORT"]) == ("task-role-1.test", "<berth-ssh>")
    assert plan().tasks[0].ports == ("berth-http", "berth-ssh")


def test_names_are_such_that_a_shell_takes():
    role = a_role("my-role", 1, ports=("a-b",), env={"PAI_CURRENT_TASK_ROLE_NAME": "my-role"})
    env = environment_of(get_framework("openpai").compile(a_job(role)).tasks[0])
    assert [name for name in env if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)] == []
    assert (env["PAI_my_role_0_a_b_PORT"], env["PAI_CURRENT_TASK_ROLE_NAME"]) == ("<a-b>", "my-role")


def test_a_jobs_own_variables_come_before():
    role = a_role("w", 1, env={"PAI_USER_NAME": "mei"})
    assert environment_of(get_framework("openpai").compile(a_job(role, user="alice")).tasks[0])["PAI_USER_NAME"] == "mei"


def test_the_page_says_all_names():
    page = PAGE.read_text(encoding="utf-8")
    [task] = get_framework("openpai").compile(a_job(a_role("role", 1, ports=("port",)))).tasks
    marks = {"_role": "_$role", "_0": "_$index", "_port": "_$port"}
    for name in sorted(name for name in task.env if name.startswith("PAI_")):
        shown = re.sub(r"_(role|0|port|http|ssh)(?=_|$)", lambda match: marks.get(match[0], "_$port"), name)
        ending = "..." + shown.removeprefix("PAI_CURRENT_TASK_ROLE")
        assert f"`{name}`" in page or f"`{shown}`" in page or f"`{ending}`" in page, name
    assert str(bounds.OPENPAI_HOSTS_IN_ENV) in page
