"""Predicted starts get their name in the code; their table, its columns and its index keep theirs, and no statement runs."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0018_expected_error")]
    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    "startpromise",
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="startprediction", to="jobs.job"
                    ),
                ),
                migrations.RenameModel("StartPromise", "StartPrediction"),
                migrations.AlterModelTable("StartPrediction", "jobs_startpromise"),
            ]
        )
    ]
