"""What GPUs did while they were held, kept beside the ledger for as long as it is."""

import django.db.models.deletion
import kernel.ids
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("tenants", "0017_portal_facts"),
    ]

    operations = [
        migrations.AddField(
            model_name="usageday",
            name="gpu_busy_milli_seconds",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="usageday",
            name="gpu_measured_milli_seconds",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.CreateModel(
            name="LedgerMeasure",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=kernel.ids.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("day", models.IntegerField()),
                ("measured_milli_seconds", models.BigIntegerField()),
                ("busy_milli_seconds", models.BigIntegerField()),
                (
                    "entry",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="measures",
                        to="tenants.ledgerentry",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("entry", "day"), name="measured_once_a_day"
                    )
                ],
            },
        ),
    ]
