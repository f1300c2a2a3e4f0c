"""How long the platform held capacity for an attempt, beside how long its tasks ran, which alone is charged."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0020_limit_changes")]
    operations = [migrations.AddField("ledgerentry", "held_seconds", models.BigIntegerField(null=True))]
