"""What a Spark job's tasks are told. `tests/frameworks/test_spark.py` runs them."""

from __future__ import annotations

import json

import pytest

from jobs.frameworks import ReadyCheck, RoleShape, TaskPlan, get_framework
from jobs.frameworks.headed import NOTHING
from tests.unit.frameworks.resolving import a_job, a_role, environment_of

MIB = 1024**2
SPARK = get_framework("spark")


def shapes(**counts: int | tuple[int, int]) -> dict[str, RoleShape]:
    ranges = {name: count if isinstance(count, tuple) else (count, count) for name, count in counts.items()}
    return {name: RoleShape(least, most, 0, (), 1024 * MIB) for name, (least, most) in ranges.items()}


def a_driver(*argv: str, **more: object):
    return a_role("driver", 1, *(argv or ("python3", "app.py")), memory_bytes=2048 * MIB, cpu_millis=2000, **more)


def executors(count: int, name: str = "executor", **more: object):
    return a_role(name, count, NOTHING, **{"memory_bytes": 4096 * MIB, "cpu_millis": 3000, "count_min": count, **more})


def planned(*roles, **more: object) -> dict[str, TaskPlan]:
    return {str(task.name): task for task in SPARK.compile(a_job(*roles, **more)).tasks}


def plan_of(task: TaskPlan) -> dict:
    return json.loads(environment_of(task)["BERTH_TASK_PLAN"])


def joined(parts: list) -> str:
    return "".join(part if isinstance(part, str) else f"<{':'.join(*part.items())}>" for part in parts)


def settings_of(task: TaskPlan) -> dict[str, str]:
    lines = joined(plan_of(task)["files"]["conf/spark-defaults.conf"]).splitlines()
    return dict(line.split(maxsplit=1) for line in lines)


SHARED = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "<env:BERTH_ATTEMPT_KEY>",
    "spark.master.rest.enabled": "false",
    "spark.master.ui.decommission.allow.mode": "DENY",
    "spark.ui.killEnabled": "false",
}
OF_THE_DRIVER = {
    "spark.driver.host": "<address:driver-0.test>",
    "spark.driver.bindAddress": "<address:driver-0.test>",
    "spark.driver.port": "<berth-driver>",
    "spark.driver.blockManager.port": "<berth-blocks>",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.port": "<berth-driver-ui>",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": "<work:spark-events>",
    "spark.shuffle.readHostLocalDisk": "false",
}


def test_a_driver_has_all_settings_and_a_master_beside_its_command():
    task = planned(a_driver(), executors(2))["driver-0"]
    assert settings_of(task) == {
        **SHARED,
        **OF_THE_DRIVER,
        "spark.master": "spark://<address:driver-0.test>:<berth-spark>",
        "spark.driver.memory": "1434m",
        "spark.executor.memory": "3072m",
        "spark.executor.cores": "3",
    }
    plan = plan_of(task)
    [master] = plan["services"]
    assert [joined(part) for part in master["argv"][4:]] == [
        *("org.apache.spark.deploy.master.Master", "--host", "<address:driver-0.test>"),
        *("--port", "<berth-spark>", "--webui-port", "<berth-spark-ui>"),
    ]
    assert (plan["argv"], plan["before"], plan["ready"]["port"]) == ([["python3"], ["app.py"]], ["executor"], "<berth-spark>")
    assert task.ports == ("berth-spark", "berth-spark-ui", "berth-driver", "berth-blocks", "berth-driver-ui", "berth-ready")


def test_an_executor_is_a_worker_of_the_tasks_size_after_the_master():
    task = planned(a_driver(), executors(2))["executor-1"]
    plan = plan_of(task)
    assert [joined(part) for part in plan["argv"][4:]] == [
        *("org.apache.spark.deploy.worker.Worker", "--host", "<address:executor-1.test>", "--port", "<berth-worker>"),
        *("--webui-port", "<berth-worker-ui>", "--cores", "3", "--memory", "3840m", "--work-dir", "<work:spark-work>"),
        "spark://<address:driver-0.test>:<berth-spark>",
    ]
    assert settings_of(task) == SHARED
    assert joined(plan["files"]["conf/java-opts"]) == (
        "-XX:-UseContainerSupport -XX:ActiveProcessorCount=3 -Dspark.blockManager.port=<berth-blocks>\n"
    )
    assert (plan["after"], plan["max_retry"], plan["ready"]["port"]) == (["driver"], 3, "<berth-worker>")
    assert task.ports == ("berth-worker", "berth-worker-ui", "berth-blocks", "berth-ready")


def test_variables_are_those_that_are_reserved_and_the_search_path():
    for task in planned(a_driver(), executors(1)).values():
        environment, plan = environment_of(task), plan_of(task)
        host = environment["BERTH_HOST"]
        assert (environment["SPARK_LOCAL_IP"], environment["SPARK_LOCAL_HOSTNAME"]) == (host, host)
        assert {name for name in environment if name.startswith("SPARK")} | set(plan["env"]) == SPARK.reserved_env | {
            "PYTHONPATH"
        }
        assert joined(plan["env"]["PYTHONPATH"]) == "<work:.>:<env:PYTHONPATH>"


def test_the_secret_is_in_no_plan():
    tasks = planned(a_driver(), executors(1), key="hidden-key")
    assert all(task.secret_env == {"BERTH_ATTEMPT_KEY": "hidden-key"} for task in tasks.values())
    assert "hidden-key" not in repr(tasks)


def test_executors_whose_number_is_a_range_are_allocated_as_they_are_needed():
    settings = settings_of(planned(a_driver(), executors(3, count_min=1), executors(2, "large"))["driver-0"])
    names = ("enabled", "shuffleTracking.enabled", "minExecutors", "maxExecutors", "initialExecutors")
    assert [settings[f"spark.dynamicAllocation.{name}"] for name in names] == ["true", "true", "3", "5", "5"]
    settings = settings_of(planned(a_driver(), executors(3))["driver-0"])
    assert not [name for name in settings if name.startswith("spark.dynamicAllocation")]


def test_executors_of_several_roles_have_the_size_of_the_smallest():
    settings = settings_of(
        planned(a_driver(), executors(1), executors(1, "small", memory_bytes=1024 * MIB, cpu_millis=500))["driver-0"]
    )
    assert (settings["spark.executor.memory"], settings["spark.executor.cores"]) == ("512m", "1")


def test_a_driver_without_a_command_serves():
    plan = plan_of(planned(a_driver(NOTHING), executors(1))["driver-0"])
    assert (plan["argv"], len(plan["services"])) == ([], 1)


def test_a_driver_alone_is_spark_in_one_process():
    task = planned(a_driver())["driver-0"]
    assert settings_of(task) == {**SHARED, **OF_THE_DRIVER, "spark.master": "local[2]", "spark.driver.memory": "1792m"}
    assert "services" not in plan_of(task)
    assert task.ports == ("berth-driver", "berth-blocks", "berth-driver-ui")


def test_a_driver_that_says_when_it_is_ready_does_not_wait_for_workers_that_wait_for_it():
    tasks = planned(a_driver(ready=ReadyCheck(log="serving")), executors(1))
    assert "before" not in plan_of(tasks["driver-0"])
    assert plan_of(tasks["executor-0"])["after"] == ["driver"]


@pytest.mark.parametrize(
    ("roles", "code"),
    [
        (shapes(driver=1, executor=2), None),
        (shapes(driver=1, executor=(1, 4), large=2), None),
        (shapes(driver=1), None),
        (shapes(executor=2), "role_missing"),
        (shapes(driver=2, executor=2), "role_single"),
        ({**shapes(driver=1), "executor": RoleShape(1, 1, 0, (), 1023 * MIB)}, "role_memory"),
    ],
)
def test_the_roles_that_spark_takes(roles, code):
    assert [error.code for error in SPARK.validate(roles)] == ([code] if code else [])


def test_one_command_without_roles_is_the_drivers():
    roles = SPARK.short_roles({"command": "python3 app.py", "replicas": 2, "resources": {"cpu": 1}})
    assert roles == {
        "driver": {"command": "python3 app.py", "resources": {"cpu": 1}},
        "executor": {"replicas": 2, "resources": {"cpu": 1}},
    }


def test_only_a_driver_with_executors_needs_no_command():
    assert SPARK.default_command("driver", ["driver", "executor"]) == NOTHING
    assert SPARK.default_command("executor", ["driver", "executor"]) == NOTHING
    assert SPARK.default_command("driver", ["driver"]) is None


@pytest.mark.capability("4", "The driver's end decides the job")
def test_the_drivers_end_is_that_of_the_job():
    assert SPARK.completion(["driver", "executor"]).chief == "driver"
    assert not SPARK.completion(["driver", "executor"]).vital
