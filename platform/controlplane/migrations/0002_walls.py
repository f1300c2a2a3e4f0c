from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0001_selftest'),
    ]

    operations = [
        migrations.AddField(
            model_name='selftest',
            name='walls',
            field=models.JSONField(default=list, help_text='What a job could reach on each local cluster, wall by wall.'),
        ),
    ]
