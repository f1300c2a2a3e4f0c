from __future__ import annotations

import json
import shutil
import sys

import pytest

from clusters.engines.interface import AddressOf, PortOf
from jobs.frameworks import RoleShape, get_framework
from jobs.frameworks.mpi import slots_of
from tests.unit.frameworks.resolving import a_job, a_role, environment_of, run, text_of


def chosen(task, *names):
    environment = environment_of(task)
    return {name: environment[name] for name in names}


# --- jax -------------------------------------------------------------------------------------------------------------


def test_jax_names_one_coordinator_and_numbers_the_processes():
    plan = get_framework("jax").compile(a_job(a_role("worker", 3)))
    assert [chosen(task, "JAX_PROCESS_ID")["JAX_PROCESS_ID"] for task in plan.tasks] == ["0", "1", "2"]
    for task in plan.tasks:
        assert chosen(task, "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES") == {
            "JAX_COORDINATOR_ADDRESS": "worker-0.test:<berth-jax>",
            "JAX_NUM_PROCESSES": "3",
        }
    assert [task.ports for task in plan.tasks] == [("berth-jax",), (), ()]


# --- pytorch ---------------------------------------------------------------------------------------------------------


@pytest.mark.capability("74", "Ranks are right for N tasks with M GPUs, in both ways of starting")
@pytest.mark.parametrize(("tasks", "gpus"), [(1, 0), (1, 8), (2, 0), (2, 1), (2, 4), (3, 2)])
def test_pytorch_ranks_n_tasks_of_m_gpus_for_both_ways_of_starting(tasks, gpus):
    plan = get_framework("pytorch").compile(a_job(a_role("worker", tasks, gpu_millis=gpus * 1000)))
    for rank, task in enumerate(plan.tasks):
        names = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        assert chosen(task, *names) == {
            "MASTER_ADDR": "worker-0.test",
            "MASTER_PORT": "<berth-torch>",
            "RANK": str(rank),
            "WORLD_SIZE": str(tasks),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
        }
        names = ("PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NPROC_PER_NODE")
        assert chosen(task, *names) == {
            "PET_NNODES": str(tasks),
            "PET_NODE_RANK": str(rank),
            "PET_MASTER_ADDR": "worker-0.test",
            "PET_MASTER_PORT": "<berth-torch>",
            "PET_NPROC_PER_NODE": str(max(1, gpus)),
        }


def test_the_master_of_several_roles_is_the_chief():
    plan = get_framework("pytorch").compile(a_job(a_role("evaluator", 1), a_role("master", 1), chief="master"))
    assert plan.tasks[0].env["MASTER_ADDR"] == (AddressOf("master", 0),)
    assert plan.tasks[1].env["MASTER_PORT"] == (PortOf("master", 0, "berth-torch"),)
    assert chosen(plan.tasks[1], "RANK", "WORLD_SIZE") == {"RANK": "1", "WORLD_SIZE": "2"}


@pytest.mark.parametrize("name", ["jax", "pytorch"])
def test_what_a_framework_sets_is_what_it_reserves(name):
    framework = get_framework(name)
    plain = get_framework("none").compile(a_job(a_role("worker", 2)))
    plan = framework.compile(a_job(a_role("worker", 2)))
    assert set(plan.tasks[0].env) - set(plain.tasks[0].env) == framework.reserved_env


@pytest.mark.capability("96", "Ranks and world size count processes: 4 cards with 3 processes each are 12 ranks")
def test_processes_that_share_gpus_are_ranks():
    roles = (a_role("master", 1), a_role("worker", 2, gpu_millis=4000, processes_per_gpu=3))
    plan = get_framework("pytorch").compile(a_job(*roles, chief="master"))
    plans = [json.loads(environment_of(task)["BERTH_TASK_PLAN"]) if "BERTH_TASK_PLAN" in task.env else {} for task in plan.tasks]
    ranks = [[own["RANK"] for own in of_task.get("processes", ())] for of_task in plans]
    assert ranks == [["0"], [str(rank) for rank in range(1, 13)], [str(rank) for rank in range(13, 25)]]
    processes = [own for of_task in plans for own in of_task["processes"]]
    assert {own["WORLD_SIZE"] for own in processes} == {"25"}
    assert {own["BERTH_GPU_MEMORY_FRACTION"] for own in plans[1]["processes"]} == {"0.3000"}


# --- mpi -------------------------------------------------------------------------------------------------------------


def a_shape(replicas: int = 1) -> RoleShape:
    return RoleShape(replicas, replicas, 0, ())


def test_mpi_with_a_launcher_runs_its_command_there_and_ranks_elsewhere():
    job = a_job(a_role("worker", 2, "sh", "prepare.sh", gpu_millis=4000), a_role("launcher", 1, "mpirun", "./solve"))
    plan = get_framework("mpi").compile(job)
    assert [str(task.name) for task in plan.tasks] == ["launcher-0", "worker-0", "worker-1"]
    assert [text_of(part) for part in plan.tasks[0].argv[2:]] == ["launch", "--", "mpirun", "./solve"]
    assert [text_of(part) for part in plan.tasks[1].argv[2:]] == ["serve", "--", "sh", "prepare.sh"]
    assert [task.ports for task in plan.tasks] == [(), ("berth-mpi",), ("berth-mpi",)]
    assert text_of(plan.files["berth-mpi-hostfile"]) == "worker-0 slots=4\nworker-1 slots=4\n"
    assert text_of(plan.files["berth-mpi-hosts"]) == (
        "worker-0 4 worker-0.test <berth-mpi>\nworker-1 4 worker-1.test <berth-mpi>\n"
    )


def test_mpi_with_one_role_launches_from_its_first_task():
    plan = get_framework("mpi").compile(a_job(a_role("worker", 2, "mpirun", "./solve")))
    assert [text_of(part) for part in plan.tasks[0].argv[2:]] == ["both", "--", "mpirun", "./solve"]
    assert [text_of(part) for part in plan.tasks[1].argv[2:]] == ["serve", "--", "true"]


def test_the_key_of_an_mpi_job_travels_as_a_secret_only():
    plan = get_framework("mpi").compile(a_job(a_role("worker", 2), key="hidden-key"))
    assert all(task.secret_env == {"BERTH_ATTEMPT_KEY": "hidden-key"} for task in plan.tasks)
    assert "hidden-key" not in repr(plan)


@pytest.mark.parametrize(("gpu_millis", "cpu_millis", "slots"), [(0, 500, 1), (0, 4000, 4), (2000, 16_000, 2), (500, 8000, 8)])
def test_slots_are_gpus_else_cores(gpu_millis, cpu_millis, slots):
    assert slots_of(a_role("worker", 1, gpu_millis=gpu_millis, cpu_millis=cpu_millis)) == slots


@pytest.mark.parametrize(
    ("roles", "code"),
    [
        ({"worker": a_shape(4)}, None),
        ({"launcher": a_shape(), "worker": a_shape(4)}, None),
        ({"launcher": a_shape(), "fast": a_shape(2), "slow": a_shape(2)}, None),
        ({"fast": a_shape(), "slow": a_shape()}, "mpi_launcher"),
        ({"launcher": a_shape(2), "worker": a_shape()}, "mpi_launcher"),
        ({"launcher": a_shape()}, "mpi_workers"),
    ],
)
def test_the_shapes_that_mpi_takes(roles, code):
    assert [error.code for error in get_framework("mpi").validate(roles)] == ([code] if code else [])


needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI (openmpi-bin) is not installed")


@pytest.mark.capability("75", "mpirun starts ranks in the other tasks, without ssh")
@needs_mpirun
@pytest.mark.engines
def test_mpirun_starts_ranks_in_the_other_tasks_without_ssh(tmp_path):
    rank = "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE in $BERTH_ROLE-$BERTH_INDEX"
    launcher = a_role("launcher", 1, "mpirun", "-np", "4", "sh", "-c", rank)
    job = a_job(launcher, a_role("worker", 2, "sh", "-c", "echo prepared", cpu_millis=2000))
    results = {str(name): result for name, result in run(get_framework("mpi").compile(job), tmp_path).items()}
    # On a loaded machine mpirun notes that a child of its own was faster than it: "plm:rsh: Warning: setpgid(...) failed".
    printed = [line for line in results["launcher-0"][1].splitlines() if "plm:rsh: Warning: setpgid" not in line]
    assert sorted(printed) == [
        "rank 0 of 4 in worker-0",
        "rank 1 of 4 in worker-0",
        "rank 2 of 4 in worker-1",
        "rank 3 of 4 in worker-1",
    ]
    assert {name: code for name, (code, _) in results.items()} == {"launcher-0": 0, "worker-0": 0, "worker-1": 0}
    assert results["worker-1"][1] == "prepared\n"


@pytest.mark.capability("75", "The launcher's end decides")
@needs_mpirun
@pytest.mark.engines
def test_the_launchers_end_is_the_end_of_its_command(tmp_path):
    job = a_job(a_role("worker", 2, "sh", "-c", "mpirun -np 2 sh -c 'exit 7'"))
    results = run(get_framework("mpi").compile(job), tmp_path)
    assert [code for code, _ in results.values()] == [7, 0]


@pytest.mark.capability("76", "The program runs by mpirun with -np and -H of all slots")
@needs_mpirun
@pytest.mark.engines
def test_a_horovod_program_runs_on_all_slots_by_a_real_mpirun(tmp_path):
    rank = "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE in $BERTH_INDEX"
    job = a_job(a_role("worker", 2, "sh", "-c", rank, cpu_millis=2000))
    plan = get_framework("horovod").compile(job)
    command = [text_of(part) for part in plan.tasks[0].argv[4:]]
    assert command[:5] == ["mpirun", "-np", "4", "-H", "worker-0:2,worker-1:2"]
    results = {str(name): result for name, result in run(plan, tmp_path).items()}
    printed = [line for line in results["worker-0"][1].splitlines() if line.startswith("rank ")]
    assert sorted(printed) == [f"rank {number} of 4 in {number // 2}" for number in range(4)]


@pytest.mark.engines
def test_a_worker_whose_preparation_fails_takes_no_ranks(tmp_path):
    plan = get_framework("mpi").compile(a_job(a_role("launcher", 1), a_role("worker", 1, "sh", "-c", "exit 9")))
    worker = type(plan)(plan.tasks[1:], plan.files)
    [(code, output)] = run(worker, tmp_path).values()
    assert code == 9
    assert "takes no ranks" in output


STRANGER = """
import importlib.util, os, time
spec = importlib.util.spec_from_file_location("agent", os.environ["AGENT"])
agent = importlib.util.module_from_spec(spec)
spec.loader.exec_module(agent)
[host] = agent.read_hosts().values()
for key in (b"wrong", b"", b"right"):
    agent.KEY = key
    body = {"do": "end"} if key == b"right" else {"do": "run", "command": "touch " + os.environ["WITNESS"]}
    for _ in range(200):
        try:
            with agent.ask(host, body) as connection:
                print(key.decode(), connection.recv(100))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
"""


@pytest.mark.engines
def test_a_stranger_without_the_key_starts_nothing(tmp_path):
    """Two attempts on one machine: the second knows address and port of the first, but not its key."""
    witness = tmp_path / "witness"
    worker = get_framework("mpi").compile(a_job(a_role("launcher", 1), a_role("worker", 1, "true"), key="right"))
    launcher = worker.tasks[0]
    asking = type(launcher)(
        name=launcher.name,
        argv=((sys.executable,), ("-c",), (STRANGER,)),
        env={**launcher.env, "AGENT": (str(tmp_path / "berth-mpi.py"),), "WITNESS": (str(witness),)},
        ports=(),
    )
    results = run(type(worker)((asking, worker.tasks[1]), worker.files), tmp_path)
    assert results[launcher.name][1].splitlines() == ["wrong b''", " b''", "right b'ok\\n'"]
    assert results[worker.tasks[1].name][0] == 0
    assert not witness.exists()
