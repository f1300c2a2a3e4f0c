"""Files of Slurm and OpenPAI run to their right end on the local engine, with programs that read their old system's variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import berth
from tests.builders.live import LivePlatform, running_platform

pytestmark = pytest.mark.engines

RANKS = """
import os, socket, time
rank, world, gpus = (int(os.environ[name]) for name in ("SLURM_PROCID", "WORLD_SIZE", "SLURM_GPUS_ON_NODE"))
where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
print(f"rank {rank} of {world}, local {rank % gpus} of {gpus}, on node {os.environ['BERTH_RANK']}", flush=True)
if rank == 0:
    server = socket.create_server(("", where[1]))
    for _ in range(world - 1):
        server.accept()[0].close()
    print("all ranks met", flush=True)
while rank:
    try:
        socket.create_connection(where, timeout=5).close()
        break
    except OSError:
        time.sleep(0.05)
"""
DATA_PARALLEL = """#!/bin/bash
#SBATCH --job-name=ddp            # two nodes, two ranks on each
#SBATCH --nodes=2
#SBATCH --tasks-per-node=2
#SBATCH --cpus-per-task=1
#SBATCH --mem=256M
#SBATCH --gres=gpu:2
#SBATCH --time=00:05:00

export MASTER_PORT=$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 4))
export WORLD_SIZE=$(($SLURM_NNODES * $SLURM_NTASKS_PER_NODE))
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR=$(echo "$nodes" | head -n 1)
module purge
module load anaconda3
srun python3 ranks.py
echo "script ran once"
"""
STEP = """
import os, sys, time
name = sys.argv[2]
open(f"{name}.up", "w").close()
while not all(os.path.exists(f"{other}.up") for other in ("one", "two")):
    time.sleep(0.02)
print("step", name, "in task", os.environ["BERTH_RANK"], "rank", os.environ["SLURM_PROCID"], flush=True)
"""
STEPS = """#!/bin/bash
#SBATCH -J two-steps
#SBATCH -o ./output/log_%j.txt
#SBATCH --time=0:05:00
#SBATCH --mem=128M
#SBATCH --ntasks-per-node 1
#SBATCH -N 2

srun --nodes 1 --ntasks 1 --cpus-per-task=1 --export ALL python3 step.py --name one &
srun --nodes 1 --ntasks 1 --cpus-per-task=1 --gpu-bind none python3 step.py --name two &

wait
"""
FARM = """#!/bin/bash -l
#SBATCH --ntasks=2
#SBATCH --mem=128M
#SBATCH --array=3,5
step() { srun --exclusive -n1 sh -c 'echo index $SLURM_ARRAY_TASK_ID item '"$1"; }
for item in a b c; do step $item & done; wait
test "$(srun -n1 echo inner)" = inner && exit $((SLURM_ARRAY_TASK_ID - 3))
"""
TWO_IN_ONE = """protocolVersion: 2
name: two_in_one
type: job
taskRoles:
  Task_Role:
    instances: 1
    resourcePerInstance: {gpu: 1, cpu: 1, memoryMB: 128}
    commands:
      - mkdir one two
      - cd one
      - >-
        python3 -c
        'print("first")' &> log &
      - cd ../two
      - python3 -c 'print("second")' &> log &
      - cd ..
      - wait
      - echo "first log:"
      - cat one/log
      - echo "second log:"
      - cat two/log
"""
WORKERS = """protocolVersion: 2
name: MNIST-DDP
type: job
taskRoles:
  Worker_1:
    instances: 2
    completion: {minFailedInstances: 1}
    resourcePerInstance: {gpu: 1, cpu: 1, memoryMB: 128, ports: {SynPort: 1}}
    commands:
      - export NCCL_SOCKET_IFNAME=eth0 && python3 ddp.py -n 2
extras:
  com.microsoft.pai.runtimeplugin: [{plugin: ssh, parameters: {jobssh: true}}]
"""
DDP = """
import os
rank = int(os.environ["PAI_TASK_INDEX"])
assert os.environ["PAI_CURRENT_TASK_ROLE_NAME"] == "Worker_1"
own = os.environ[f"PAI_PORT_LIST_Worker_1_{rank}_SynPort"]
assert own == os.environ["PAI_CONTAINER_HOST_SynPort_PORT_LIST"] == os.environ[f"PAI_Worker_1_{rank}_SynPort_PORT"]
print("rank", rank, "master", os.environ["PAI_HOST_IP_Worker_1_0"], os.environ["PAI_Worker_1_0_SynPort_PORT"], flush=True)
"""


@pytest.fixture(scope="module")
def live_platform() -> Iterator[LivePlatform]:
    with running_platform(BERTH_LOCAL_SIMULATED_GPUS="4xSIM") as made:
        yield made


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    for name, text in (("ranks.py", RANKS), ("step.py", STEP), ("ddp.py", DDP)):
        (folder / name).write_text(text)
    return folder


def ended(sdk: berth.Client, platform: LivePlatform, text: str, code: Path) -> tuple[dict[str, Any], str]:
    """The end of a file that is converted and submitted with a folder, as a user does it, and what it printed."""
    made = sdk.jobs.convert(text, name="job")
    assert made["problems"] == []
    job = sdk.jobs.submit({**made["spec"], "code": {"path": str(code)}})
    return platform.wait(job.id), platform.logs(job.id)


def test_a_data_parallel_script_for_slurm_meets_over_two_nodes(
    sdk: berth.Client, live_platform: LivePlatform, code: Path
) -> None:
    job, text = ended(sdk, live_platform, DATA_PARALLEL, code)
    assert job["state"] == "succeeded", text
    for rank in range(4):
        assert f"rank {rank} of 4, local {rank % 2} of 2, on node {rank // 2}" in text
    assert (text.count("all ranks met"), text.count("script ran once")) == (1, 1)


def test_two_steps_in_the_background_run_once_each_in_a_task_of_their_own(
    sdk: berth.Client, live_platform: LivePlatform, code: Path
) -> None:
    job, text = ended(sdk, live_platform, STEPS, code)
    assert job["state"] == "succeeded", text
    assert sorted(re.findall(r"step (\w+) in task \d rank 0", text)) == ["one", "two"]
    assert sorted(re.findall(r"in task (\d)", text)) == ["0", "1"]


def test_an_array_of_steps_ends_as_its_scripts_do(sdk: berth.Client, live_platform: LivePlatform, code: Path) -> None:
    job, _ = ended(sdk, live_platform, FARM, code)
    assert job["state"] == "failed"
    children = sorted(live_platform.operator.items("/jobs", parent=job["id"]), key=lambda child: child["array"]["index"])
    assert [child["state"] for child in children] == ["succeeded", "failed"]
    assert children[1]["exit"]["code"] == 2
    for child, index in zip(children, (3, 5), strict=True):
        assert sorted(live_platform.logs(child).split("\n")) == ["", *(f"index {index} item {item}" for item in "abc")]


def test_two_programs_of_an_openpai_job_write_their_logs_by_bash(
    sdk: berth.Client, live_platform: LivePlatform, code: Path
) -> None:
    job, text = ended(sdk, live_platform, TWO_IN_ONE, code)
    assert (job["state"], text) == ("succeeded", "first log:\nfirst\nsecond log:\nsecond\n")


def test_workers_of_an_openpai_job_find_each_other_in_their_program(
    sdk: berth.Client, live_platform: LivePlatform, code: Path
) -> None:
    job, text = ended(sdk, live_platform, WORKERS, code)
    assert job["state"] == "succeeded", text
    [first, second] = sorted(re.findall(r"rank (\d) (master \S+ \d+)", text))
    assert (first[0], second[0], first[1] == second[1]) == ("0", "1", True)


def test_cores_that_a_task_asked_for_are_what_programs_find(live_platform: LivePlatform) -> None:
    show = "echo $BERTH_CPUS $OMP_NUM_THREADS $(nproc)"
    job = live_platform.submit({"name": "cores", "command": show, "resources": {"cpu": 3, "memory": "64Mi"}}, wait=True)
    assert live_platform.logs(job) == "3 3 3\n"
    spec = {"name": "own", "command": show, "resources": {"cpu": "500m", "memory": "64Mi"}, "env": {"OMP_NUM_THREADS": "2"}}
    assert live_platform.logs(live_platform.submit(spec, wait=True)) == "1 2 2\n"


SAVE = """
import os, signal, sys, time
def save(*_):
    time.sleep(0.3)
    print("saved by", os.environ["SLURM_PROCID"], flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", os.environ["SLURM_PROCID"], flush=True)
while True:
    time.sleep(1)
"""


def test_programs_that_srun_started_save_when_the_job_is_stopped(live_platform: LivePlatform) -> None:
    command = ["/bin/bash", "-c", 'srun python3 -c "$PROGRAM"; echo script goes on']
    role = {"replicas": 2, "command": command, "resources": {"cpu": 1, "memory": "128Mi"}, "env": {"PROGRAM": SAVE}}
    job = live_platform.submit({"name": "saving", "framework": "slurm", "roles": {"worker": role}}, wait=["running"])
    for rank in (0, 1):
        live_platform.operator.wait_for_line(job, f"up {rank}")
    live_platform.operator.stop(job, grace_seconds=30)
    assert live_platform.wait(job)["state"] == "stopped"
    assert sorted(line for line in live_platform.logs(job).splitlines() if "saved" in line) == ["saved by 0", "saved by 1"]
