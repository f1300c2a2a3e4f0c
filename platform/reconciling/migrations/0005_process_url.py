"""A process that serves says where."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reconciling", "0004_stale_results")]
    operations = [migrations.AddField("process", "url", models.CharField(max_length=300, default="", db_default=""))]
