"""What people say of themselves stands beside the address that others vouched for, which alone is unique.

Addresses that stand here were unique: they go on as confirmed ones, so that everybody signs in as before.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0021_held_seconds")]
    operations = [
        migrations.AddField("user", "email_claimed", models.EmailField(max_length=254, null=True)),
        migrations.AddField("user", "email_claimed_at", models.DateTimeField(null=True)),
    ]
