from django.contrib.admin.apps import AdminConfig


class ConsoleConfig(AdminConfig):
    """Django's admin with our site as the default one: apps register with it as with any other."""

    default_site = "controlplane.console.site.Console"
