from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from jobs import bounds
from jobs.frameworks import framework_names, get_framework
from jobs.frameworks.environment import CONTRACT, environment_markdown
from jobs.spec import FRAMEWORKS
from tests.unit.frameworks.resolving import a_job, a_role, environment_of, text_of

ROOT = Path(__file__).parents[3]


def a_full_job():
    return a_job(
        a_role("worker", 2, ports=("metrics", "tensor-board"), gpu_millis=2000),
        a_role("data-loader", 1, env={"THREADS": "4"}),
        env={"SEED": "7"},
        checkpoint_dir=("/ckpt",),
        array_index=3,
        array_size=10,
        tenant="vision",
        queue="vision/nightly",
        user="alice",
    )


def patterns_of(names: set[str], roles: tuple[str, ...], ports: tuple[str, ...]) -> set[str]:
    """Replace role and port parts by the marks that the contract uses."""
    marked = set()
    for name in names:
        for role in roles:
            name = re.sub(rf"^BERTH_{role}_(COUNT|HOSTS|PORTS)", r"BERTH_<ROLE>_\1", name)
        for port in ports:
            name = re.sub(rf"_(PORTS?)_{port}$", r"_\1_<PORT>", name)
        marked.add(name)
    return marked


def test_the_specs_list_of_frameworks_is_the_registry():
    assert framework_names() == FRAMEWORKS


@pytest.mark.capability("85", "The environment contract is documented and is what is set")
def test_every_task_finds_exactly_the_variables_of_the_contract():
    plan = get_framework("none").compile(a_full_job())
    for task in plan.tasks:
        names = {name for name in task.env if name.startswith("BERTH_")}
        found = patterns_of(names, ("WORKER", "DATA_LOADER"), ("METRICS", "TENSOR_BOARD"))
        documented = {variable.name for variable in CONTRACT}
        assert found == documented - (set() if task.ports else {"BERTH_PORT_<PORT>"})


def test_a_job_without_array_and_checkpoint_has_no_variables_of_them():
    [task] = get_framework("none").compile(a_job(a_role("worker", 1))).tasks
    assert not {name for name in task.env if "ARRAY" in name or "CHECKPOINT" in name}


def test_values_are_those_of_the_task():
    plan = get_framework("none").compile(a_full_job())
    worker = environment_of(plan.tasks[2])
    assert str(plan.tasks[2].name) == "worker-1"
    assert worker["BERTH_ROLES"] == "data-loader,worker"
    assert (worker["BERTH_ROLE"], worker["BERTH_INDEX"], worker["BERTH_RANK"], worker["BERTH_WORLD_SIZE"]) == (
        "worker",
        "1",
        "2",
        "3",
    )
    assert worker["BERTH_WORKER_HOSTS"] == "worker-0.test,worker-1.test"
    assert worker["BERTH_WORKER_PORTS_TENSOR_BOARD"] == "<tensor-board>,<tensor-board>"
    assert worker["BERTH_PORT_METRICS"] == "<metrics>"
    assert worker["BERTH_HOST"] == "worker-1.test"
    assert worker["BERTH_CHECKPOINT_DIR"] == "/ckpt"
    assert (worker["BERTH_ARRAY_INDEX"], worker["BERTH_ARRAY_SIZE"]) == ("3", "10")
    assert worker["SEED"] == "7"
    assert "THREADS" not in worker
    assert environment_of(plan.tasks[0])["THREADS"] == "4"


def test_the_chief_role_ranks_first_and_the_order_in_the_document_means_nothing():
    roles = (a_role("alpha", 1), a_role("zeta", 1), a_role("beta", 1))
    names = [str(task.name) for task in get_framework("none").compile(a_job(*roles, chief="zeta")).tasks]
    assert names == ["zeta-0", "alpha-0", "beta-0"]
    backwards = [str(task.name) for task in get_framework("none").compile(a_job(*reversed(roles), chief="zeta")).tasks]
    assert backwards == names


def test_the_hosts_file_has_a_line_for_every_task():
    plan = get_framework("none").compile(a_full_job())
    assert text_of(plan.files["berth-hosts"]) == (
        "0 data-loader 0 data-loader-0.test\n1 worker 0 worker-0.test\n2 worker 1 worker-1.test\n"
    )


def test_a_users_text_is_never_looked_into():
    text = "${HOME} {BERTH_HOST} %(x)s {{ 7*7 }} <% $secrets.x %> $(id) `id`\n"
    plan = get_framework("none").compile(a_job(a_role("worker", 1, text), env={"X": text}))
    assert plan.tasks[0].env["X"] == (text,)
    assert plan.tasks[0].argv == ((text,),)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_ten_thousand_tasks_compile_in_seconds_and_share_what_is_common(name):
    heads = {
        "mxnet": ("scheduler", "server"),
        "tensorflow": ("ps",),
        "ray": ("head",),
        "dask": ("scheduler",),
        "queue": ("dispatcher",),
        "mapreduce": ("map", "reduce"),
    }
    first_roles = heads.get(name, ("launcher",))
    most = bounds.TENSORFLOW_TASKS if name == "tensorflow" else bounds.REPLICAS
    roles = [a_role(first, 1) for first in first_roles]
    began = time.process_time()
    plan = get_framework(name).compile(a_job(*roles, a_role("worker", most - len(roles), env={"A": "b"})))
    assert len(plan.tasks) == most
    assert time.process_time() - began < 10
    first, last = plan.tasks[len(roles)].env, plan.tasks[-1].env
    assert all(first[key] is last[key] for key in ("BERTH_JOB_ID", "BERTH_ROLES", "BERTH_WORLD_SIZE"))
    assert (
        name == "tensorflow" or "BERTH_WORKER_HOSTS" not in first
    )  # Linux refuses one variable of more than 128 KiB; the file has them all.


def test_lists_of_hosts_are_shared_too():
    plan = get_framework("none").compile(a_job(a_role("worker", bounds.HOSTS_IN_ENV)))
    assert plan.tasks[0].env["BERTH_WORKER_HOSTS"] is plan.tasks[-1].env["BERTH_WORKER_HOSTS"]


@pytest.mark.capability("85", "The environment contract is documented and is what is set")
def test_the_document_is_the_contract():
    assert (ROOT / "docs" / "environment.md").read_text(encoding="utf-8") == environment_markdown(
        map(get_framework, framework_names())
    )
