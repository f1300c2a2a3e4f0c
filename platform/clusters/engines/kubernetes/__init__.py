"""The Kubernetes engine: pods written field by field, a gate that starts each attempt once, watched copies of known age."""

from clusters.engines.kubernetes.config import ConfigInvalid, KubernetesConfig, read_config
from clusters.engines.kubernetes.credentials import read_settings
from clusters.engines.kubernetes.engine import KubernetesEngine
from clusters.engines.kubernetes.factory import build, open_engine

__all__ = ["ConfigInvalid", "KubernetesConfig", "KubernetesEngine", "build", "open_engine", "read_config", "read_settings"]
