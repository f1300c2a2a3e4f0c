"""Changes of what requests remember leave a mark (`webapi.facts`)."""

from django.db import migrations

from webapi.facts import add_triggers, drop_triggers

TABLES = {
    "tenants_token": ("user_id", "prefix", "digest", "scopes", "expires_at", "revoked_at"),
    "tenants_user": ("name", "email", "kind", "tenant_id", "is_operator", "is_active"),
    "tenants_membership": ("tenant_id", "user_id", "role"),
    "tenants_tenant": ("slug", "name", "number", "parent_id"),
    "tenants_tenantancestor": ("tenant_id", "ancestor_id"),
    "tenants_queue": ("tenant_id", "parent_id", "name", "path", "is_top"),
    "tenants_queuelimit": ("queue_id", "pool_id", "resource", "ceiling"),
}


def add(apps, schema_editor):
    for table, columns in TABLES.items():
        add_triggers(schema_editor, table, columns)


def remove(apps, schema_editor):
    for table in TABLES:
        drop_triggers(schema_editor, table)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0002_guards"), ("webapi", "0002_facts")]
    operations = [migrations.RunPython(add, remove)]
