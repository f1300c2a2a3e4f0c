"""What nodes hold of images and data, and how pools are filled: tables of their own, so that nothing of nodes and pools is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("clusters", "0004_placement")]
    operations = [
        migrations.CreateModel(
            name="NodeContents",
            fields=[
                (
                    "node",
                    models.OneToOneField(
                        on_delete=models.CASCADE, primary_key=True, related_name="contents", serialize=False, to="clusters.node"
                    ),
                ),
                ("images", models.JSONField(default=list)),
                ("data", models.JSONField(default=list)),
                ("version", models.PositiveIntegerField(default=1)),
            ],
        ),
        migrations.CreateModel(
            name="PoolMeasure",
            fields=[
                (
                    "pool",
                    models.OneToOneField(
                        on_delete=models.CASCADE, primary_key=True, related_name="measure", serialize=False, to="clusters.pool"
                    ),
                ),
                ("mix", models.JSONField(default=list)),
                ("mixed_at", models.DateTimeField(null=True)),
                ("fragmentation_millis", models.IntegerField(null=True)),
                ("idle", models.JSONField(default=dict)),
                ("measured_at", models.DateTimeField(null=True)),
                ("uneven", models.JSONField(default=dict)),
            ],
        ),
    ]
