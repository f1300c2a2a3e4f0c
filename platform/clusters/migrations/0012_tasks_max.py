"""How many tasks a node takes, whatever they need."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("clusters", "0011_lost")]
    operations = [migrations.AddField("node", "tasks_max", models.PositiveIntegerField(null=True))]
