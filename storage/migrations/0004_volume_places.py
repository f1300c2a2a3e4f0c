from django.db import migrations, models
from django.db.models.deletion import SET_NULL

KINDS = [("local", "Local"), ("claim", "Claim"), ("nfs", "Nfs")]


class Migration(migrations.Migration):
    dependencies = [("storage", "0003_checkpoint"), ("clusters", "0011_lost")]
    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField("volume", "kind", models.CharField(choices=KINDS, default="local", max_length=20))
            ]
        ),
        migrations.AddField(
            "volume",
            "cluster",
            models.ForeignKey(db_index=False, null=True, on_delete=SET_NULL, related_name="+", to="clusters.cluster"),
        ),
        migrations.AddField("volume", "claim", models.CharField(blank=True, db_default="", default="", max_length=253)),
        migrations.AddField("volume", "server", models.CharField(blank=True, db_default="", default="", max_length=253)),
        migrations.AddField("volume", "export", models.CharField(blank=True, db_default="", default="", max_length=500)),
    ]
