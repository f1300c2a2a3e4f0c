import gc

from django.apps import AppConfig


class ControlplaneConfig(AppConfig):
    name = "controlplane"

    def ready(self) -> None:
        from controlplane import wiring  # Models are loaded only now.

        wiring.register()
        if not gc.isenabled():  # manage.py: what is loaded stays, and is looked through no more.
            gc.freeze()
            gc.enable()
