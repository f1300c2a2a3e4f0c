"""The table of metrics is closed and says its units."""

from clusters.models import METRIC_LENGTH
from clusters.telemetry import metrics


def test_every_name_ends_in_its_unit_or_counts() -> None:
    endings = {
        metrics.Unit.CORES_THOUSANDTHS: "_millis",
        metrics.Unit.RATIO: "_ratio",
        metrics.Unit.BYTES: "_bytes",
        metrics.Unit.BYTES_PER_SECOND: "_bytes_per_second",
        metrics.Unit.WATTS: "_watts",
        metrics.Unit.CELSIUS: "_celsius",
        metrics.Unit.CODE: "_code",
        metrics.Unit.COUNT: "",
    }
    for metric in metrics.METRICS.values():
        assert metric.name.endswith(endings[metric.unit]), metric.name


def test_names_and_subjects_fit_their_columns() -> None:
    assert all(len(name) <= METRIC_LENGTH for name in metrics.METRICS)


def test_a_subject_tells_its_kind_and_a_strange_text_has_none() -> None:
    assert metrics.kind_of(metrics.node_subject("host-1")) is metrics.SubjectKind.NODE
    assert metrics.kind_of(metrics.gpu_subject("host-1", "GPU-1")) is metrics.SubjectKind.GPU
    for text in ("", "node", "node:", "job:1", "NODE:x"):
        assert metrics.kind_of(text) is None
