"""Budgets in node time. The table is newer than the last release, which does not know it."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0010_shares'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='budget',
            name='budget_kind_known',
        ),
        migrations.AlterField(
            model_name='budget',
            name='kind',
            field=models.CharField(choices=[('money', 'money'), ('gpu_time', 'gpu_time'), ('node_time', 'node_time')], max_length=10),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['money', 'gpu_time', 'node_time'])), name='budget_kind_known'),
        ),
    ]
