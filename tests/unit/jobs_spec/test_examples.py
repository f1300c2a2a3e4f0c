"""The examples are jobs, and the one that needs nothing but Open MPI computes what it says."""

from __future__ import annotations

import shutil
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
