"""Passwordless ssh between the tasks of a job, by real servers and clients of OpenSSH."""

from __future__ import annotations

import os

import pytest

from jobs.frameworks import get_framework
from jobs.spec import parse_spec
from kernel.errors import InvalidInput
from tests.unit.frameworks.resolving import a_job, a_role, run

needs_sshd = pytest.mark.skipif(not os.path.exists("/usr/sbin/sshd"), reason="sshd (openssh-server) is not installed")


@pytest.mark.capability("16", "Peers reach each other by stable names, with a key pair of the job's own that goes with it")
@needs_sshd
@pytest.mark.engines
def test_tasks_reach_one_another_by_name_with_a_key_of_their_own(tmp_path):
    letter = f"{tmp_path}/letter"
    calls = f"ssh worker-1 echo hello && echo sent >own && scp -q own worker-1:{letter} && ssh worker-0 cat {letter}"
    stay = f"until test -e {tmp_path}/done; do sleep 0.05; done"
    command = f"test $BERTH_INDEX = 0 || {{ {stay}; exit 0; }}; {calls}; code=$?; touch {tmp_path}/done; exit $code"
    plan = get_framework("none").compile(a_job(a_role("worker", 2, "sh", "-c", command), ssh=True))
    results = {str(name): result for name, result in run(plan, tmp_path).items()}
    assert results["worker-0"] == (0, "hello\nsent\n")
    assert "PRIVATE KEY" not in repr(plan)


def test_the_key_pair_is_the_attempts_and_the_same_when_it_is_compiled_again():
    def secret(key: str) -> str:
        return get_framework("none").compile(a_job(a_role("worker", 1), ssh=True, key=key)).tasks[0].secret_env["BERTH_SSH_KEY"]

    assert secret("a" * 32) == secret("a" * 32) != secret("b" * 32)


def test_frameworks_that_start_programs_in_tasks_themselves_refuse_ssh():
    with pytest.raises(InvalidInput) as refused:
        parse_spec({"framework": "mpi", "command": "mpirun x", "replicas": 2, "ssh": True})
    assert [(field.path, field.code) for field in refused.value.fields] == [("/ssh", "framework")]
