"""What a list of the operators' console may be asked: by the filters that its page shows, and by nothing else."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib import admin
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IncorrectLookupParameters
from django.db import connection
from django.db.models import Field
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from clusters.models import Cluster
from tenants.models import User
from tests.factories.clusters import a_cluster
from tests.factories.tenants import make_tenant, make_token, make_user
from webapi.console import FILTER_LOOKUPS, Record

pytestmark = pytest.mark.database
PASSWORD = "correct horse battery"
SECRET_NAMES = re.compile(r"password|digest$|secret|cipher|^config$|_key$|^key$|recovery|totp|sealed$")
NO_SECRETS = {"code_digest", "image_digest"}  # Names of contents, which the jobs' pages show.
LOOKUPS = ("startswith", "regex", "iregex", "contains", "icontains", "gt", "lt", "in", "range", "has_key", "contained_by", "year")
ODD = ("", "x", "[", "{}", "null", "99999999999999999999", "-1", "1e400", "0001-01-01", "9999-12-31T23:59:59-14:00", "%")

RECORDS: dict[str, Record] = {model._meta.label: record for model, record in admin.site._registry.items()}  # type: ignore[misc]


@pytest.fixture
def otto(db: None) -> User:
    return make_user(f"otto-{secrets.token_hex(4)}", is_operator=True, password=PASSWORD)


@pytest.fixture
def console(otto: User) -> Client:
    client = Client(REMOTE_ADDR=f"2001:db8:{secrets.randbelow(1 << 16):x}:{secrets.randbelow(1 << 16):x}::2")
    assert client.post("/admin/login/", {"username": otto.name, "password": PASSWORD}).status_code == 302
    return client


def list_of(record: Record) -> str:
    return reverse(f"admin:{record.model._meta.app_label}_{record.model._meta.model_name}_changelist")


def paths(record: Record) -> Iterator[str]:
    """Every column of the rows, and every column of the rows that they refer to."""
    for field in record.model._meta.concrete_fields:
        yield field.name
        if field.related_model is not None:
            yield from (f"{field.name}__{name.name}" for name in field.related_model._meta.concrete_fields)


def declared(record: Record) -> set[str]:
    return {f"{name}{ending}" for name in record.list_filter for ending in FILTER_LOOKUPS}


def test_every_page_of_the_console_is_one_of_records() -> None:
    assert all(isinstance(record, Record) for record in admin.site._registry.values())


def test_every_secret_column_is_kept_from_the_pages() -> None:
    columns = {(label, field.name) for label, record in RECORDS.items() for field in record.model._meta.concrete_fields}
    secret = {(label, name) for label, name in columns if SECRET_NAMES.search(name) and name not in NO_SECRETS}
    assert secret == {(label, name) for label, record in RECORDS.items() for name in record.secrets}


def test_a_password_cannot_be_guessed_sign_by_sign(console: Client, otto: User) -> None:
    token = make_token(otto).token
    for page, column, value in (("user", "password", otto.password), ("token", "digest", token.digest)):
        for lookup in ("startswith", "regex", "gt", "exact"):
            name = f"{column}__{lookup}" if lookup != "exact" else column
            answer = console.get(f"/admin/tenants/{page}/?{urlencode({name: value[:5]})}")
            assert answer.status_code == 400, name
    assert console.get(f"/admin/tenants/token/?{urlencode({'user__password__startswith': 'a'})}").status_code == 400
    assert console.get("/admin/tenants/user/?_to_field=password").status_code == 400
    assert console.get(f"/admin/tenants/user/{otto.pk}/change/?_to_field=password").status_code == 400


@pytest.mark.parametrize("label", RECORDS)
def test_a_list_is_filtered_by_what_its_page_offers_alone(label: str, otto: User) -> None:
    record = RECORDS[label]
    request = RequestFactory().get(list_of(record))
    request.user = otto
    wrong = []
    for path in paths(record):
        for key in (path, *(f"{path}__{lookup}" for lookup in LOOKUPS)):
            if key in declared(record):
                continue
            request.GET = request.GET.copy()
            request.GET.clear()
            request.GET[key] = "a"
            try:
                record.get_changelist_instance(request)
            except DisallowedModelAdminLookup:
                continue
            wrong.append(key)
    assert not wrong


@pytest.mark.parametrize("label", RECORDS)
def test_an_odd_value_of_a_filter_or_a_search_breaks_no_page(label: str, otto: User, console: Client) -> None:
    record = RECORDS[label]
    request = RequestFactory().get(list_of(record))
    request.user = otto
    for key in sorted(declared(record)):
        for value in ODD:
            request.GET = request.GET.copy()
            request.GET.clear()
            request.GET[key] = value
            try:
                list(record.get_changelist_instance(request).result_list)
            except IncorrectLookupParameters:
                continue  # The page leads back to the whole list.
    for key, value in (
        ("q", ""),
        ("q", "["),
        ("q", "\udcff"),
        ("o", ODD[5]),
        ("o", "x"),
        ("p", ODD[5]),
        ("p", "x"),
        ("all", "x"),
    ):
        answer = console.get(f"{list_of(record)}?{urlencode({key: value}, errors='surrogateescape')}")
        assert answer.status_code in {200, 302, 400}, f"{key}={value}"


def test_a_json_column_is_refused_rather_than_broken(console: Client) -> None:
    json_columns = [
        (record, field)
        for record in RECORDS.values()
        for field in record.model._meta.concrete_fields
        if field.get_internal_type() == "JSONField"
    ]
    assert json_columns
    for record, field in json_columns:
        assert isinstance(field, Field)
        for lookup in ("contains", "has_key", "isnull"):
            assert console.get(f"{list_of(record)}?{field.name}__{lookup}=x").status_code == 400, f"{record} {field.name}"


def test_no_statement_of_a_page_reads_a_secret_column(console: Client, otto: User) -> None:
    cluster: Any = a_cluster("here").with_nodes(1, gpus=1).build()
    user = make_user("mia", tenant=make_tenant(), kind="service")
    token = make_token(user).token
    rows = {"tenants.User": user.pk, "tenants.Token": token.pk, "clusters.Cluster": Cluster.objects.get(pk=cluster.pk).pk}
    hidden = {
        f'"{record.model._meta.db_table}"."{record.model._meta.get_field(name).column}"'
        for record in RECORDS.values()
        for name in record.secrets
    }
    signed_in = f'"tenants_user"."id" = \'{otto.pk}\''
    for label, record in RECORDS.items():
        places = [list_of(record), f"{list_of(record)}?q=m"]
        places += [f"{list_of(record)}{rows[label]}/change/"] if label in rows else []
        for place in places:
            with CaptureQueriesContext(connection) as asked:
                assert console.get(place).status_code == 200, place
            said = [entry["sql"] for entry in asked if otto.pk.hex not in entry["sql"] and signed_in not in entry["sql"]]
            assert not [sql for sql in said for column in hidden if column in sql], place
