"""When each cluster was last looked at, so that an attempt whose end nobody tells is charged no further."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0013_code_commit")]
    operations = [
        migrations.CreateModel(
            name="ClusterLook",
            fields=[
                ("cluster_id", models.UUIDField(primary_key=True, serialize=False)),
                ("looked_at", models.DateTimeField()),
            ],
        ),
    ]
