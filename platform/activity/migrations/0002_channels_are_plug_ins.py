"""The channel's choices leave the column: they are the plug-ins that there are. Nothing changes in the database."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("activity", "0001_initial")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(model_name="subscription", name="channel", field=models.CharField(max_length=10))
            ]
        )
    ]
