from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reconciling", "0003_processes")]

    operations = [
        migrations.CreateModel(
            name="StaleResults",
            fields=[
                ("work", models.CharField(max_length=60, primary_key=True, serialize=False)),
                ("rows", models.BigIntegerField(default=0)),
            ],
        ),
    ]
