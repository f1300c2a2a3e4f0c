from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("clusters", "0003_facts")]
    operations = [
        migrations.AddField("node", "taints", models.JSONField(null=True)),
        migrations.AddField("pool", "rules", models.JSONField(null=True)),
        migrations.AddField("pool", "version", models.PositiveIntegerField(db_default=1, default=1)),
    ]
