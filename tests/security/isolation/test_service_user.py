"""The platform as it runs in production: an engine without root, and a launcher that keeps it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clusters.engines.local import start_launcher
from kernel.config import Config

pytestmark = pytest.mark.engines
SERVICE = 65_534

SCRIPT = """
import json, os, sys, time, uuid
from dataclasses import replace
from pathlib import Path
from clusters.engines import local
from clusters.engines.interface import *
from clusters.hostfiles import host_files
from kernel.config import Config
from kernel.resources import Resources

config = Config(data_dir=Path(sys.argv[1]))
engine = local.build(uuid.UUID(int=7), config, node="here")
said = {"uid": os.geteuid()}

def job(shell, **changes):
    argv = (("/bin/sh",), ("-c",), (shell,))
    task = TaskWorkload(TaskName("worker", 0), argv, {}, resources=Resources(1000, 256 << 20), ports=("p",))
    image = ImageRef(ImageKind.HOST, "")
    return replace(Workload(uuid.uuid4(), uuid.uuid4(), 1, "x", "t", 12, "u", {}, image, (task,)), **changes)

def wait(attempt_id, done):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for item in engine.observe(None).items:
            if item.attempt_id == attempt_id and done(item.tasks[0]):
                return item.tasks[0]
        time.sleep(0.02)
    raise TimeoutError

ended = lambda task: task.state in ("ended", "gone")
first = job("id -u; echo made > file; head -c 3000000 /dev/zero", log_quota_bytes=100_000)
said["answer"] = type(engine.ensure([first])[0]).__name__
said["code"] = wait(first.attempt_id, ended).exit.code
chunks = engine.logs(first.attempt_id, TaskName("worker", 0), Stream.OUT, 0).chunks
said["task_uid"] = chunks[0].data[:6].decode()
path = Path(engine.config.root, "attempts", str(first.attempt_id), "control", "worker-0.stdout")
said["blocks"] = path.stat().st_blocks * 512
said["outputs"] = [file.path for file in engine.list_outputs(first.attempt_id, ["."])]
said["content"] = os.read(engine.open_output(first.attempt_id, "file"), 100).decode()
try:
    Path(engine.config.root, "attempts", str(first.attempt_id), "work", "file").read_text()
except PermissionError:
    said["direct"] = "refused"
second = job("trap '' TERM; echo ready; while :; do sleep 0.05; done")
engine.ensure([second])
said["sampled"] = sorted({sample.metric for sample in engine.sample() if sample.subject.startswith("task:")})
wait(second.attempt_id, lambda task: task.state == "running")
engine.stop([Stop(second.attempt_id, 0.2, StopCause.USER)])
said["stopped"] = wait(second.attempt_id, ended).exit.stop_cause
while not isinstance(engine.forget([first.attempt_id])[0], Forgotten):
    time.sleep(0.02)
said["again"] = engine.ensure([first])[0].code
said["kept_apart"] = engine.inventory().tenants_kept_apart
said["groups"] = engine.inventory().nodes[0].labels["cgroups"]
while not isinstance(engine.forget([second.attempt_id])[0], Forgotten):
    time.sleep(0.02)
files = host_files(config)
volume = f"{config.data_dir}/volumes/v"
files.prepare_volume(volume, 3)
os.write(files.open_write(volume, "f", tenant=12, group=3), b"data")
said["volume"] = [entry.path for entry in files.list_directory(volume, "", tenant=12, group=3).entries]
print(json.dumps(said))
"""


@pytest.fixture
def installation(data_dir: Path) -> Iterator[Config]:
    """A data directory of the service user with its launcher."""
    os.chown(data_dir, SERVICE, SERVICE)
    config = replace(Config(), data_dir=data_dir)
    before = os.umask(0o077)  # As the platform has it.
    try:
        child = start_launcher(config, service_uid=SERVICE, service_gid=SERVICE)
        yield config
    finally:
        os.umask(before)
    assert child.stdin is not None
    child.stdin.close()
    child.wait(60)


def test_the_whole_life_of_a_job_under_a_platform_without_root(installation: Config, data_dir: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(data_dir)],
        user=SERVICE,
        group=SERVICE,
        extra_groups=[],
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    blocks = said.pop("blocks")
    assert blocks < 1_000_000
    assert "memory_bytes" in said.pop("sampled")
    assert said.pop("groups") in {"v1", "v2", "none"}
    assert said == {
        "uid": SERVICE,
        "answer": "Ensured",
        "code": 0,
        "task_uid": "200012",
        "outputs": ["file"],
        "content": "made\n",
        "direct": "refused",
        "stopped": "user",
        "again": "attempt_forgotten",
        "kept_apart": True,
        "volume": ["f"],
    }
