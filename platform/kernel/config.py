"""Every setting of a Berth server: read once from the environment, typed, with its unit, default and reason.

`BERTH_<NAME>` sets a field. A bad value stops the start and is named. `docs/settings.md` is produced from this table."""

from __future__ import annotations

import ipaddress
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kernel.actor import TenantRole
from kernel.priorities import PRIORITY_MAX

SIMULATED_GPUS = re.compile(r"([1-9][0-9]{0,3})x([A-Za-z0-9][A-Za-z0-9 ._-]{0,62})")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
CURRENCY = re.compile(r"[A-Z]{3}")
INTERVALS = (
    "lease_seconds", "leadership_seconds", "visibility_seconds", "sweep_seconds", "poll_seconds", "telemetry_seconds",
    "start_timeout_seconds",
)  # fmt: skip
LDAP_PACKAGES = ("ldap", "django_auth_ldap")
LDAP_INSTALL = "`make up EXTRAS=ldap`, or `pip install --require-hashes -r requirements-ldap.lock` into the server's environment"
LDAP_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}")
LDAP_FILTERS = {"ldap_user_filter": ("{name}",), "ldap_group_filter": ("{dn}", "{name}")}
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104  (compared, not bound)
PROCESSES = ("web_processes", "worker_processes", "scheduler_processes", "observer_processes")
SCHEMES = {
    "selftest_url": ("http://", "https://"),
    "public_url": ("http://", "https://"),
    "oidc_issuer": ("http://", "https://"),
    "ldap_url": ("ldap://", "ldaps://"),
    "database_url": ("postgresql://", "postgres://"),
    "redis_url": ("redis://", "rediss://", "unix://"),
}


RENAMED = {
    "scheduler_booked": "scheduler_backfill_depth",
    "scheduler_evens": "scheduler_rebalances",
    "scheduler_moves": "scheduler_migrations",
    "scheduler_moves_after_seconds": "scheduler_migrates_after_seconds",
    "scheduler_patience_seconds": "scheduler_starvation_guard_seconds",
}  # Refused, because a start with the default instead would go unnoticed.


UNITS = ("SECONDS", "HOURS", "DAYS", "BYTES", "URL", "FILE")
MISSPELT = 0.9  # Likeness of two names: `BERTH_SWEEP_SECOND` to a setting; no variable of client, tools and tasks comes near it.


class BadSetting(Exception):
    """A setting has a value that cannot be used; the message names the variable and what would do."""


def _setting(default: Any, unit: str, what: str) -> Any:
    return field(default=default, metadata={"unit": unit, "what": what})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One immutable value for the whole process; `current()` returns it."""

    data_dir: Path = _setting(Path("/var/lib/berth"), "directory", "Directory that holds all state of the embedded profile")
    server_profile: str = _setting(
        "embedded",
        "embedded|production",
        "Profile of the server: embedded needs no other server, production needs PostgreSQL and Redis",
    )
    host: str = _setting("127.0.0.1", "address", "Listen address of the web server; by default the loopback")
    port: int = _setting(8620, "TCP port", "Port of the web server; no well-known service uses the default")
    public_url: str = _setting(
        "", "URL", "URL of this installation in mails and printed commands; empty: built from host and port"
    )
    allowed_hosts: str = _setting(
        "",
        "host names, with commas",
        "Accepted host names besides those of BERTH_PUBLIC_URL, BERTH_HOST and the loopback",
    )
    trusted_proxies: str = _setting(
        "",
        "addresses or networks, with commas",
        "Proxies whose X-Forwarded-For is trusted; empty: none, because any client can send that header",
    )
    portal_dir: str = _setting("", "directory", "Directory of a built web portal; empty: the portal beside the server")
    database_url: str = _setting("", "URL", "Database URL, in production postgresql://...; empty: SQLite in the data directory")
    database_statement_seconds: float = _setting(60.0, "seconds", "Time limit of a statement on PostgreSQL; 0: none")
    database_lock_seconds: float = _setting(10.0, "seconds", "Time limit of waiting for a lock on PostgreSQL; 0: none")
    database_wait_seconds: float = _setting(
        5.0, "seconds", "Time limit of waiting for a connection, from the pool and to the server"
    )
    redis_url: str = _setting("", "URL", "Redis URL; empty: a broker in memory")
    visibility_seconds: float = _setting(
        600.0,
        "seconds",
        "Visibility timeout: Redis delivers an unacknowledged message again at this age; the same in every process",
    )
    web_drain_seconds: float = _setting(
        20.0,
        "seconds",
        "Drain time of a web process: open requests may finish, then get 503; longer than the waits for a connection and a lock",
    )
    web_processes: int = _setting(
        2, "processes", "Web processes of the production profile; with one, a restart interrupts the service"
    )
    worker_processes: int = _setting(2, "processes", "Worker processes of the production profile")
    scheduler_processes: int = _setting(
        2, "processes", "Scheduler processes of the production profile; one leads, the others stand by"
    )
    observer_processes: int = _setting(
        2, "processes", "Observer processes of the production profile; one leads each cluster, the others stand by"
    )
    debug: bool = _setting(False, "boolean", "Tracebacks in responses; for development only, because they help attackers")
    lease_seconds: float = _setting(30.0, "seconds", "Length of the lease on a batch of work; longer than any batch takes")
    leadership_seconds: float = _setting(10.0, "seconds", "Time after which a standby takes over from a dead leader")
    sweep_seconds: float = _setting(30.0, "seconds", "Interval of the sweep, which bounds the delay after a lost hint")
    poll_seconds: float = _setting(1.0, "seconds", "Interval at which engines are polled for running attempts")
    grace_seconds: float = _setting(
        30.0, "seconds", "Grace period between the stop signal and the kill, unless the job sets its own"
    )
    booking_grace_seconds: float = _setting(900.0, "seconds", "Time after which an unused booking is released to other jobs")
    priority_member: int = _setting(
        500, "0 to 1000", "Highest priority that members may use without approval; tenants can override it"
    )
    priority_manager: int = _setting(
        900, "0 to 1000", "Highest priority that managers may use without approval; tenants can override it"
    )
    priority_request_days: int = _setting(7, "days", "Age at which an undecided request for a higher priority expires")
    start_timeout_seconds: float = _setting(
        600.0, "seconds", "Time limit of a start: an attempt that is not running by then is replaced by the next"
    )
    image_pull_seconds: float = _setting(
        3_600.0,
        "seconds",
        "Time limit of pulling an image: up to this the time limit of a start stands still while a task's image is being pulled",
    )
    scheduler_in_order: bool = _setting(
        False, "boolean", "Strict order: no job starts before an earlier waiting job of its queue"
    )
    scheduler_reclaims: bool = _setting(True, "boolean", "Reclaim: queues take back their deserved share from queues that borrow")
    scheduler_preempts: bool = _setting(True, "boolean", "Preemption: a job preempts jobs of lower priority in its own queue")
    scheduler_backfill_depth: int = _setting(
        1, "jobs", "Backfill depth: how many waiting jobs of each pool hold a reserved start; 0: none"
    )
    scheduler_least_runtime_seconds: float = _setting(
        300.0, "seconds", "Least run time before a job is preempted within its queue"
    )
    scheduler_reclaim_least_runtime_seconds: float = _setting(
        0.0, "seconds", "Least run time before a job is preempted for another queue; more protects borrowers and delays owners"
    )
    scheduler_starvation_guard_seconds: float = _setting(
        86_400.0,
        "seconds",
        "Starvation guard: a job that has waited longer gets the next reserved start of its pool; 0: off",
    )
    scheduler_assumed_runtime_seconds: float = _setting(
        86_400.0, "seconds", "Assumed run time of jobs without max_runtime while no similar job has ended; 0: unlimited"
    )
    scheduler_shortest_first: int = _setting(
        10,
        "times",
        "Shorter jobs first: how many times its expected run time a job is set back in its queue, a day at most; 0: off",
    )
    scheduler_rebalances: bool = _setting(
        True, "boolean", "Fair-share rebalancing: rebalance borrowed capacity between queues by weight"
    )
    scheduler_migrations: int = _setting(
        4, "jobs", "Defragmentation: most small jobs that migrate so that one larger job can start; 0: off"
    )
    scheduler_migrates_after_seconds: float = _setting(
        300.0, "seconds", "Defragmentation delay: how long a job waits before others migrate for it"
    )
    scheduler_learns: bool = _setting(
        True,
        "boolean",
        "Learned placement: the score of a GPU pool follows its recent jobs, unless an operator set weights",
    )
    scheduler_log_bytes: int = _setting(
        512 * 1024**2, "bytes", "Size limit of the event log from which past hours can be replayed; 0: none"
    )
    scheduler_log_days: int = _setting(14, "days", "Retention of the event log, within its size limit")
    retry_backoff_seconds: float = _setting(
        5.0, "seconds", "Backoff before the second attempt; it doubles with each further attempt"
    )
    retry_backoff_seconds_max: float = _setting(600.0, "seconds", "Longest backoff between two attempts")
    retry_platform_max: int = _setting(5, "attempts", "Most retries after faults of the platform, at its cost")
    retry_unknown_max: int = _setting(3, "attempts", "Most retries after failures that could not be classified")
    log_quota_bytes: int = _setting(
        256 * 1024**2, "bytes", "Size limit of a log, per task and stream; a marker replaces the rest"
    )
    artifact_quota_bytes: int = _setting(
        16 * 1024**3, "bytes", "Size limit of the outputs of an attempt, so that a runaway job does not fill the disk"
    )
    checkpoint_quota_bytes: int = _setting(
        256 * 1024**3,
        "bytes",
        "Size limit of a job's checkpoint directory, beyond which no further attempt starts; 0: the size of the disk",
    )
    checkpoint_seconds: float = _setting(30.0, "seconds", "Interval at which the checkpoints of running jobs are measured")
    checkpoint_days_succeeded: int = _setting(7, "days", "Retention of the checkpoint of a succeeded job")
    checkpoint_days: int = _setting(
        30, "days", "Retention of the checkpoint of a failed or stopped job, so that another job can resume from it"
    )
    tombstone_days: int = _setting(7, "days", "Time for which a forgotten attempt is rejected")
    event_days: int = _setting(30, "days", "Retention of events and of the delivery log; live channels resume within it")
    decision_days: int = _setting(30, "days", "Retention of the scheduler's decisions, with the candidates that were considered")
    currency: str = _setting("EUR", "ISO 4217 code", "Currency of prices, costs and budgets; fixed after the first price")
    audit_days: int = _setting(
        400, "days", "Retention of the audit log: a year and a month, so that a yearly review finds its year"
    )
    telemetry_seconds: float = _setting(5.0, "seconds", "Sampling interval of CPU, memory, disk and GPU use")
    local_cluster: bool = _setting(True, "boolean", "Local cluster: jobs run on this machine in the embedded profile")
    local_launcher: str = _setting(
        "auto", "auto|socket|direct", "Process that starts tasks; auto: the launcher's socket where there is one"
    )
    local_isolation: str = _setting(
        "auto", "auto|none", "Isolation of tenants; none: tenants share one uid, and every job page says so"
    )
    local_uid_base: int = _setting(
        200_000, "uid", "First uid of tenants: tenant n runs as base + n, above the users of common systems"
    )
    local_gid_base: int = _setting(300_000, "gid", "First gid of volumes: volume n has gid base + n")
    local_simulated_gpus: str = _setting(
        "", "<count>x<model>", "Simulated GPUs, always labelled as simulated; for example 4xA100"
    )
    local_cpu_millis: int = _setting(0, "thousandths of a core", "Cores of this machine that jobs may use; 0: all")
    local_memory_bytes: int = _setting(0, "bytes", "Memory of this machine that jobs may use; 0: nine tenths")
    registry_hosts: str = _setting(
        "",
        "hosts, with commas",
        "Container registries that images may come from, with a port where it is not 443; empty: all registries of the internet",
    )
    registry_private_hosts: str = _setting(
        "",
        "hosts, with commas",
        "Container registries and their token servers in your own network; others must be on the internet",
    )
    registry_plain_hosts: str = _setting(
        "", "hosts, with commas", "Container registries without TLS, in your own network; passwords go there unprotected"
    )
    registry_ca_file: str = _setting(
        "", "file", "PEM file of further authorities that sign certificates of registries, besides those of the system"
    )
    registry_seconds: float = _setting(
        5.0, "seconds", "Time limit of the check of an image at submission, because a user waits for it; 0: no check"
    )
    image_bytes_max: int = _setting(
        64 * 1024**3, "bytes", "Size limit of an unpacked container image, so that one image does not fill the disk"
    )
    image_cache_bytes: int = _setting(
        128 * 1024**3,
        "bytes",
        "Disk space for container images of the local cluster; beyond it the least recently used are removed",
    )
    requests_per_minute: int = _setting(
        1_200, "requests", "Rate limit per token, so that a script in a loop does not slow others; 0: none"
    )
    tenant_requests_per_minute: int = _setting(12_000, "requests", "Rate limit per tenant, over all its tokens; 0: none")
    session_idle_hours: float = _setting(12.0, "hours", "Idle timeout of a browser session")
    session_days: int = _setting(14, "days", "Longest life of a browser session, whatever its use")
    oidc_issuer: str = _setting("", "URL", "Issuer URL of the OpenID Connect provider, exactly as in its metadata; empty: none")
    oidc_client_id: str = _setting("", "text", "Client id of this server at the provider")
    oidc_client_secret: str = _setting(
        "", "text", "Client secret of this server at the provider; empty: a public client; PKCE protects the code in both cases"
    )
    oidc_private_hosts: str = _setting(
        "",
        "hosts, with commas",
        "Hosts of a provider in your own network or at an unusual port; other hosts must be on the internet",
    )
    oidc_name: str = _setting("Single sign-on", "text", "Label of the button on the sign-in page")
    oidc_scopes: str = _setting("openid email profile", "words", "Requested scopes; `openid` must be among them")
    oidc_creates_users: bool = _setting(False, "boolean", "Create an account at the first sign-in")
    oidc_domains: str = _setting("", "domains, with commas", "Domains whose verified addresses may sign in; empty: all")
    oidc_trusts_email: bool = _setting(
        False, "boolean", "Treat addresses as verified where the provider does not say so; only for a provider of your own"
    )
    oidc_links_by_email: bool = _setting(
        False,
        "boolean",
        "Link by address: a verified address signs in to an existing account, too; otherwise its owner links it once",
    )
    oidc_groups_claim: str = _setting("groups", "text", "Claim of the id_token that lists groups")
    oidc_groups: str = _setting(
        "",
        "<group>=<tenant>:<role>, with commas",
        "Tenants and roles by group; empty: none; otherwise groups alone decide membership of the tenants named here",
    )
    ldap_url: str = _setting(
        "",
        "ldap(s)://host:port",
        "URL of the LDAP directory, with the extra `ldap`; empty: none; an OpenID Connect broker is preferable",
    )
    ldap_starttls: bool = _setting(False, "boolean", "StartTLS on ldap://, before the first request; otherwise use ldaps://")
    ldap_ca_file: str = _setting(
        "", "file", "PEM file of the authority that signs the directory's certificate; empty: the authorities of the system"
    )
    ldap_bind_dn: str = _setting("", "distinguished name", "Bind DN: account that searches the directory; empty: anonymous")
    ldap_bind_password: str = _setting("", "text", "Password of the bind DN")
    ldap_base: str = _setting("", "distinguished name", "Search base of users; with the URL it identifies the directory")
    ldap_user_filter: str = _setting(
        "(|(uid={name})(mail={name}))",
        "LDAP filter",
        "Filter that finds a user; {name}: the typed name, escaped; two matches count as none",
    )
    ldap_id_attributes: str = _setting(
        "entryUUID,objectGUID,ipaUniqueID",
        "attributes, with commas",
        "Attributes that identify a user permanently; the first that exists, else the DN",
    )
    ldap_email_attribute: str = _setting(
        "mail", "attribute", "Attribute of the address, which is trusted: users must not be able to edit it"
    )
    ldap_name_attributes: str = _setting(
        "uid,sAMAccountName,cn", "attributes, with commas", "Attributes from which the name of a new account is built"
    )
    ldap_creates_users: bool = _setting(False, "boolean", "Create an account at the first sign-in")
    ldap_links_by_email: bool = _setting(
        False,
        "boolean",
        "Link by address: a directory address signs in to an existing account, too; otherwise its owner links it once",
    )
    ldap_groups: str = _setting(
        "",
        "<group>=<tenant>:<role>, with commas",
        "Tenants and roles by group; empty: none; otherwise groups alone decide membership of the tenants named here",
    )
    ldap_group_base: str = _setting("", "distinguished name", "Search base of groups; empty: the user's memberOf")
    ldap_group_filter: str = _setting(
        "(|(member={dn})(uniqueMember={dn})(memberUid={name}))",
        "LDAP filter",
        "Filter that finds groups; {dn} and {name}: of the user, escaped",
    )
    selftest_hours: float = _setting(
        24.0, "hours", "Interval of the tenant escape self-test, so that a hole is found within a day; 0: off"
    )
    selftest_url: str = _setting(
        "",
        "URL",
        "URL at which workers reach a web server, for the self-test; empty: the URL of this installation on this machine",
    )
    metrics_token: str = _setting("", "text", "Bearer token of /metrics for a scraper; empty: operators only")
    mail_url: str = _setting(
        "", "smtp://user:password@host:port", "Mail server; empty: the delivery log records mails as undeliverable"
    )
    mail_from: str = _setting("berth@localhost", "address", "Sender address of notifications")
    exec_enabled: bool = _setting(True, "boolean", "Terminals in running tasks; false: disabled for all roles")
    exec_idle_minutes: float = _setting(60.0, "minutes", "Idle timeout of a terminal, without input and output; 0: none")
    webhook_private_targets: bool = _setting(
        False, "boolean", "Allow webhooks to private addresses, which reach your own network"
    )
    notification_channels: str = _setting(
        "", "kinds, with commas", "Notification channels offered to users, such as mail,webhook; empty: all"
    )

    @property
    def url(self) -> str:
        """Public URL of this server."""
        return self.public_url or f"http://{self.host}:{self.port}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names under which this server answers: a `Host` that is none of them comes from a page that leads its own name here."""
        named = [urlsplit(text).hostname or "" for text in (self.url, self.selftest_url)]
        named += [text.strip() for text in self.allowed_hosts.split(",")]
        plain = {name.lower() for name in (*named, self.host, *LOOPBACK_HOSTS)} - {"", *ANY_ADDRESS}
        return tuple(sorted(f"[{name}]" if ":" in name and not name.startswith("[") else name for name in plain))

    @property
    def oidc_groups_mapping(self) -> tuple[tuple[str, str, str], ...]:
        """Group, tenant and role of each entry; a bad one is a ValueError, which the start has made sure of."""
        return tuple(_group_entry(text) for text in self.oidc_groups.split(",") if text.strip())

    @property
    def ldap_groups_mapping(self) -> tuple[tuple[str, str, str], ...]:
        """The same for the directory's groups."""
        return tuple(_group_entry(text) for text in self.ldap_groups.split(",") if text.strip())

    @property
    def oidc_private_names(self) -> frozenset[str]:
        return frozenset(host.strip().lower() for host in self.oidc_private_hosts.split(",") if host.strip())

    @property
    def is_production(self) -> bool:
        return self.server_profile == "production"


def from_environment(environment: Mapping[str, str]) -> Config:
    """Read and check all settings; raises BadSetting that names every bad variable at once."""
    values: dict[str, Any] = {}
    problems = [
        f"BERTH_{old.upper()} was renamed to BERTH_{new.upper()}"
        for old, new in RENAMED.items()
        if f"BERTH_{old.upper()}" in environment
    ]
    problems += [f"{variable} is not a setting; the closest is {meant}" for variable, meant in _misspelt(environment)]
    for item in fields(Config):
        variable = f"BERTH_{item.name.upper()}"
        text = environment.get(variable)
        if text is None:
            continue
        try:
            values[item.name] = _parse(text, type(item.default))
        except ValueError:
            problems.append(f"{variable}={text!r} is not a valid {item.metadata['unit']}")
    config = Config(**values)
    problems += _check(config)
    if problems:
        raise BadSetting("; ".join(problems) + ". See docs/settings.md.")
    return config


def _misspelt(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Variables that are almost the name of a setting, or lack its unit, with that name. Others of the prefix stay: the client,
    the tools and what runs in a task have variables of their own."""
    names = {f"BERTH_{item.name.upper()}" for item in fields(Config)}
    settled = names | {f"BERTH_{old.upper()}" for old in RENAMED}
    found = []
    for variable in sorted(set(environment) - settled):
        if variable.startswith("BERTH_"):
            lacking = [name for name in names if name in {f"{variable}_{unit}" for unit in UNITS}]
            found += [(variable, name) for name in lacking or get_close_matches(variable, names, 1, MISSPELT)]
    return found


def _parse(text: str, kind: type[Any]) -> Any:
    if kind is bool:
        if text.lower() not in {"0", "1", "true", "false", "yes", "no"}:
            raise ValueError(text)
        return text.lower() in {"1", "true", "yes"}
    if issubclass(kind, Path):
        return Path(text)
    value = kind(text)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(text)
    return value


def _check(config: Config) -> list[str]:
    problems = []
    for name in ("server_profile", "local_isolation", "local_launcher"):
        allowed = next(item.metadata["unit"] for item in fields(Config) if item.name == name).split("|")
        if getattr(config, name) not in allowed:
            problems.append(f"BERTH_{name.upper()}={getattr(config, name)!r} must be one of {', '.join(allowed)}")
    for item in fields(Config):
        value = getattr(config, item.name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value < 0:
            problems.append(f"BERTH_{item.name.upper()}={value} must not be negative")
    for name in INTERVALS:
        if getattr(config, name) == 0:
            problems.append(f"BERTH_{name.upper()}=0.0 must be more than 0")
    for name, schemes in SCHEMES.items():
        if getattr(config, name) and not getattr(config, name).startswith(schemes):  # Never shown: it may hold a password.
            problems.append(f"BERTH_{name.upper()} must begin with {_either(schemes)}")
    if config.local_simulated_gpus and not SIMULATED_GPUS.fullmatch(config.local_simulated_gpus):
        problems.append(f"BERTH_LOCAL_SIMULATED_GPUS={config.local_simulated_gpus!r} must be <count>x<model>, like 4xA100")
    if not CURRENCY.fullmatch(config.currency):
        problems.append(f"BERTH_CURRENCY={config.currency!r} must be three capital letters, like EUR")
    for name in ("priority_member", "priority_manager"):
        if getattr(config, name) > PRIORITY_MAX:
            problems.append(f"BERTH_{name.upper()}={getattr(config, name)} must be at most {PRIORITY_MAX}")
    if config.priority_request_days == 0:
        problems.append("BERTH_PRIORITY_REQUEST_DAYS=0 must be at least 1")
    if not config.session_idle_hours or not config.session_days:
        problems.append("BERTH_SESSION_IDLE_HOURS and BERTH_SESSION_DAYS must be more than 0")
    if not 0 < config.port < 65_536:
        problems.append(f"BERTH_PORT={config.port} must be between 1 and 65535")
    if config.metrics_token and len(config.metrics_token) < 32:
        problems.append("BERTH_METRICS_TOKEN must have at least 32 characters, or be empty")
    try:
        networks_of(config.trusted_proxies)
    except ValueError as error:
        problems.append(f"BERTH_TRUSTED_PROXIES: {error}")
    problems += _check_oidc(config) + _check_ldap(config)
    if config.registry_ca_file and not os.access(config.registry_ca_file, os.R_OK):
        problems.append(f"BERTH_REGISTRY_CA_FILE={config.registry_ca_file!r} cannot be read")
    for name in PROCESSES:
        if getattr(config, name) == 0:
            problems.append(f"BERTH_{name.upper()}=0 must be at least 1")
    if config.debug and (config.is_production or config.public_url):
        problems.append("BERTH_DEBUG must be off in production and where BERTH_PUBLIC_URL names an address: it shows tracebacks")
    if config.is_production and not (config.database_url and config.redis_url):
        problems.append("BERTH_SERVER_PROFILE=production needs BERTH_DATABASE_URL and BERTH_REDIS_URL")
    return problems


def _check_oidc(config: Config) -> list[str]:
    problems = []
    try:
        config.oidc_groups_mapping  # noqa: B018 - it is read for its error.
    except ValueError as error:
        problems.append(f"BERTH_OIDC_GROUPS: {error}")
    if not config.oidc_issuer:
        return problems
    parts = urlsplit(config.oidc_issuer)
    if parts.scheme != "https" and parts.hostname not in LOOPBACK_HOSTS:
        problems.append(
            "BERTH_OIDC_ISSUER must begin with https://: without TLS, a machine on the way could pose as the provider"
        )
    if not config.oidc_client_id:
        problems.append("BERTH_OIDC_CLIENT_ID must be set where BERTH_OIDC_ISSUER is")
    if "openid" not in config.oidc_scopes.split():
        problems.append("BERTH_OIDC_SCOPES must hold openid")
    return problems


def _check_ldap(config: Config) -> list[str]:
    problems = []
    try:
        config.ldap_groups_mapping  # noqa: B018 - it is read for its error.
    except ValueError as error:
        problems.append(f"BERTH_LDAP_GROUPS: {error}")
    if not config.ldap_url:
        return problems
    if not all(find_spec(package) for package in LDAP_PACKAGES):
        problems.append(f"BERTH_LDAP_URL needs the extra `ldap`, which is not installed: {LDAP_INSTALL}")
    parts = urlsplit(config.ldap_url)
    if not parts.hostname or parts.path.strip("/") or parts.query or "@" in parts.netloc:
        problems.append("BERTH_LDAP_URL must name a host and at most a port; base, filter and account have settings of their own")
    if parts.scheme == "ldap" and not config.ldap_starttls and parts.hostname not in LOOPBACK_HOSTS:
        problems.append("BERTH_LDAP_URL must begin with ldaps://, or BERTH_LDAP_STARTTLS be true: passwords go there")
    if parts.scheme == "ldaps" and config.ldap_starttls:
        problems.append("BERTH_LDAP_STARTTLS goes with ldap://; ldaps:// is TLS from the first byte")
    if config.ldap_ca_file and not os.access(config.ldap_ca_file, os.R_OK):
        problems.append(f"BERTH_LDAP_CA_FILE={config.ldap_ca_file!r} cannot be read")
    if not config.ldap_base:
        problems.append("BERTH_LDAP_BASE must be set where BERTH_LDAP_URL is")
    if bool(config.ldap_bind_dn) != bool(config.ldap_bind_password):
        problems.append("BERTH_LDAP_BIND_DN and BERTH_LDAP_BIND_PASSWORD go together")
    for name, placeholders in LDAP_FILTERS.items():
        problems += _check_filter(f"BERTH_{name.upper()}", getattr(config, name), placeholders)
    for name in ("ldap_id_attributes", "ldap_email_attribute", "ldap_name_attributes"):
        if not all(LDAP_ATTRIBUTE.fullmatch(word) for word in words_of(getattr(config, name))):
            problems.append(f"BERTH_{name.upper()}={getattr(config, name)!r} must name attributes, such as {_default(name)}")
    return problems


def _check_filter(variable: str, text: str, placeholders: tuple[str, ...]) -> list[str]:
    found = set(re.findall(r"\{[^}]*\}", text))
    if not found or not found <= set(placeholders):
        return [f"{variable}={text!r} must hold {_either(placeholders)}, and nothing else in braces"]
    if not (text.startswith("(") and text.endswith(")") and text.count("(") == text.count(")")):
        return [f"{variable}={text!r} must be an LDAP filter in round brackets"]
    return []


def words_of(text: str) -> tuple[str, ...]:
    """The words of a list with commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _default(name: str) -> Any:
    return next(item.default for item in fields(Config) if item.name == name)


def networks_of(text: str) -> tuple[Network, ...]:
    """The networks of a list with commas; ValueError for anything else, and for one that holds every address there is."""
    networks = tuple(ipaddress.ip_network(item.strip(), strict=False) for item in text.split(",") if item.strip())
    if any(not network.prefixlen for network in networks):
        raise ValueError("a network of all addresses trusts every client")
    return networks


def _group_entry(text: str) -> tuple[str, str, str]:
    group, _, place = text.strip().rpartition("=")
    tenant, _, role = place.rpartition(":")
    if not (group and tenant) or role not in tuple(TenantRole):
        raise ValueError(f"{text.strip()[:80]!r} must be <group>=<tenant>:<role>, with a role of {', '.join(TenantRole)}")
    return group, tenant, role


def _either(words: tuple[str, ...]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


_current: Config | None = None


def current() -> Config:
    """The settings of this process, read from the environment at first use."""
    global _current
    if _current is None:
        _current = from_environment(os.environ)
    return _current


def replace(config: Config | None) -> None:
    """Install other settings: for tests, and for a process that learns its own from arguments."""
    global _current
    _current = config
