"""What the platform relies on in Celery: messages are hints that may be lost, doubled or late, and nothing else."""

from __future__ import annotations

import pytest
from kombu.exceptions import EncodeError

import controlplane.celery as berth_celery
from controlplane import duties
from controlplane.celery import app
from kernel.config import Config, current
from kernel.limits import ENVELOPE_SECONDS


def test_a_message_is_acknowledged_when_its_task_is_done_and_given_back_when_its_worker_dies() -> None:
    assert app.conf.task_acks_late is True
    assert app.conf.task_reject_on_worker_lost is True
    assert app.conf.worker_prefetch_multiplier == 1


def test_no_task_says_otherwise_for_itself() -> None:
    app.loader.import_default_modules()
    ours = {name: task for name, task in app.tasks.items() if not name.startswith("celery.")}
    assert set(duties.cluster_hints().values()) | set(duties.plain_hints().values()) <= set(ours)
    for name, task in ours.items():
        assert (task.acks_late, task.reject_on_worker_lost, task.ignore_result) == (True, True, True), name
        assert task.serializer == "json", name


def test_only_json_is_sent_and_taken() -> None:
    assert app.conf.task_serializer == "json"
    assert app.conf.accept_content == ["json"]
    with pytest.raises(EncodeError):
        app.send_task("jobs.poll", kwargs={"cluster_id": object()})


def test_no_result_is_stored() -> None:
    assert app.conf.result_backend is None
    assert app.conf.task_ignore_result is True
    assert type(app.backend).__name__ == "DisabledBackend"


def test_the_visibility_timeout_is_the_same_in_all_three_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has another one delivers messages again while their tasks still run."""
    assert app.conf.visibility_timeout == Config().visibility_seconds
    assert app.conf.result_backend_transport_options["visibility_timeout"] == Config().visibility_seconds
    assert berth_celery.transport_options("redis://host/0")["visibility_timeout"] == Config().visibility_seconds
    assert Config().visibility_seconds >= 10 * ENVELOPE_SECONDS


def test_memory_is_asked_often_enough_to_feel_immediate() -> None:
    assert berth_celery.transport_options("")["polling_interval"] <= 0.05
    assert app.conf.broker_transport_options == berth_celery.transport_options(current().redis_url)


def test_logs_stay_ours() -> None:
    assert app.conf.worker_hijack_root_logger is False
    assert app.conf.worker_redirect_stdouts is False


def test_there_is_no_beat() -> None:
    assert not app.conf.beat_schedule
