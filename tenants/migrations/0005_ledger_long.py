"""Entries of more than a day, by their end: whoever asks what ran at some moment need not read all that ended since."""

from django.db import migrations, models
from django.db.models import Q

from webapi.online import AddIndexOnline


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("tenants", "0004_ledger")]
    operations = [
        AddIndexOnline("ledgerentry", models.Index(fields=["ended_at"], condition=Q(seconds__gt=86_400), name="ledger_long"))
    ]
