"""How far a task is, as it said itself."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0021_task_waiting")]
    operations = [migrations.AddField("task", "progress", models.JSONField(null=True))]
