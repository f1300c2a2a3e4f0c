"""Every setting of a Berth server: read once from the environment, typed, with its unit, default and reason.

`BERTH_<NAME>` sets a field. A bad value stops the start and is named. `docs/settings.md` is produced from this table."""

from __future__ import annotations

import ipaddress
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
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
}  # Refused, because a start with the default instead would go unnoticed.


class BadSetting(Exception):
    """A setting has a value that cannot be used; the message names the variable and what would do."""


def _setting(default: Any, unit: str, what: str) -> Any:
    return field(default=default, metadata={"unit": unit, "what": what})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One immutable value for the whole process; `current()` gives it to whoever needs it."""

    data_dir: Path = _setting(Path("/var/lib/berth"), "directory", "Directory that holds all state of the embedded profile")
    server_profile: str = _setting(
        "embedded", "embedded|production", "Embedded needs no other server; production needs PostgreSQL and Redis"
    )
    host: str = _setting(
        "127.0.0.1", "address", "Address that the web server listens on; the loopback until an operator decides otherwise"
    )
    port: int = _setting(8620, "TCP port", "Port of the web server; the default is free of well-known services")
    public_url: str = _setting(
        "", "URL", "Address of this installation in mails and printed commands; empty: made of host and port"
    )
    allowed_hosts: str = _setting(
        "",
        "host names, with commas",
        "Host names that are answered besides those of BERTH_PUBLIC_URL, BERTH_HOST and the loopback",
    )
    trusted_proxies: str = _setting(
        "",
        "addresses or networks, with commas",
        "Proxies whose X-Forwarded-For is believed; empty: none, because any client can write that header",
    )
    portal_dir: str = _setting("", "directory", "Folder of a built web portal; empty: the one beside the server")
    database_url: str = _setting("", "URL", "Database; empty: SQLite in the data directory; postgresql://... for production")
    database_statement_seconds: float = _setting(60.0, "seconds", "Time limit of a statement on PostgreSQL; 0: none")
    database_lock_seconds: float = _setting(10.0, "seconds", "Time limit of a wait for a lock on PostgreSQL; 0: none")
    database_wait_seconds: float = _setting(
        5.0, "seconds", "Time limit of a wait for a connection, of the pool and of the server"
    )
    redis_url: str = _setting("", "URL", "Redis; empty: broker and channel layer in memory")
    visibility_seconds: float = _setting(
        600.0, "seconds", "Age at which an unacknowledged message of Redis is delivered again; the same in every process"
    )
    web_drain_seconds: float = _setting(
        20.0,
        "seconds",
        "Time for requests in hand when a web process ends, then 503: more than the waits for a connection and a lock",
    )
    web_processes: int = _setting(2, "processes", "Web processes of the production profile; with one, a restart is a pause")
    worker_processes: int = _setting(2, "processes", "Worker processes of the production profile")
    scheduler_processes: int = _setting(
        2, "processes", "Scheduler processes of the production profile; one leads, the others stand by"
    )
    observer_processes: int = _setting(
        2, "processes", "Observer processes of the production profile; one leads each cluster, the others stand by"
    )
    debug: bool = _setting(False, "boolean", "Tracebacks in answers, for development alone: they help attackers")
    lease_seconds: float = _setting(
        30.0, "seconds", "Length of the lease on a batch of work: longer than any batch takes; tests use 1"
    )
    leadership_seconds: float = _setting(10.0, "seconds", "Time after which a standby takes over from a leader that died")
    sweep_seconds: float = _setting(30.0, "seconds", "Interval of the sweep, which bounds what a lost hint can delay")
    poll_seconds: float = _setting(1.0, "seconds", "Interval at which engines are asked for running attempts")
    grace_seconds: float = _setting(30.0, "seconds", "Time from the stop signal to the kill, unless the job says otherwise")
    booking_grace_seconds: float = _setting(900.0, "seconds", "Time after which an unused booking is released to others")
    priority_member: int = _setting(500, "0 to 1000", "Highest priority that members may use by themselves; tenants may differ")
    priority_manager: int = _setting(
        900, "0 to 1000", "Highest priority that managers may use by themselves; a higher one needs an approval"
    )
    priority_request_days: int = _setting(7, "days", "Age at which an undecided request for a higher priority ends")
    start_timeout_seconds: float = _setting(
        600.0, "seconds", "Time limit of a start; an attempt that does not run by then is replaced by the next"
    )
    scheduler_in_order: bool = _setting(False, "boolean", "Strict order: no job passes an earlier one of its queue that waits")
    scheduler_reclaims: bool = _setting(True, "boolean", "Reclaim: queues take back what they deserve from queues that borrow")
    scheduler_preempts: bool = _setting(True, "boolean", "Preemption: a queue's own work of lower priority makes room for higher")
    scheduler_backfill_depth: int = _setting(
        1, "jobs", "Backfill depth: how many waiting jobs of each pool hold a reserved start; 0: none"
    )
    scheduler_least_runtime_seconds: float = _setting(
        300.0, "seconds", "Least run time before a job is preempted in its own queue"
    )
    scheduler_reclaim_least_runtime_seconds: float = _setting(
        0.0, "seconds", "Least run time before a job is evicted for another queue; more protects borrowers and delays owners"
    )
    scheduler_patience_seconds: float = _setting(
        86_400.0,
        "seconds",
        "Starvation guard: a job that has waited longer gets the next reserved start of its pool; 0: by fair order alone",
    )
    scheduler_assumed_runtime_seconds: float = _setting(
        86_400.0, "seconds", "Run time that is planned with where a job states none and nothing is known of its kind; 0: for ever"
    )
    scheduler_shortest_first: int = _setting(
        10,
        "times",
        "Shorter jobs first: a job stands behind shorter ones by this multiple of its expected run time, a day at most; 0: off",
    )
    scheduler_rebalances: bool = _setting(
        True, "boolean", "Fair-share rebalancing: of queues that borrow, one with less by weight takes from one with more"
    )
    scheduler_migrations: int = _setting(
        4, "jobs", "Defragmentation: the most small jobs that migrate for one that fits in total but not in shape; 0: none"
    )
    scheduler_migrates_after_seconds: float = _setting(
        300.0, "seconds", "Time that a job has to wait before others migrate for it"
    )
    scheduler_learns: bool = _setting(
        True,
        "boolean",
        "Learned placement: a GPU pool's score follows what the pool got of late, unless an operator set weights",
    )
    scheduler_log_bytes: int = _setting(
        512 * 1024**2, "bytes", "Size of the scheduler's event log, by which any past hour can be decided again; 0: none"
    )
    scheduler_log_days: int = _setting(14, "days", "Time for which the event log is kept, as far as its size allows")
    retry_backoff_seconds: float = _setting(5.0, "seconds", "Wait before the second attempt; it doubles with each further one")
    retry_backoff_seconds_max: float = _setting(600.0, "seconds", "Longest wait between two attempts")
    retry_platform_max: int = _setting(5, "attempts", "Retries that the platform pays for its own faults")
    retry_unknown_max: int = _setting(3, "attempts", "Retries of failures that could not be classified")
    log_quota_bytes: int = _setting(
        256 * 1024**2, "bytes", "Size of a log, per task and stream; what is beyond is replaced by a marker"
    )
    artifact_quota_bytes: int = _setting(
        16 * 1024**3, "bytes", "Size of the outputs of an attempt, so that a runaway one does not fill the disk"
    )
    checkpoint_quota_bytes: int = _setting(
        256 * 1024**3,
        "bytes",
        "Size of a job's checkpoint directory, beyond which no further attempt starts; 0: as much as the disk holds",
    )
    checkpoint_seconds: float = _setting(30.0, "seconds", "Interval at which the checkpoints of running jobs are measured")
    checkpoint_days_succeeded: int = _setting(7, "days", "Time for which the checkpoint of a job that succeeded is kept")
    checkpoint_days: int = _setting(
        30, "days", "Time for which the checkpoint of a job that failed or was stopped is kept, to go on from"
    )
    tombstone_days: int = _setting(7, "days", "Time for which a forgotten attempt is refused")
    event_days: int = _setting(30, "days", "Time for which events and the delivery log are kept; live channels resume within it")
    decision_days: int = _setting(
        30, "days", "Time for which the scheduler's decisions are kept, with what they were weighed against"
    )
    currency: str = _setting("EUR", "ISO 4217 code", "Currency of prices, costs and budgets; fixed once there is a price")
    audit_days: int = _setting(
        400, "days", "Time for which the audit log is kept: a year and a month, so that a yearly review finds its year"
    )
    telemetry_seconds: float = _setting(5.0, "seconds", "Sampling interval of CPU, memory, disk and GPU use")
    local_cluster: bool = _setting(True, "boolean", "Jobs run on this machine in the embedded profile")
    local_launcher: str = _setting(
        "auto", "auto|socket|direct", "Process that starts tasks; auto: the launcher's socket, for user berth or where it is"
    )
    local_isolation: str = _setting(
        "auto", "auto|none", "Isolation of tenants; none lets several share one uid, which every job page says"
    )
    local_uid_base: int = _setting(
        200_000, "uid", "First uid of tenants: tenant n runs as base + n, above all users of common systems"
    )
    local_gid_base: int = _setting(300_000, "gid", "First gid of volumes: volume n is group base + n")
    local_simulated_gpus: str = _setting("", "<count>x<model>", "Simulated GPUs, labelled so everywhere; for example 4xA100")
    local_cpu_millis: int = _setting(0, "thousandths of a core", "Cores that jobs may use on this machine; 0: all")
    local_memory_bytes: int = _setting(0, "bytes", "Memory that jobs may use on this machine; 0: nine tenths")
    requests_per_minute: int = _setting(
        1_200, "requests", "Rate limit per token, so that a script in a loop does not starve others; 0: none"
    )
    tenant_requests_per_minute: int = _setting(12_000, "requests", "Rate limit per tenant, all its tokens together; 0: none")
    session_idle_hours: float = _setting(12.0, "hours", "Idle time after which a browser signs in again")
    session_days: int = _setting(14, "days", "Time after which a browser signs in again, however much it is used")
    oidc_issuer: str = _setting("", "URL", "OpenID Connect provider, exactly as it calls itself; empty: none")
    oidc_client_id: str = _setting("", "text", "Name of this server at the provider")
    oidc_client_secret: str = _setting(
        "", "text", "Secret of this server at the provider; empty: a public client; PKCE protects the code in either case"
    )
    oidc_private_hosts: str = _setting(
        "",
        "hosts, with commas",
        "Hosts of a provider inside your own network, or at an unusual port; others must be on the internet",
    )
    oidc_name: str = _setting("Single sign-on", "text", "Text of the button on the sign-in page")
    oidc_scopes: str = _setting("openid email profile", "words", "Scopes that are asked for; `openid` among them")
    oidc_creates_users: bool = _setting(False, "boolean", "Accounts are made at the first sign-in")
    oidc_domains: str = _setting("", "domains, with commas", "Domains whose verified addresses may sign in; empty: any")
    oidc_trusts_email: bool = _setting(
        False, "boolean", "Addresses count as verified where the provider does not say so; for a provider of your own"
    )
    oidc_links_by_email: bool = _setting(
        False, "boolean", "A verified address leads to an account with a password, too; else its owner connects it once"
    )
    oidc_groups_claim: str = _setting("groups", "text", "Claim of the id_token that lists groups")
    oidc_groups: str = _setting(
        "",
        "<group>=<tenant>:<role>, with commas",
        "Tenants and roles that groups give; empty: none; else groups decide about the tenants named here",
    )
    ldap_url: str = _setting(
        "",
        "ldap(s)://host:port",
        "LDAP directory, with the extra `ldap`; empty: none; a broker with OpenID Connect is the better way",
    )
    ldap_starttls: bool = _setting(False, "boolean", "StartTLS: ldap:// becomes TLS before anything is said; else only ldaps://")
    ldap_ca_file: str = _setting(
        "", "file", "PEM file of the authority that signs the directory's certificate; empty: those of the system"
    )
    ldap_bind_dn: str = _setting("", "distinguished name", "Account that searches the directory; empty: anonymous")
    ldap_bind_password: str = _setting("", "text", "Password of the account that searches")
    ldap_base: str = _setting("", "distinguished name", "Base below which people are; with the URL it says which directory it is")
    ldap_user_filter: str = _setting(
        "(|(uid={name})(mail={name}))",
        "LDAP filter",
        "Filter that finds a person; {name}: what was typed, escaped; two that match are none",
    )
    ldap_id_attributes: str = _setting(
        "entryUUID,objectGUID,ipaUniqueID",
        "attributes, with commas",
        "Attributes of which the first that is there identifies a person for good; else the DN",
    )
    ldap_email_attribute: str = _setting(
        "mail", "attribute", "Attribute of the mail address, which is believed: people must not be able to write their own"
    )
    ldap_name_attributes: str = _setting(
        "uid,sAMAccountName,cn", "attributes, with commas", "Attributes of which a new account's name is made"
    )
    ldap_creates_users: bool = _setting(False, "boolean", "Accounts are made at the first sign-in")
    ldap_links_by_email: bool = _setting(
        False, "boolean", "The directory's address leads to an account that was used, too; else its owner connects it once"
    )
    ldap_groups: str = _setting(
        "",
        "<group>=<tenant>:<role>, with commas",
        "Tenants and roles that groups give; empty: none; else groups decide about the tenants named here",
    )
    ldap_group_base: str = _setting(
        "", "distinguished name", "Base below which groups are; empty: those in the person's memberOf"
    )
    ldap_group_filter: str = _setting(
        "(|(member={dn})(uniqueMember={dn})(memberUid={name}))",
        "LDAP filter",
        "Filter that finds groups; {dn} and {name}: of the person, escaped",
    )
    selftest_hours: float = _setting(
        24.0, "hours", "Interval of the tenant escape self-test, so that a hole is a day old at most; 0: none"
    )
    selftest_url: str = _setting(
        "", "URL", "Address at which workers reach a web server, for the self-test; empty: this installation's on this machine"
    )
    metrics_token: str = _setting("", "text", "Bearer token of /metrics for a scraper; empty: operators alone read it")
    mail_url: str = _setting(
        "", "smtp://user:password@host:port", "Mail server; empty: mails are written to the delivery log as undeliverable"
    )
    mail_from: str = _setting("berth@localhost", "address", "Sender of notifications")
    exec_enabled: bool = _setting(True, "boolean", "Terminals in running tasks; false: none, whatever the role")
    exec_idle_minutes: float = _setting(
        60.0, "minutes", "Idle time, without input and output, after which a terminal ends; 0: never"
    )
    webhook_private_targets: bool = _setting(False, "boolean", "Webhooks to private addresses, which reach your own network")

    @property
    def url(self) -> str:
        """Where people reach this server."""
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
        f"BERTH_{old.upper()} is called BERTH_{new.upper()} by now: rename it"
        for old, new in RENAMED.items()
        if f"BERTH_{old.upper()}" in environment
    ]
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
        problems.append("BERTH_OIDC_ISSUER must begin with https://: whoever is on the way could be anybody otherwise")
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
        raise ValueError("a network that holds every address trusts everybody")
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
