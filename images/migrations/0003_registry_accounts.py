"""Accounts of tenants at registries."""

import django.db.models.deletion
import kernel.ids
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('images', '0002_facts'),
        ('tenants', '0024_default_runtime'),
    ]

    operations = [
        migrations.CreateModel(
            name='RegistryAccount',
            fields=[
                ('id', models.UUIDField(default=kernel.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('host', models.CharField(max_length=255)),
                ('username', models.CharField(max_length=255)),
                ('ciphertext', models.TextField()),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'host'), name='registry_account_once')],
            },
        ),
    ]
