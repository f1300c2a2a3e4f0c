"""Whoever needs no first steps on the home page any more says so once, not in each browser."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0018_gpu_measures")]
    operations = [migrations.AddField("preference", "first_steps_done", models.BooleanField(default=False, db_default=False))]
