"""Which weights were found best for what a pool usually gets."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("clusters", "0008_gpu_faults")]
    operations = [
        migrations.AddField("poolmeasure", "learned", models.JSONField(null=True)),
        migrations.AddField("poolmeasure", "learned_at", models.DateTimeField(null=True)),
    ]
