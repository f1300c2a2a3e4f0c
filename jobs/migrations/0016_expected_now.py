"""The expected start as it was looked ahead last, beside the first one, which is kept to be judged."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0015_checkpoint")]
    operations = [
        migrations.AddField("startpromise", "now_p50_at", models.DateTimeField(null=True)),
        migrations.AddField("startpromise", "now_p90_at", models.DateTimeField(null=True)),
        migrations.AddField("startpromise", "now_reason", models.CharField(max_length=40, default="", db_default="")),
        migrations.AddField("startpromise", "looked_at", models.DateTimeField(null=True)),
    ]
