import gc

from django.apps import AppConfig


class ControlplaneConfig(AppConfig):
    name = "controlplane"

    def ready(self) -> None:
        from clusters.telemetry import register_collector_source
        from controlplane import readiness, rules  # Models are loaded only now.
        from controlplane.selftest.run import selftest_metrics

        readiness.register()
        rules.register_rules()
        register_collector_source("selftest", selftest_metrics)
        if not gc.isenabled():  # manage.py: what is loaded stays, and is looked through no more.
            gc.freeze()
            gc.enable()
