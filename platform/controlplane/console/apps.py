from django.contrib.admin.apps import AdminConfig


def _names() -> None:
    from controlplane.console.language import name_in_both_languages  # The registry is there only now.

    name_in_both_languages()


class ConsoleConfig(AdminConfig):
    """Django's admin with our site as the default one: apps register with it as with any other."""

    default_site = "controlplane.console.site.Console"

    def ready(self) -> None:
        super().ready()
        _names()
