"""A request that is sent twice has its effect once."""

import threading
from datetime import timedelta

import pytest
from django.db import connection

from kernel.clock import database_now
from webapi.idempotency import delete_expired
from webapi.models import IdempotencyKey

pytestmark = pytest.mark.database


def effects():
    return IdempotencyKey.objects.filter(operation="effect").count()


def send(client, key="k", body=None, path="/api/v1/effects"):
    headers = {"HTTP_IDEMPOTENCY_KEY": key} if key else {}
    return client.post(path, body or {}, format="json", **headers)


def test_the_same_request_is_answered_from_the_first_one(alice):
    first, second = send(alice), send(alice)

    assert effects() == 1
    assert (second.status_code, second.json()) == (201, first.json())
    assert second["Idempotency-Replayed"] == "true"
    assert second["Location"] == first["Location"]
    assert "Idempotency-Replayed" not in first


def test_a_kept_answer_cannot_be_read_in_the_database(alice):
    identifier = send(alice).json()["id"]

    row = IdempotencyKey.objects.get(key="k")
    assert row.body
    assert identifier not in row.body


def test_without_a_key_every_request_counts(alice):
    send(alice, key="")
    send(alice, key="")

    assert effects() == 2


def test_a_key_with_another_body_or_query_is_refused(alice):
    send(alice)

    for response in (send(alice, body={"other": 1}), send(alice, path="/api/v1/effects?dry_run=1")):
        assert (response.status_code, response.json()["code"]) == (422, "idempotency_key_reused")
    assert effects() == 1


def test_keys_belong_to_their_actor(alice, bob):
    send(alice)
    response = send(bob)

    assert response.status_code == 201
    assert effects() == 2


def test_a_failed_request_keeps_neither_effect_nor_key(alice):
    assert send(alice, body={"fail": True}).status_code == 409
    assert effects() == 0

    assert send(alice, body={"fail": False}).status_code == 201
    assert effects() == 1


@pytest.mark.parametrize("key", ["x" * 201, "a\tb"])
def test_a_key_must_be_short_and_printable(alice, key):
    assert send(alice, key=key).status_code == 422


def test_keys_are_forgotten_after_a_day(alice):
    send(alice)
    row = IdempotencyKey.objects.get(key="k")
    assert row.expires_at - row.created_at == timedelta(hours=24)
    now = database_now()
    assert delete_expired(now=now) == 0

    IdempotencyKey.objects.filter(key="k").update(expires_at=now)
    assert send(alice).json() != {}
    assert effects() == 2

    assert delete_expired(now=now + timedelta(hours=25)) == 3
    assert delete_expired(now=now + timedelta(hours=25)) == 0


@pytest.mark.django_db(transaction=True)
def test_many_at_once_have_one_effect(client_of):
    answers = []

    def call():
        try:
            answers.append(send(client_of("alice-token")))
        finally:
            connection.close()

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert effects() == 1
    assert [answer.status_code for answer in answers] == [201] * 6
    assert len({answer.json()["id"] for answer in answers}) == 1
