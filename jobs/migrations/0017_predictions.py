"""How long a job will run, as the scheduler plans with."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0016_expected_now")]
    operations = [
        migrations.AddField("job", "predicted_seconds", models.BigIntegerField(null=True)),
        migrations.AddField("job", "cautious_seconds", models.BigIntegerField(null=True)),
    ]
