"""TensorFlow's own programs, unchanged, as jobs: workers that reduce together, and a parameter server."""

from __future__ import annotations

import pytest

from tests.builders.frameworks import SYSTEM_PATH, framework_path, run_template
from tests.builders.live import Json, LivePlatform

pytestmark = pytest.mark.frameworks

HEAD = """
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import tensorflow as tf
import tf_keras as keras
import numpy as np
"""
TOGETHER = (
    HEAD
    + """
strategy = tf.distribute.MultiWorkerMirroredStrategy()
task = json.loads(os.environ["TF_CONFIG"])["task"]
folder = os.environ["BERTH_CHECKPOINT_DIR"]
x = np.arange(64, dtype="float32").reshape(64, 1) / 64
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
print("replicas", strategy.num_replicas_in_sync, flush=True)

class Notes(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(f"{task['type']}-{task['index']} epoch {epoch}", flush=True)
        if epoch == 2 and task["index"] == 1 and os.environ["BERTH_ATTEMPT"] == "1":
            os.kill(os.getpid(), 9)

model.fit(x, 3 * x, epochs=5, batch_size=16, verbose=0,
          callbacks=[keras.callbacks.BackupAndRestore(folder + "/backup"), Notes()])
print("trained", flush=True)
"""
)


def a_job(roles: Json, **more: object) -> Json:
    path = f"{framework_path('tensorflow')}:{SYSTEM_PATH}"
    return {"name": "tf", "framework": "tensorflow", "roles": roles, "env": {"PATH": path}, **more}


def a_role(program: str | None = None, **more: object) -> Json:
    command = {} if program is None else {"command": ["python3", "-c", program]}
    return {"resources": {"cpu": 1, "memory": "2Gi"}, **command, **more}


@pytest.mark.capability("73", "Two real workers reduce together; after one was killed both go on from their backup")
def test_workers_that_reduce_together_go_on_from_their_backup(live_platform: LivePlatform) -> None:
    spec = a_job(
        {"worker": a_role(TOGETHER, replicas=2)},
        checkpoint={"path": "kept"},
        retry={"limit": 1},
    )
    job = live_platform.submit(spec, wait=True)
    first, second = (live_platform.logs(job, attempt=number) for number in (1, 2))
    assert job["state"] == "succeeded", first + second
    assert "replicas 2" in first
    assert "worker-1 epoch 2" in first
    assert "trained" not in first
    assert "worker-1 epoch 1" not in second
    assert "worker-0 epoch 4" in second
    assert second.count("trained") == 2


def test_the_workers_of_a_template_fit_a_line_together(live_platform: LivePlatform) -> None:
    job = run_template(live_platform, "tensorflow-workers", framework_path("tensorflow"))
    assert job["state"] == "succeeded", live_platform.logs(job)
    assert "worker 1 of 2 slope 3.0 offset 1.0" in live_platform.logs(job)


@pytest.mark.capability("73", "The chief's end decides: parameter server and workers, which never end, are stopped after it")
def test_parameter_servers_are_ended_when_the_chief_has_ended(live_platform: LivePlatform) -> None:
    job = run_template(live_platform, "tensorflow-ps", framework_path("tensorflow"))
    assert job["state"] == "succeeded", live_platform.logs(job)
    assert "steps 100" in live_platform.logs(job)
    states = sorted((task["role"], task["state"]) for task in live_platform.operator.items(f"/jobs/{job['id']}/tasks"))
    assert states == [("chief", "succeeded"), ("ps", "stopped"), ("worker", "stopped"), ("worker", "stopped")]


def test_an_image_without_tensorflow_is_said_at_the_start(live_platform: LivePlatform) -> None:
    spec = {**a_job({"worker": a_role("import tensorflow")}), "env": {"PATH": f"{framework_path('dask')}:{SYSTEM_PATH}"}}
    job = live_platform.submit({**spec, "retry": {"limit": 3}}, wait=True)
    assert (job["state"], job["exit"]["class"]) == ("failed", "package_absent")
    assert len(live_platform.operator.items(f"/jobs/{job['id']}/attempts")) == 1
    assert "not installed in the image: tensorflow. Add it: pip install tensorflow" in live_platform.logs(job)
