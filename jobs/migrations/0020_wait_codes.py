"""Two wait codes say which reservation they mean: `reserved` becomes `advance_reservation`, and `booked` `backfill_reservation`.

Jobs that wait, predicted starts and decision records keep such codes. Rows go in batches, each committed by itself, in the order of
their ids: a run that was broken off begins again, and finds only what is left. What a process of the release before writes
meanwhile keeps the earlier name, and is read by it (`kernel/wait_codes.py`).
"""

from django.db import migrations
from django.db.models import Q

BATCH = 1_000
RECORDS = 200  # A record may list dozens of nodes.
NAMES = {"reserved": "advance_reservation", "booked": "backfill_reservation"}
REASONS = {"refuse": "reason", "wait_turned_start": "waited_for"}  # By kind of a decision, where its payload has one.


def name_anew(apps, schema_editor):
    rename(apps, NAMES)


def name_as_before(apps, schema_editor):
    rename(apps, {new: old for old, new in NAMES.items()})


def rename(apps, names):
    for old, new in names.items():
        waiting = apps.get_model("jobs", "Job").objects.filter(state="queued", reason_code=old)
        for ids in batches(waiting.values_list("id", flat=True), BATCH):
            waiting.filter(id__in=ids).update(reason_code=new)
        predicted = apps.get_model("jobs", "StartPrediction").objects.filter(now_reason=old)
        for ids in batches(predicted.values_list("id", flat=True), BATCH):
            predicted.filter(id__in=ids).update(now_reason=new)
    rename_in_records(apps.get_model("jobs", "DecisionRecord"), names)


def rename_in_records(record, names):
    named = Q()
    for kind, key in REASONS.items():
        named |= Q(kind=kind, **{f"payload__{key}__code__in": list(names)})
    for ids in batches(record.objects.filter(named).values_list("id", flat=True), RECORDS):
        rows = list(record.objects.filter(id__in=ids).only("id", "kind", "payload"))
        for row in rows:
            reason = row.payload[REASONS[row.kind]]
            reason["code"] = names[reason["code"]]
        record.objects.bulk_update(rows, ["payload"])


def batches(ids, size):
    """Ids in their order, a statement for each batch. No id comes twice, also where its row is still found."""
    last = None
    while found := list((ids.filter(id__gt=last) if last is not None else ids).order_by("id")[:size]):
        yield found
        last = found[-1]


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("jobs", "0019_start_predictions")]
    operations = [migrations.RunPython(name_anew, name_as_before)]
