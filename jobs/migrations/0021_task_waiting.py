"""What a task that has not begun waits for."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0020_wait_codes")]
    operations = [migrations.AddField("task", "waiting", models.JSONField(null=True))]
