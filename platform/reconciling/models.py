from django.db import models


class Transition(models.Model):
    """One change of state of one row, written in the transaction that changed it. Append-only."""

    id = models.UUIDField(primary_key=True)
    tenant_id = models.UUIDField(null=True)
    subject_kind = models.CharField(max_length=20)
    subject_id = models.UUIDField()
    job_id = models.UUIDField(null=True)
    from_state = models.CharField(max_length=20)
    to_state = models.CharField(max_length=20)
    reason = models.CharField(max_length=80, blank=True, default="")
    detail = models.JSONField(default=dict)
    actor = models.CharField(max_length=200, default="")
    at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["subject_kind", "subject_id", "id"], name="transition_subject"),
            models.Index(fields=["job_id", "id"], name="transition_job"),
        ]

    def __str__(self) -> str:
        return f"{self.subject_kind} {self.subject_id}: {self.from_state} -> {self.to_state}"


class Lease(models.Model):
    """Leadership of one named activity, held until it expires by the database's clock; `token` fences late writers."""

    name = models.CharField(max_length=100, primary_key=True)
    token = models.UUIDField(null=True)
    holder = models.CharField(max_length=200, default="")
    expires_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"lease {self.name} held by {self.holder or 'nobody'}"


class Tick(models.Model):
    """A periodic duty. The process that claims the due row does it; missed times coalesce into one."""

    name = models.CharField(max_length=100, primary_key=True)
    every_millis = models.PositiveIntegerField()
    due_at = models.DateTimeField()
    claimed_by = models.CharField(max_length=200, default="")

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="tick_due")]

    def __str__(self) -> str:
        return f"tick {self.name}"


class Poison(models.Model):
    """A row that made a handler raise, with its strikes; set aside after three. Written by `reconciling.poison` alone."""

    handler = models.CharField(max_length=60)
    subject_id = models.UUIDField()
    tries = models.PositiveIntegerField(default=0)
    error = models.TextField(default="")
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    due_at = models.DateTimeField()
    set_aside_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["handler", "subject_id"], name="poison_once")]

    def __str__(self) -> str:
        return f"{self.handler} {self.subject_id}: {self.tries} strikes"


class Process(models.Model):
    """One process of the platform that lives, or died without a word. Told of, never decided by."""

    id = models.UUIDField(primary_key=True)
    role = models.CharField(max_length=20)
    host = models.CharField(max_length=200)
    pid = models.PositiveIntegerField()
    version = models.CharField(max_length=40)
    url = models.CharField(max_length=300, default="", db_default="")  # Where its host reaches it; empty: it serves nothing.
    leads = models.JSONField(default=list)  # Names of leases.
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.role} {self.host}:{self.pid}"


class Installation(models.Model):
    """The one row that names this installation, wherever its processes run; made once and never changed."""

    number = models.PositiveSmallIntegerField(primary_key=True, default=1)
    id = models.UUIDField()
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"installation {self.id}"


class StaleResults(models.Model):
    """How many results of one kind of work were dropped because their lease had passed to another process."""

    work = models.CharField(max_length=60, primary_key=True)
    rows = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.rows} stale results of {self.work}"
