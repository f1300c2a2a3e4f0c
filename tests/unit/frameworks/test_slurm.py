"""Framework slurm: what a task finds of Slurm, and steps that really run on the tasks that they ask for."""

from __future__ import annotations

import ast
import shutil
from collections import Counter
from pathlib import Path

import pytest

from jobs.conversion import convert
from jobs.frameworks import GangPlan, get_framework
from jobs.frameworks.slurm import SET_LATER, job_number
from jobs.spec import parse_spec
from tests.unit.frameworks.resolving import a_job, a_role, environment_of, run

PAGE = Path(__file__).parents[3] / "jobs" / "frameworks" / "slurm.md"
JOB_ID = "01980c2e-6f3a-7c4e-9a55-0d1f2a3b4c5d"
# "OUTPUT ENVIRONMENT VARIABLES" of the manuals of sbatch and srun, Slurm 22.05, and what came up to 24.05.
OF_SBATCH = """
SBATCH_MEM_BIND SBATCH_MEM_BIND_LIST SBATCH_MEM_BIND_PREFER SBATCH_MEM_BIND_TYPE SBATCH_MEM_BIND_VERBOSE SLURM_ARRAY_JOB_ID
SLURM_ARRAY_TASK_COUNT SLURM_ARRAY_TASK_ID SLURM_ARRAY_TASK_MAX SLURM_ARRAY_TASK_MIN SLURM_ARRAY_TASK_STEP SLURM_CLUSTER_NAME
SLURM_CPUS_ON_NODE SLURM_CPUS_PER_GPU SLURM_CPUS_PER_TASK SLURM_CONTAINER SLURM_DIST_PLANESIZE SLURM_DISTRIBUTION SLURM_EXPORT_ENV
SLURM_GPU_BIND SLURM_GPU_FREQ SLURM_GPUS SLURM_GPUS_ON_NODE SLURM_GPUS_PER_NODE SLURM_GPUS_PER_SOCKET SLURM_GPUS_PER_TASK
SLURM_GTIDS SLURM_HET_SIZE SLURM_JOB_ACCOUNT SLURM_JOB_GPUS SLURM_JOB_ID SLURM_JOB_CPUS_PER_NODE SLURM_JOB_DEPENDENCY
SLURM_JOB_NAME SLURM_JOB_NODELIST SLURM_JOB_NUM_NODES SLURM_JOB_PARTITION SLURM_JOB_QOS SLURM_JOB_RESERVATION SLURM_JOBID
SLURM_LOCALID SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE SLURM_NNODES SLURM_NODE_ALIASES SLURM_NODEID SLURM_NODELIST
SLURM_NPROCS SLURM_NTASKS SLURM_NTASKS_PER_CORE SLURM_NTASKS_PER_GPU SLURM_NTASKS_PER_NODE SLURM_NTASKS_PER_SOCKET
SLURM_OVERCOMMIT SLURM_PRIO_PROCESS SLURM_PROCID SLURM_PROFILE SLURM_RESTART_COUNT SLURM_SHARDS_ON_NODE SLURM_SUBMIT_DIR
SLURM_SUBMIT_HOST SLURM_TASK_PID SLURM_TASKS_PER_NODE SLURM_THREADS_PER_CORE SLURM_TOPOLOGY_ADDR SLURM_TOPOLOGY_ADDR_PATTERN
SLURMD_NODENAME SLURM_JOB_USER SLURM_JOB_UID SLURM_JOB_GID
"""
OF_SRUN = """
SLURM_CLUSTER_NAME SLURM_CPU_BIND_LIST SLURM_CPU_BIND_TYPE SLURM_CPU_BIND_VERBOSE SLURM_CPU_FREQ_REQ SLURM_CPUS_ON_NODE
SLURM_CPUS_PER_TASK SLURM_DISTRIBUTION SLURM_GPUS_ON_NODE SLURM_GTIDS SLURM_HET_SIZE SLURM_JOB_ACCOUNT SLURM_JOB_CPUS_PER_NODE
SLURM_JOB_DEPENDENCY SLURM_JOB_GPUS SLURM_JOB_ID SLURM_JOB_NAME SLURM_JOB_NODELIST SLURM_JOB_NODES SLURM_JOB_PARTITION
SLURM_JOB_QOS SLURM_JOB_RESERVATION SLURM_JOBID SLURM_LAUNCH_NODE_IPADDR SLURM_LOCALID SLURM_MEM_BIND_LIST SLURM_MEM_BIND_PREFER
SLURM_MEM_BIND_SORT SLURM_MEM_BIND_TYPE SLURM_MEM_BIND_VERBOSE SLURM_NODE_ALIASES SLURM_NODEID SLURM_NPROCS SLURM_NTASKS
SLURM_OVERCOMMIT SLURM_PRIO_PROCESS SLURM_PROCID SLURM_SRUN_COMM_HOST SLURM_SRUN_COMM_PORT SLURM_CONTAINER SLURM_SHARDS_ON_NODE
SLURM_STEP_GPUS SLURM_STEP_ID SLURM_STEP_LAUNCHER_PORT SLURM_STEP_NODELIST SLURM_STEP_NUM_NODES SLURM_STEP_NUM_TASKS
SLURM_STEP_TASKS_PER_NODE SLURM_STEPID SLURM_SUBMIT_DIR SLURM_SUBMIT_HOST SLURM_TASK_PID SLURM_TASKS_PER_NODE SLURM_TOPOLOGY_ADDR
SLURM_TOPOLOGY_ADDR_PATTERN SLURM_UMASK SLURMD_NODENAME SRUN_DEBUG
"""
# What an option gives that a job may have; a test below asks for each.
IF_ASKED = frozenset({"SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_OVERCOMMIT"})
# Not there, and why.
LEFT_OUT = {
    "an option of the allocation that means nothing here": {
        *("SLURM_JOB_QOS", "SLURM_JOB_RESERVATION", "SLURM_JOB_DEPENDENCY", "SLURM_PROFILE", "SLURM_CPU_FREQ_REQ"),
        *(
            "SLURM_GPU_FREQ",
            "SLURM_GPU_BIND",
            "SLURM_CONTAINER",
            "SLURM_SHARDS_ON_NODE",
            "SLURM_DIST_PLANESIZE",
            "SLURM_EXPORT_ENV",
        ),
        *("SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_SOCKET", "SLURM_GPUS_PER_SOCKET"),
        *("SLURM_THREADS_PER_CORE", "SLURM_CPUS_PER_GPU"),
    },
    "memory is not bound to nodes of memory": {
        *("SBATCH_MEM_BIND", "SBATCH_MEM_BIND_LIST", "SBATCH_MEM_BIND_PREFER", "SBATCH_MEM_BIND_TYPE", "SBATCH_MEM_BIND_VERBOSE"),
        *("SLURM_MEM_BIND_LIST", "SLURM_MEM_BIND_PREFER", "SLURM_MEM_BIND_SORT", "SLURM_MEM_BIND_TYPE"),
        "SLURM_MEM_BIND_VERBOSE",
    },
    "there are no heterogeneous jobs": {"SLURM_HET_SIZE"},
    "a job is submitted from a browser or from anywhere": {"SLURM_SUBMIT_HOST"},
    "Slurm's own manual has it, and no Slurm sets it": {"SLURM_JOB_NODES"},
}


def plan_of(script: str, gpus: int = 0, **more: object) -> GangPlan:
    """A converted script as the platform compiles it."""
    spec = parse_spec(convert(script).spec)
    [(name, role)] = spec.roles.items()
    made = a_role(
        name,
        role.replicas.max,
        *role.argv,
        env=role.env,
        cpu_millis=role.resources.cpu_millis,
        gpu_millis=role.resources.gpu.millis,
        memory_bytes=role.resources.memory_bytes,
    )
    values: dict[str, object] = {"job_id": JOB_ID, "tenant": "vision", "queue": "vision", "user": "alice", **more}
    return get_framework(spec.framework).compile(a_job(made, env=spec.env, **values))


def script(body: str, *options: str) -> str:
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {option}" for option in options), body])


def output_of(plan: GangPlan, folder: Path) -> list[str]:
    """What the script prints, in any order; all tasks must end well."""
    results = {str(name): result for name, result in run(plan, folder).items()}
    assert {code for code, _ in results.values()} == {0}, results
    assert {text for name, (_, text) in results.items() if name != "worker-0"} <= {""}
    return sorted(results["worker-0"][1].splitlines())


# --- What a task finds -----------------------------------------------------------------------------------------------


def test_every_task_has_the_documented_set_and_what_is_left_out_has_a_reason():
    asked = ("-N 2", "--ntasks-per-node=2", "--gpus-per-task=1", "-c 3", "--array=1-9:2")
    documented = set((OF_SBATCH + OF_SRUN).split())
    left_out = {name for names in LEFT_OUT.values() for name in names}
    for task in plan_of(script("srun run", *asked), array_index=1, array_size=5).tasks:
        assert documented - IF_ASKED - left_out == (set(task.env) | SET_LATER) & documented
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in (OF_SBATCH + OF_SRUN).split() if f"`{name}`" not in page] == []


def test_values_follow_from_the_placement():
    plan = plan_of(script("srun run", "-N 2", "-n 3", "--gres=gpu:2", "-c 2", "--mem=3G"), attempt=3)
    first, second = (environment_of(task) for task in plan.tasks)
    shared = {
        "SLURM_NNODES": "2", "SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS": "3", "SLURM_NPROCS": "3", "SLURM_TASKS_PER_NODE": "2,1",
        "SLURM_JOB_CPUS_PER_NODE": "4(x2)", "SLURM_CPUS_ON_NODE": "4", "SLURM_CPUS_PER_TASK": "2", "SLURM_GPUS": "4",
        "SLURM_GPUS_ON_NODE": "2", "SLURM_GPUS_PER_NODE": "2", "SLURM_MEM_PER_NODE": "3072", "SLURM_RESTART_COUNT": "2",
        "SLURM_JOB_NODELIST": "worker-0.test,worker-1.test", "SLURM_JOB_USER": "alice", "SLURM_JOB_ACCOUNT": "vision",
    }  # fmt: skip
    for task in (first, second):
        assert {name: task[name] for name in shared} == shared
    own = ("SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_GTIDS", "SLURMD_NODENAME", "BERTH_CPUS")
    assert [first[name] for name in own] == ["0", "0", "0", "0,1", "worker-0.test", "4"]
    assert [second[name] for name in own] == ["1", "2", "0", "2", "worker-1.test", "4"]


@pytest.mark.parametrize(
    ("array", "index", "expected"),
    [("0-4", 3, "3 0 4 1"), ("10-50:10%2", 3, "40 10 50 10"), ("1,3,5-7", 3, "6 1 7 1")],
)
def test_an_array_has_slurms_indexes(array, index, expected):
    of_array = {"array_index": index, "array_size": 5, "array_id": "01980c2e-0000-7000-8000-000000000000"}
    env = environment_of(plan_of(script("run", f"--array={array}"), **of_array).tasks[0])
    assert " ".join(env[f"SLURM_ARRAY_TASK_{name}"] for name in ("ID", "MIN", "MAX", "STEP")) == expected
    assert env["SLURM_ARRAY_TASK_COUNT"] == "5"
    assert env["SLURM_ARRAY_JOB_ID"] != env["SLURM_JOB_ID"]


def test_a_jobs_number_is_one_that_scripts_make_ports_of():
    numbers = [job_number(f"01980c2e-6f3a-7c4e-9a55-{place * 7919:012x}") for place in range(2_000)]
    assert all(0 < number < 67_108_863 and str(number)[-4] != "0" for number in numbers)
    assert len(set(numbers)) > 1_990
    assert Counter(number % 10_000 for number in numbers).most_common(1)[0][1] < 10
    assert {environment_of(task)["SLURM_JOB_ID"] for task in plan_of(script("run", "-N 3"), attempt=2).tasks} == {
        str(job_number(JOB_ID))
    }


def test_what_a_job_asks_for_comes_before_what_follows():
    plan = plan_of(script("run", "--export=ALL,SLURM_CLUSTER_NAME=old", "--mem-per-cpu=1G", "-c 2"))
    env = environment_of(plan.tasks[0])
    assert (env["SLURM_CLUSTER_NAME"], env["SLURM_MEM_PER_CPU"], env.get("SLURM_MEM_PER_NODE")) == ("old", "1024", None)


# --- Steps that run --------------------------------------------------------------------------------------------------

SHOW = """python3 -c 'import os; e = os.environ
print(*(e[name] for name in "SLURM_PROCID SLURM_NTASKS SLURM_LOCALID SLURM_NODEID SLURM_STEP_NUM_NODES BERTH_RANK".split()))'"""


@pytest.mark.engines
@pytest.mark.capability("6.23", "A converted job runs without the old system")
def test_a_step_runs_once_in_each_of_the_jobs_tasks(tmp_path):
    plan = plan_of(script(f"module load cuda\nsrun --cpu-bind=none {SHOW}", "-N 2", "--ntasks-per-node=2"))
    assert output_of(plan, tmp_path) == ["0 4 0 0 2 0", "1 4 1 0 2 0", "2 4 0 1 2 1", "3 4 1 1 2 1"]


@pytest.mark.engines
def test_steps_in_the_background_run_on_the_tasks_that_they_ask_for(tmp_path):
    step = "srun --nodes 1 --ntasks 1 --cpus-per-task=1 --export ALL sh -c"
    wait = f"touch {tmp_path}/$0; until [ -e {tmp_path}/one ] && [ -e {tmp_path}/two ]; do sleep 0.01; done; echo $0 $BERTH_RANK"
    body = f"{step} '{wait}' one &\n{step} '{wait}' two &\nwait\necho end"
    found = output_of(plan_of(script(body, "-N 2", "--ntasks-per-node 1")), tmp_path)
    assert {tuple(sorted(line.split()[-1] for line in found)), len(found)} == {("0", "1", "end"), 3}


@pytest.mark.engines
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x=$(srun -n1 echo inner); echo got $x", ["got inner"]),
        ("f() { srun -n1 echo in $1; }; f here; true && srun -n1 echo behind", ["behind", "in here"]),
        ("RUN='srun -n 1'; $RUN echo kept; eval 'srun -n1 echo told'", ["kept", "told"]),
        ("srun -n2 -l sh -c 'exit $SLURM_PROCID' 2>/dev/null; echo $?", ["1"]),
        ("printf 'a\\nb\\n' | srun -n1 wc -l; srun -n2 -i none cat; srun -n2 -l -i1 cat <<< x", ["1: x", "2"]),
        ("A=1 srun -n1 sh -c 'echo $A'; export B=2; srun -N1 -w $SLURMD_NODENAME -n1 sh -c 'echo $B'", ["1", "2"]),
        ("srun -n1 --export=C=3 sh -c 'echo $C $SLURM_PROCID'; srun -n1 --export=NONE sh -c 'echo [$D]'", ["3 0", "[]"]),
        ("srun -n2 -o out-%t-%2s.txt hostname; ls out*", ["out-0-00.txt", "out-1-00.txt"]),
        ("srun -n1 -D / pwd; f() { echo exported; }; export -f f; srun -n1 bash -c f", ["/", "exported"]),
        ("srun -K sh -c 'test $SLURM_PROCID = 1 || exit 7; exec sleep 60' 2>/dev/null; test $? -gt 6 && echo ended", ["ended"]),
        ("squeue -u me 2>&1; sacct > file 2>&1; scontrol update x 2>/dev/null || echo no", ["no", "squeue: there is no Slurm"]),
        ("scontrol show hostnames | wc -l; scontrol show hostnames 'a[08-10],b'", ["2", "a08", "a09", "a10", "b"]),
        ("srun -n1 srun -n1 --label echo nested; srun -n1 no-such-command 2>/dev/null; echo $?", ["0: nested", "127"]),
        ("srun --pty bash; srun -n 99 run", ["srun: --pty: there is no terminal in a job; use berth exec", "srun: 99 tasks"]),
        ("for i in 1 2 3 4 5; do srun -n1 -c1 --exact echo $i & done; wait", ["1", "2", "3", "4", "5"]),
        ("echo ${SLURM_JOB_ID: -4} | tr 0-9 d", ["dddd"]),
    ],
)
def test_what_a_script_does_with_srun(body, expected, tmp_path):
    job = a_job(a_role("worker", 2, "/bin/bash", "-c", f"{body}; true"), job_id=JOB_ID)
    found = output_of(get_framework("slurm").compile(job), tmp_path)
    assert [line[: len(end)] for line, end in zip(found, expected, strict=True)] == expected


@pytest.mark.engines
def test_gpus_and_threads_are_divided_among_the_processes_of_a_step(tmp_path):
    body = """export CUDA_VISIBLE_DEVICES=GPU-a,GPU-b OMP_NUM_THREADS=$BERTH_CPUS
srun sh -c 'echo $SLURM_PROCID $CUDA_VISIBLE_DEVICES $OMP_NUM_THREADS $SLURM_GPUS_ON_NODE'
srun -n1 --gres=gpu:1 sh -c 'echo one $CUDA_VISIBLE_DEVICES'
OMP_NUM_THREADS=7 srun -n1 --gres=none sh -c 'echo own [$CUDA_VISIBLE_DEVICES] $OMP_NUM_THREADS'"""
    plan = plan_of(script(body, "-n 2", "-N 1", "-c 3", "--gpus-per-task=1"))
    assert output_of(plan, tmp_path) == ["0 GPU-a 3 2", "1 GPU-b 3 2", "one GPU-a", "own [] 7"]


@pytest.mark.engines
def test_what_a_step_leaves_behind_ends_with_its_srun(tmp_path):
    body = """srun -n1 sh -c 'trap "touch ended; exit" TERM; echo up > up; while :; do sleep 0.05; done' &
until [ -e up ]; do sleep 0.05; done
kill $!; wait $!
until [ -e ended ]; do sleep 0.05; done; echo over"""
    assert output_of(plan_of(script(body, "-t 5")), tmp_path) == ["over"]


@pytest.mark.engines
def test_the_first_tasks_code_is_the_jobs_and_the_others_end_with_it(tmp_path):
    results = run(plan_of(script("srun true; exit 3", "-N 3")), tmp_path)
    assert {str(name): code for name, (code, _) in results.items()} == {"worker-0": 3, "worker-1": 0, "worker-2": 0}


@pytest.mark.engines
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI (openmpi-bin) is not installed")
@pytest.mark.parametrize("nodes", [1, 2])
def test_mpirun_starts_a_rank_for_each_of_slurms_tasks(nodes, tmp_path):
    body = "mpirun sh -c 'echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE in $BERTH_RANK' 2>&1 | grep -v setpgid"
    found = output_of(plan_of(script(body, f"-N {nodes}", "--ntasks-per-node=2")), tmp_path)
    assert found == [f"{rank} of {2 * nodes} in {rank // 2}" for rank in range(2 * nodes)]


def test_what_is_sent_along_runs_on_an_old_python():
    for name in ("slurm_agent", "slurm_steps", "slurm_wire", "srun_client", "srun_options", "mpi_agent"):
        ast.parse(PAGE.with_name(f"{name}.py").read_text(encoding="utf-8"), feature_version=(3, 7))
