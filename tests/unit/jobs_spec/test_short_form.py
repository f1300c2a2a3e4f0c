"""One command and a framework are a whole cluster: what the short form of a job stands for."""

from __future__ import annotations

import pytest

from jobs.spec import parse_spec, to_document
from kernel.errors import InvalidInput

SHORT = {"command": "python train.py", "replicas": 4, "resources": {"cpu": 2, "gpu": 1}}


@pytest.mark.parametrize(
    ("framework", "replicas", "command_of"),
    [
        ("pytorch", {"worker": 4}, "worker"),
        ("tensorflow", {"worker": 4}, "worker"),
        ("mxnet", {"scheduler": 1, "server": 1, "worker": 4}, "worker"),
        ("ray", {"head": 1, "worker": 4}, "head"),
        ("dask", {"scheduler": 1, "worker": 4}, "scheduler"),
    ],
)
def test_a_framework_makes_its_roles_of_one_command(framework, replicas, command_of):
    spec = parse_spec({"framework": framework, **SHORT})
    assert {name: role.replicas.max for name, role in spec.roles.items()} == replicas
    assert [name for name, role in spec.roles.items() if role.command == "python train.py"] == [command_of]
    assert {name: role.resources.gpu.millis for name, role in spec.roles.items() if role.resources.gpu.millis} == {"worker": 1000}
    assert parse_spec(to_document(spec)) == spec


def test_what_is_wrong_in_the_short_form_is_said_where_it_was_written():
    with pytest.raises(InvalidInput) as refused:
        parse_spec({"framework": "mxnet", **SHORT, "resources": {"cpu": "many"}})
    assert {field.path for field in refused.value.fields} == {"/resources/cpu"}
