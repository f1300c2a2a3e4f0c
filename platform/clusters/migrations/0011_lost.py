"""Whether an operator has declared a cluster lost."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("clusters", "0010_access")]
    operations = [migrations.AddField("cluster", "lost_at", models.DateTimeField(null=True))]
