from django.apps import AppConfig


class ClustersConfig(AppConfig):
    name = "clusters"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from clusters.telemetry import prometheus  # Models are loaded only now.
        from webapi.metrics import register_collector

        prometheus.register_collector_source("clusters", prometheus.cluster_families)
        register_collector(prometheus.BerthCollector())
