"""Spark's own processes as tasks of a job: one cluster runs the example, then a program that ends executors, then a stranger."""

from __future__ import annotations

import re

import pytest

import berth
from tests.builders.frameworks import SYSTEM_PATH, framework_path
from tests.builders.live import Json, LivePlatform
from tests.engines.test_frameworks import example

pytestmark = pytest.mark.frameworks

LOSING = """
import json, os, signal, time, urllib.request
from pyspark import TaskContext
from pyspark.sql import SparkSession
SparkSession.stop = lambda session: None  # The example is over then; its application goes on here.
exec(open("count.py").read())

def ancestor(name):
    pid = os.getpid()
    while name not in open(f"/proc/{pid}/cmdline").read():
        pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    return pid

def end_once(name):
    def summed(index, numbers):
        if index == 0 and TaskContext.get().attemptNumber() == 0:
            os.kill(ancestor(name), signal.SIGKILL)
        yield sum(numbers)
    return summed

def executors():
    with urllib.request.urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/allexecutors") as answer:
        entries = [entry for entry in json.load(answer) if entry["id"] != "driver"]
    return sorted(entry["id"] for entry in entries if entry["isActive"])

def wait_for_two(lost):
    deadline = time.monotonic() + 60
    while len(executors()) < 2 or any(name in executors() for name in lost):
        assert time.monotonic() < deadline, executors()
        time.sleep(0.2)

for name in ("executor.CoarseGrainedExecutorBackend", "worker.Worker"):
    wait_for_two([])
    before = executors()
    total = context.parallelize(range(1000), 4).mapPartitionsWithIndex(end_once(name)).sum()
    print(f"sum {total} though {name} was ended", flush=True)
wait_for_two([])
print("executors at the end:", *executors(), flush=True)
"""
STRANGER = """
import os, shutil, socket, subprocess, sys
folder = os.environ["TMPDIR"]
own = os.environ["SPARK_CONF_DIR"]
settings = dict(line.split(maxsplit=1) for line in open(own + "/spark-defaults.conf"))
shutil.copy(own + "/java-opts", folder)
with open(folder + "/spark-defaults.conf", "w") as file:
    file.write(f"spark.master {settings['spark.master']}\\nspark.authenticate true\\nspark.authenticate.secret guessed\\n")
program = "from pyspark import SparkContext; SparkContext(appName='stranger')"
process = subprocess.Popen(
    [sys.executable, "-c", program], env={**os.environ, "SPARK_CONF_DIR": folder}, stderr=subprocess.PIPE, text=True
)
lines = []
for line in process.stderr:
    lines.append(line)
    if "SaslException" in line:
        break
print("the stranger was told:", *lines, flush=True)
process.kill()
try:
    socket.create_connection((os.environ["BERTH_HOST"], 6066), timeout=5).close()
except ConnectionRefusedError:
    print("the port for submissions is closed", flush=True)
"""
ALONE = """
import sys
from pyspark import SparkContext
context = SparkContext.getOrCreate()
print("sum", context.parallelize(range(100), 2).sum(), "by", context.master)
sys.exit(3)
"""


OUTSIDE = """
import sys
from pyspark import SparkConf, SparkContext
conf = SparkConf().setMaster(sys.argv[1]).set("spark.driver.host", "127.0.0.1").set("spark.executor.memory", "512m")
conf.set("spark.authenticate", "true").set("spark.authenticate.secret", "in the variable")
print("sum", SparkContext(conf=conf).parallelize(range(100), 2).sum(), "by a driver outside")
"""


def environment() -> dict[str, str]:
    """A job's, in which Java compiles what it runs no further than pays within seconds."""
    return {"PATH": f"{framework_path('spark')}:{SYSTEM_PATH}", "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}


@pytest.fixture(scope="module")
def ended(live_platform: LivePlatform, tmp_path_factory: pytest.TempPathFactory) -> tuple[Json, str]:
    """The job when it has ended, and what it printed."""
    spec = example("spark", env={**environment(), "LOSING": LOSING, "STRANGER": STRANGER})
    spec["roles"]["driver"]["command"] = 'python3 -c "$LOSING" && python3 -c "$STRANGER"'
    config = tmp_path_factory.mktemp("sdk") / "none.toml"
    with berth.Client(live_platform.url, live_platform.token, tenant=live_platform.operator.tenant, config_path=config) as sdk:
        job = live_platform.wait(sdk.jobs.submit(spec).id, timeout=240)
    text = live_platform.logs(job)
    assert job["state"] == "succeeded", text
    return job, text


@pytest.mark.capability("4", "A driver and two executors run a Spark job, on Spark's own processes")
def test_words_are_counted_and_a_line_is_fitted_over_two_executors(ended: tuple[Json, str]) -> None:
    assert "executors: executor-0 executor-1\n" in ended[1]
    assert "words: the 6000 driver 2000 end 2000\n" in ended[1]
    assert "slope 3.000 offset 1.000\n" in ended[1]


@pytest.mark.capability("4", "A Spark job goes on without an executor that was ended")
def test_a_lost_executor_is_replaced_by_spark(ended: tuple[Json, str]) -> None:
    assert "sum 499500 though executor.CoarseGrainedExecutorBackend was ended\n" in ended[1]
    assert re.search(r"executors at the end: \d+ \d+\n", ended[1])


def test_a_lost_worker_is_started_again_alone(ended: tuple[Json, str]) -> None:
    assert "sum 499500 though worker.Worker was ended\n" in ended[1]
    assert ended[1].count("berth: the command was ended by signal 9; it is started again (1 of 3)\n") == 1
    assert ended[0]["attempt"] == 1


def test_a_stranger_without_the_secret_registers_no_application(ended: tuple[Json, str]) -> None:
    assert "Registering app count" in ended[1]
    assert "Registering app stranger" not in ended[1]
    assert "the stranger was told:" in ended[1]
    assert "javax.security.sasl.SaslException" in ended[1]
    assert "the port for submissions is closed\n" in ended[1]


@pytest.mark.capability("4", "A driver alone runs Spark in one process, and its exit code is the job's")
def test_a_driver_alone_is_spark_in_one_process_and_its_end_the_jobs(live_platform: LivePlatform) -> None:
    driver = {"command": 'echo "$PROGRAM" >app.py; spark-submit app.py', "resources": {"cpu": 2, "memory": "1Gi"}}
    spec = {"name": "alone", "framework": "spark", "roles": {"driver": driver}, "env": {**environment(), "PROGRAM": ALONE}}
    job = live_platform.submit(spec, wait=True)
    assert "sum 4950 by local[2]\n" in live_platform.logs(job)
    assert (job["state"], job["exit"]["code"]) == ("failed", 3)


@pytest.mark.slow
def test_the_template_counts_with_executors_allocated_as_needed(live_platform: LivePlatform) -> None:
    operator = live_platform.operator
    [template] = [shipped for shipped in operator.items("/templates") if shipped["name"] == "spark"]
    values = {"memory": "1Gi"}
    spec = operator.api("POST", f"/templates/{template['id']}/render", {"parameters": values, **operator.in_tenant})["spec"]
    spec["roles"]["executor"]["replicas"] = {"min": 1, "max": 2}
    job = live_platform.submit({**spec, "env": environment()}, wait=True)
    text = live_platform.logs(job)
    assert job["state"] == "succeeded", text
    assert "words: driver 1000 executors 1000 more 1000 one 2000 or 1000\n" in text


@pytest.mark.slow
def test_a_driver_outside_uses_a_cluster_that_serves_by_the_secret_of_both(live_platform: LivePlatform) -> None:
    tenant = live_platform.operator.tenant
    live_platform.operator.api("PUT", f"/tenants/{tenant}/secrets/SPARK", {"value": "known-to-both"})
    shared = {"env": environment(), "secrets": {"_SPARK_AUTH_SECRET": "SPARK"}}
    small = {"resources": {"cpu": 1, "memory": "1Gi"}}
    cluster = live_platform.submit(
        {"name": "serves", "framework": "spark", "roles": {"driver": small, "executor": small}, **shared}
    )
    text = live_platform.operator.wait_for_line(cluster, "Registering worker")
    [url] = set(re.findall(r"Starting Spark master at (spark://\S+)", text))
    shared["env"]["JDK_JAVA_OPTIONS"] += " -XX:-UseContainerSupport"
    client = {"name": "uses", "command": ["python3", "-c", OUTSIDE, url], **small, **shared}
    job = live_platform.submit(client, wait=True)
    assert "sum 4950 by a driver outside\n" in live_platform.logs(job)
    live_platform.operator.stop(cluster)
    assert live_platform.wait(cluster)["state"] == "stopped"


def test_the_event_log_is_an_artifact(ended: tuple[Json, str], live_platform: LivePlatform) -> None:
    files = {artifact["path"]: artifact["size_bytes"] for artifact in live_platform.operator.artifacts(ended[0])}
    events = [path for path in files if re.match(r"spark-events/eventlog_v2_app-[^/]+/events_1_app-", path)]
    assert [files[path] > 1000 for path in events] == [True]
