"""Evidence against the GPUs of a node."""

from django.db import migrations, models
from django.db.models import Value


class Migration(migrations.Migration):
    dependencies = [("clusters", "0007_abilities")]
    operations = [
        migrations.AddField(
            "node",
            "gpu_faults",
            models.JSONField(blank=True, default=list, db_default=Value([], models.JSONField())),
        ),
    ]
