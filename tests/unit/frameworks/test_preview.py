from __future__ import annotations

import pytest

from jobs.frameworks import framework_names, get_framework
from jobs.frameworks.preview import layout_of
from jobs.services.layout import layout_json
from jobs.spec import parse_spec
from tests.unit.frameworks.resolving import a_job, a_role


@pytest.mark.capability("82", "What a framework makes of a job is shown before: roles, variables, order of start, completion")
def test_the_roles_of_a_cluster_are_shown_in_the_order_of_their_start():
    job = a_job(
        a_role("ps", 2, "serve"),
        a_role("chief", 1, "sh", "-c", "train", start_after_ready=("ps",)),
        a_role("worker", 3, "work", start_after_ready=("chief",), max_retry=2),
        env={"SEED": "7"},
        key="hidden-key",
    )
    roles, deciding = layout_of(get_framework("tensorflow"), job)
    assert [(role.role, role.count, role.starts_after) for role in roles] == [
        ("ps", 2, ()),
        ("chief", 1, ("ps",)),
        ("worker", 3, ("chief",)),
    ]
    assert deciding.chief == "chief"
    ps, chief, worker = roles
    assert '"ps": ["<ps-0>:<port berth-tf of ps-0>", "<ps-1>:<port berth-tf of ps-1>"]' in ps.environment["TF_CONFIG"]
    assert (chief.command, chief.installs, chief.environment["SEED"]) == (("sh", "-c", "train"), ("tensorflow",), "7")
    assert (worker.max_retry, worker.ports) == (2, ("berth-tf",))
    assert "hidden-key" not in repr(roles)


WITHOUT_SHORT_FORM = {"mapreduce": ("map", "reduce"), "queue": ("dispatcher", "worker")}


@pytest.mark.parametrize("name", framework_names())
def test_every_framework_shows_what_it_makes(name):
    """Of the roles that its short form makes, where it takes one."""
    roles = {role: {"command": "train"} for role in WITHOUT_SHORT_FORM.get(name, ())}
    spec = parse_spec({"framework": name, **({"roles": roles} if roles else {"command": "train", "replicas": 2})})
    layout = layout_json(spec)
    assert layout is not None
    assert {role["role"] for role in layout["roles"]} == set(spec.roles)
