"""Kept answers know the rights that they were given to, and which of them were shown once."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("webapi", "0002_facts")]
    operations = [
        migrations.AddField(model_name="idempotencykey", name="rights", field=models.JSONField(null=True)),
        migrations.AddField(
            model_name="idempotencykey",
            name="is_shown_once",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
