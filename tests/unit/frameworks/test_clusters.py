"""What the tasks of Ray and Dask clusters are told. `tests/frameworks` runs them."""

from __future__ import annotations

import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from jobs.frameworks import RoleShape, TaskPlan, get_framework
from jobs.frameworks.headed import NOTHING
from tests.unit.frameworks.resolving import a_job, a_role, environment_of

MIB = 1024**2
KEY = "0123456789abcdef" * 2
NODE_PORTS = ("berth-node", "berth-objects", "berth-agent", "berth-agent-rpc", "berth-env", "berth-metrics")
HEAD_PORTS = ("berth-gcs", "berth-client", "berth-page", "berth-page-mon", "berth-scale-mon")
HEADS = {"ray": "head", "dask": "scheduler"}


def planned(framework: str, *roles, **more: object) -> dict[str, TaskPlan]:
    plan = get_framework(framework).compile(a_job(*roles, key=KEY, **more))
    return {str(task.name): task for task in plan.tasks}


def a_head(framework: str, *argv: str, **more: object):
    return a_role(HEADS[framework], 1, *(argv or ("python3", "program.py")), **more)


def workers(count: int, name: str = "worker", *argv: str, **more: object):
    return a_role(name, count, *(argv or (NOTHING,)), **more)


def plan_of(task: TaskPlan) -> dict:
    return json.loads(environment_of(task)["BERTH_TASK_PLAN"])


def joined(parts: list) -> str:
    return "".join(part if isinstance(part, str) else f"<{':'.join(*part.items())}>" for part in parts)


def command_of(task: TaskPlan) -> list[str]:
    return [joined(parts) for parts in plan_of(task)["argv"]]


def service_of(task: TaskPlan) -> list[str]:
    [service] = plan_of(task)["services"]
    return [joined(parts) for parts in service["argv"]]


# --- Both ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framework", HEADS)
def test_a_cluster_has_one_head_and_workers_of_any_name(framework):
    validate, head = get_framework(framework).validate, HEADS[framework]

    def shapes(**counts):
        return {name: RoleShape(count, count, 0, (), 1024 * MIB) for name, count in counts.items()}

    assert validate(shapes(**{head: 1})) == []
    assert validate(shapes(**{head: 1, "learner": 2, "rollout": 100})) == []
    [missing] = validate(shapes(worker=2))
    assert (missing.code, missing.path) == ("role_missing", "/roles")
    [several] = validate(shapes(**{head: 2, "worker": 2}))
    assert (several.code, several.path) == ("role_single", f"/roles/{head}/replicas")


@pytest.mark.parametrize("framework", HEADS)
def test_workers_start_after_the_head_and_the_program_after_the_workers(framework):
    head, learner, rollout = planned(
        framework, a_head(framework), workers(1, "learner"), workers(1, "rollout", "sh", "prepare.sh")
    ).values()
    assert plan_of(head)["before"] == ["learner", "rollout"]
    assert command_of(head) == ["python3", "program.py"]
    assert [plan_of(task)["after"] for task in (learner, rollout)] == [[HEADS[framework]]] * 2
    assert [plan_of(task)["max_retry"] for task in (learner, rollout)] == [3, 3]
    assert [plan_of(task).get("prepare") for task in (learner, rollout)] == [None, [["sh"], ["prepare.sh"]]]


@pytest.mark.parametrize("framework", HEADS)
def test_a_head_without_a_command_serves(framework):
    head = planned(framework, a_head(framework, NOTHING), workers(1))[f"{HEADS[framework]}-0"]
    assert command_of(head) == []
    assert get_framework(framework).completion([HEADS[framework], "worker"]).chief == HEADS[framework]


@pytest.mark.parametrize("framework", HEADS)
def test_what_a_cluster_sets_is_reserved(framework):
    plain = planned("none", a_head(framework), workers(1)).values()
    common = {name for task in plain for name in task.env} | {"BERTH_TASK_PLAN", "BERTH_READY_FILE"}
    tasks = planned(framework, a_head(framework), workers(1)).values()
    names = {name for task in tasks for name in (*task.env, *task.secret_env, *plan_of(task).get("env", {}))}
    assert names - common == get_framework(framework).reserved_env


@pytest.mark.parametrize("framework", HEADS)
def test_the_secret_of_a_cluster_stands_in_no_plan(framework):
    plan = get_framework(framework).compile(a_job(a_head(framework), workers(1), key=KEY))
    assert KEY not in repr(plan)
    assert "PRIVATE KEY" not in repr(plan)


# --- Ray -------------------------------------------------------------------------------------------------------------


def test_the_head_of_ray_has_ports_of_its_own_for_all_that_listens():
    head = planned("ray", a_head("ray", memory_bytes=2048 * MIB, shm_bytes=256 * MIB), workers(1))["head-0"]
    assert head.ports == (*NODE_PORTS, *HEAD_PORTS, "berth-ready")
    assert service_of(head) == [
        *("ray", "start", "--block", "--node-ip-address=<address:head-0.test>"),
        *("--node-manager-port=<berth-node>", "--object-manager-port=<berth-objects>"),
        *("--dashboard-agent-listen-port=<berth-agent>", "--dashboard-agent-grpc-port=<berth-agent-rpc>"),
        *("--runtime-env-agent-port=<berth-env>", "--metrics-export-port=<berth-metrics>"),
        *("--port=<berth-gcs>", "--ray-client-server-port=<berth-client>", "--dashboard-port=<berth-page>"),
        *("--temp-dir=<scratch:ray>", "--num-cpus=1", "--num-gpus=0", '--resources={"head": 1}'),
        *(f"--object-store-memory={int(256 * MIB * 0.95)}", f"--memory={2048 * MIB - int(256 * MIB * 0.95)}"),
        *("--head", "--include-dashboard=false"),
    ]
    assert plan_of(head)["services"][0]["port"] == "<berth-gcs>"
    assert plan_of(head)["loopback"] == "127.0.0.2"
    environment = environment_of(head)
    assert (environment["DASHBOARD_METRIC_PORT"], environment["AUTOSCALER_METRIC_PORT"]) == (
        "<berth-page-mon>",
        "<berth-scale-mon>",
    )


def test_a_driver_of_ray_finds_address_and_token():
    for task in planned("ray", a_head("ray"), workers(1)).values():
        assert environment_of(task)["RAY_ADDRESS"] == "head-0.test:<berth-gcs>"
        assert joined(plan_of(task)["env"]["RAY_ADDRESS"]) == "<address:head-0.test>:<berth-gcs>"
        assert (environment_of(task)["RAY_AUTH_MODE"], environment_of(task)["RAY_USAGE_STATS_ENABLED"]) == ("token", "0")
        assert task.secret_env == {"RAY_AUTH_TOKEN": KEY}


def test_a_worker_of_ray_joins_with_what_its_role_asked_for():
    role = workers(1, "learner", gpu_millis=2500, cpu_millis=4500, memory_bytes=4096 * MIB)
    worker = planned("ray", a_head("ray"), role)["learner-0"]
    assert worker.ports == (*NODE_PORTS, "berth-ready")
    options = command_of(worker)
    assert options[-1] == "--address=<address:head-0.test>:<berth-gcs>"
    assert {"--num-cpus=4", "--num-gpus=2", '--resources={"learner": 1}'} < set(options)
    assert f"--object-store-memory={int(4096 * MIB * 0.3)}" in options
    assert "--head" not in options


@pytest.mark.parametrize(("millis", "others", "cpus"), [(500, 1, 0), (500, 0, 1), (2500, 1, 2)])
def test_a_head_of_less_than_a_core_runs_tasks_only_where_it_is_alone(millis, others, cpus):
    roles = [workers(1)] * others
    head = planned("ray", a_head("ray", cpu_millis=millis), *roles)["head-0"]
    assert f"--num-cpus={cpus}" in service_of(head)


def test_a_node_of_ray_with_less_memory_than_its_services_take_is_refused():
    shapes = {"head": RoleShape(1, 1, 0, (), 1024 * MIB), "worker": RoleShape(2, 2, 0, (), 512 * MIB)}
    [error] = get_framework("ray").validate(shapes)
    assert (error.code, error.path) == ("role_memory", "/roles/worker/resources/memory")


def test_an_object_store_is_never_smaller_than_ray_takes():
    head = planned("ray", a_head("ray", memory_bytes=100 * MIB), workers(1))["head-0"]
    assert f"--object-store-memory={80 * MIB}" in service_of(head)


# --- Dask ------------------------------------------------------------------------------------------------------------


def test_the_scheduler_of_dask_listens_on_its_own_address_and_ports():
    scheduler = planned("dask", a_head("dask"), workers(1))["scheduler-0"]
    assert scheduler.ports == ("berth-dask", "berth-page", "berth-ready")
    assert service_of(scheduler) == [
        *("dask", "scheduler", "--protocol=tls", "--host=<address:scheduler-0.test>"),
        *("--dashboard-address=<address:scheduler-0.test>:<berth-page>", "--port=<berth-dask>"),
    ]
    assert environment_of(scheduler)["DASK_SCHEDULER_ADDRESS"] == "tls://scheduler-0.test:<berth-dask>"


def test_a_worker_of_dask_joins_with_what_its_role_asked_for():
    role = workers(1, "big", gpu_millis=2000, cpu_millis=4500, memory_bytes=4096 * MIB)
    options = command_of(planned("dask", a_head("dask"), role)["big-0"])
    assert options[:3] == ["dask", "worker", "tls://<address:scheduler-0.test>:<berth-dask>"]
    assert {
        *("--host=<address:big-0.test>", "--worker-port=<berth-dask>", "--local-directory=<scratch:dask>"),
        *("--nthreads=4", f"--memory-limit={4096 * MIB}", "--resources=big=1 GPU=2", "--death-timeout=60", "--no-nanny"),
    } < set(options)


def test_all_tasks_of_an_attempt_have_one_certificate_and_its_key_and_other_attempts_another():
    first, second = planned("dask", a_head("dask"), workers(1)).values()
    again = planned("dask", a_head("dask"), workers(1))["worker-0"]
    assert first.secret_env == second.secret_env == again.secret_env
    trusted = environment_of(first)["DASK_DISTRIBUTED__COMM__TLS__CA_FILE"]
    own = first.secret_env["DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT"]
    assert own.startswith(trusted)
    certificate = x509.load_pem_x509_certificate(trusted.encode())
    certificate.verify_directly_issued_by(certificate)
    assert load_pem_private_key(own.removeprefix(trusted).encode(), None).public_key() == certificate.public_key()
    other = get_framework("dask").compile(a_job(a_head("dask"), workers(1), key="f" * 32)).tasks[0]
    assert other.secret_env != first.secret_env
