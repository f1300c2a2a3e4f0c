"""The examples are jobs, and those that need nothing but Python or Open MPI do what they say."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.frameworks import get_framework
from jobs.spec import json_schema, parse_document, read_text
from jobs.spec.documents import Format
from tests.unit.frameworks.resolving import a_job, a_role, run

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_is_a_job_and_satisfies_the_schema(path):
    import jsonschema

    spec = parse_document(path.read_bytes())
    jsonschema.Draft202012Validator(json_schema()).validate(read_text(path.read_bytes(), Format.YAML).value)
    if spec.code is not None and spec.code.path is not None:
        assert (EXAMPLES / spec.code.path).is_dir()


def test_the_example_that_saves_goes_on_from_where_it_was_told_to_stop(tmp_path):
    spec = parse_document((EXAMPLES / "resume.yaml").read_bytes())
    assert spec.checkpoint is not None
    stop = signal.Signals[f"SIG{spec.checkpoint.signal}"]
    command = [sys.executable, str(EXAMPLES / "resume" / "train.py")]
    environment = {**os.environ, "BERTH_CHECKPOINT_DIR": str(tmp_path), "STEPS": "1000000000"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "goes on after step 0\n"
        assert first.stdout.readline() == "saved at step 1000\n"
        first.send_signal(stop)
        rest = first.stdout.read()
    assert first.returncode == 1, rest
    assert os.listdir(tmp_path) == ["line.json"]
    step = json.loads((tmp_path / "line.json").read_text())["step"]
    assert f"step {step}: y = " in rest, "what it had when it was told to stop is saved"
    environment["STEPS"] = str(step + 20_000)
    second = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert second.stdout.startswith(f"goes on after step {step}\n")
    assert "y = 3.000 x + 1.000" in second.stdout


@pytest.mark.engines
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI (openmpi-bin) is not installed")
def test_the_mpi_example_computes_pi_over_two_tasks(tmp_path):
    spec = parse_document((EXAMPLES / "mpi.yaml").read_bytes())
    for script in (EXAMPLES / "mpi").iterdir():
        shutil.copy(script, tmp_path)
    roles = [
        a_role(name, role.replicas.max, *role.argv, cpu_millis=role.resources.cpu_millis) for name, role in spec.roles.items()
    ]
    results = run(get_framework("mpi").compile(a_job(*roles)), tmp_path, code=tmp_path)
    output = results[next(iter(results))][1]
    assert [code for code, _ in results.values()] == [0, 0, 0]
    assert "pi is about 3.14159" in output
    assert "ran in worker-0" in output
    assert "ran in worker-1" in output
