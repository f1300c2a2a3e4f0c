from django.apps import AppConfig


class ControlplaneConfig(AppConfig):
    name = "controlplane"

    def ready(self) -> None:
        from controlplane import readiness  # Models are loaded only now.

        readiness.register()
