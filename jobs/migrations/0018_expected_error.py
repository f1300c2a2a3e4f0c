"""How far off expected starts were of late, beside each, and the likely starts that this is counted from."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0017_predictions")]
    operations = [
        migrations.AddField("startpromise", "now_error_permille", models.IntegerField(null=True)),
        migrations.AddField("startpromise", "sure_p50_at", models.DateTimeField(null=True)),
    ]
