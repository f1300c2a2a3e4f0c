"""Limits that tenants ask for."""

import django.db.models.deletion
import kernel.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0007_grants'),
    ]

    operations = [
        migrations.CreateModel(
            name='QuotaRequest',
            fields=[
                ('id', models.UUIDField(default=kernel.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('state', models.CharField(default='pending', max_length=10)),
                ('changes', models.JSONField()),
                ('reason', models.CharField(blank=True, default='', max_length=1000)),
                ('effective_from', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('decided_at', models.DateTimeField(null=True)),
                ('answer', models.CharField(blank=True, default='', max_length=1000)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='quota_requests', to=settings.AUTH_USER_MODEL)),
                ('decided_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('edit', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='requests', to='tenants.quotaedit')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='quota_requests', to='tenants.tenant')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'id'], name='quota_request_tenant'), models.Index(condition=models.Q(('state', 'pending')), fields=['expires_at'], name='quota_request_pending')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ('pending', 'approved', 'denied', 'withdrawn', 'expired'))), name='quota_request_state_known')],
            },
        ),
    ]
