"""Says how an image is built: as the plan of a job that runs under its tenant's own isolation.

Nothing is built here. The plan is a pure function of what is asked for; what this host offers (an interpreter that every
tenant may run, pip, the operators' package index) is found once and passed in. A Python environment is made at its final
place, because environments are not relocatable, and is sealed there when its job has succeeded. A container image is built by one
task and carried from and to registries by another: what the tenant's text starts never sees the tenant's account.
"""

from __future__ import annotations

import base64
import configparser
import functools
import gzip
import hashlib
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from clusters.engines.interface import CodeRef, FileOf, Text
from clusters.registries.references import Reference
from clusters.registries.rules import Account
from images.containerfile import Containerfile, local_name

SCRIPT = Path(__file__).with_name("build_python.sh")
CONTAINER_SCRIPT = Path(__file__).with_name("build_container.sh")
TRANSFER_SCRIPT = Path(__file__).with_name("transfer_container.sh")
BUILD_ROLE, TRANSFER_ROLE = "build", "transfer"  # Of the build of a container image; an environment has one role of any name.
MANIFEST = "berth-image.json"
REASON = "error.txt"  # What a build of a container image says of its failure, beside the manifest.
PIP_FOLDER = "pip-bundle"  # Where the script looks for pip, below its working directory.
BUILD_SECONDS_MAX = 2 * 3600

# What operators may have set for pip on this server, and builds need as well. A password in an index address can be read
# by the user who builds: docs/images.md says so.
SETTINGS = (
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_NO_INDEX",
    "PIP_TRUSTED_HOST",
    "PIP_CERT",
    "PIP_PROXY",
    "PIP_TIMEOUT",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_RETRIES",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
)


@dataclass(frozen=True, slots=True)
class HostPython:
    """An interpreter of this host that every user may run."""

    path: str
    version: str
    platform: str


@dataclass(frozen=True, slots=True)
class BuildTask:
    """What one role of a build runs. `builds_image`: it needs a user namespace of its own, in which it mounts."""

    argv: tuple[Text, ...]
    env: Mapping[str, Text] = field(default_factory=dict)
    secret_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    builds_image: bool = False


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """A build as an engine takes it. Its tasks run in the directory into which `code` is unpacked, else an empty one."""

    request_id: uuid.UUID
    location: str  # The directory that the tasks fill; they must see it, writable, under this very path.
    main: BuildTask  # Of every role that is not among `others`.
    files: Mapping[str, Text]
    others: Mapping[str, BuildTask] = field(default_factory=dict)
    code: CodeRef | None = None  # The pip to use, unpacked into the working directory.
    network: bool = True
    max_runtime_seconds: int = BUILD_SECONDS_MAX

    def task_of(self, role: str) -> BuildTask:
        """What a role runs."""
        return self.others.get(role, self.main)


@dataclass(frozen=True, slots=True)
class ContainerBuild:
    """What a container image is built from and pushed as. `requirements` empty: the context is all that there is.

    `accounts` are the tenant's, by registry; `plain_hosts` are spoken to without TLS; `authority` is the text of certificates to
    trust besides those of the system, "" for none.
    """

    containerfile: Containerfile
    target: Reference
    requirements: str = ""
    accounts: Mapping[str, Account] = field(default_factory=dict, repr=False)
    plain_hosts: frozenset[str] = frozenset()
    authority: str = ""


@dataclass(frozen=True, slots=True)
class HostOffer:
    """What this host gives to builds: its interpreter, its pip if there is one to give, its operators' settings for pip."""

    python: HostPython
    pip: CodeRef | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


def plan_build(requirements: str, *, request_id: uuid.UUID, location: str, offer: HostOffer) -> BuildPlan:
    """The job that makes the environment at `location`, a directory that the tenant may write."""
    return BuildPlan(
        request_id=request_id,
        location=location,
        main=BuildTask(
            argv=(("/bin/sh",), (FileOf("build.sh"),), (location,), (offer.python.path,), (FileOf("requirements.txt"),)),
            env={
                **{name: (value,) for name, value in offer.settings.items()},
                "PYTHONUNBUFFERED": ("1",),
                "PIP_NO_COLOR": ("1",),
            },
        ),
        files={"build.sh": (SCRIPT.read_text(),), "requirements.txt": (requirements,)},
        code=offer.pip,
    )


def plan_container(build: ContainerBuild, *, request_id: uuid.UUID, location: str, settings: Mapping[str, str]) -> BuildPlan:
    """The job that builds a container image and pushes it. `settings` are the operators' for pip, by `pip_settings`."""
    files: dict[str, Text] = {
        "build.sh": (CONTAINER_SCRIPT.read_text(),),
        "transfer.sh": (TRANSFER_SCRIPT.read_text(),),
        "Containerfile": (build.containerfile.text,),
        "bases.txt": (_base_lines(build.containerfile.bases),),
        "registries.conf": (_registries_conf(build.plain_hosts),),
        "pip.conf": (_pip_conf(settings),),
    }
    building: list[Text] = [("/bin/sh",), (FileOf("build.sh"),), (location,), (FileOf("Containerfile"),), (FileOf("bases.txt"),)]
    building.append((FileOf("pip.conf"),))
    if _APT.search(build.containerfile.text):  # It changes its user to one that the build does not have.
        files["apt.conf"] = ('APT::Sandbox::User "root";\n',)
        building.append((FileOf("apt.conf"),))
    else:
        building.append(("-",))
    if build.requirements:
        files["requirements.txt"] = (build.requirements,)
        building.append((FileOf("requirements.txt"),))
    carrying: list[Text] = [("/bin/sh",), (FileOf("transfer.sh"),), (location,), (str(build.target),), (FileOf("bases.txt"),)]
    carrying.append((FileOf("registries.conf"),))
    if build.authority:
        files["registries.crt"] = (build.authority,)
        carrying.append((FileOf("registries.crt"),))
    proxies = {name: (value,) for name, value in settings.items() if name.lower().endswith("_proxy")}
    secret = {"BERTH_BUILD_ACCOUNT": _auth_document(build.accounts)} if build.accounts else {}
    return BuildPlan(
        request_id=request_id,
        location=location,
        main=BuildTask(tuple(building), proxies, builds_image=True),
        files=files,
        others={TRANSFER_ROLE: BuildTask(tuple(carrying), proxies, secret)},
    )


def host_offer(tools: Path, environment: Mapping[str, str] | None = None) -> HostOffer:
    """What this host gives to builds now. `tools` is a directory of ours in which pip is kept packed."""
    given = os.environ if environment is None else environment
    return HostOffer(find_python(), pack_pip(tools), pip_settings(given))


def missing_packages() -> tuple[str, ...]:
    """Debian packages that this host lacks to build container images."""
    return tuple(package for package, program in _FOR_CONTAINERS.items() if shutil.which(program) is None)


@functools.cache
def find_python() -> HostPython:
    """The interpreter under this server, or the system's where other users may not run that one."""
    own = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    version = ".".join(map(str, sys.version_info[:3]))
    for candidate in (own, "/usr/bin/python3", "/usr/local/bin/python3"):
        path = os.path.realpath(candidate)
        if not _is_for_everybody(path):
            continue
        if path == own:
            return HostPython(path, version, sysconfig.get_platform())
        asked = subprocess.run(
            [path, "-I", "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True, timeout=20
        )
        if asked.returncode == 0:
            return HostPython(path, asked.stdout.strip(), sysconfig.get_platform())
    return HostPython(own, version, sysconfig.get_platform())


def pip_settings(environment: Mapping[str, str], *, home: Path | None = None) -> dict[str, str]:
    """The operators' settings for pip: of the server's environment first, then of its user's pip.conf."""
    found = {name: environment[name] for name in SETTINGS if environment.get(name)}
    for option, value in _configured(environment, home or Path.home()):
        name = f"PIP_{option.upper().replace('-', '_')}"
        if name in SETTINGS:
            found.setdefault(name, " ".join(value.split()))
    return found


def pack_pip(tools: Path) -> CodeRef | None:
    """This server's own pip as an archive for builds, made once per version; None if there is no pip here."""
    found = importlib.util.find_spec("pip")
    if found is None or found.origin is None:
        return None
    source = Path(found.origin).parent
    packed = _pack(source)
    digest = hashlib.sha256(packed).hexdigest()
    place = tools / f"pip-{digest[:16]}.tar.gz"
    if not place.exists():
        tools.mkdir(mode=0o755, parents=True, exist_ok=True)
        part = place.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(packed)
        part.chmod(0o444)
        part.replace(place)
    return CodeRef(digest=digest, location=str(place))


_FOR_CONTAINERS = {"buildah": "buildah", "skopeo": "skopeo", "bubblewrap": "bwrap"}
_APT = re.compile(r"\bapt(?:-get)?\b")
_PIP_OPTIONS = ("INDEX_URL", "EXTRA_INDEX_URL", "TRUSTED_HOST", "PROXY", "TIMEOUT", "DEFAULT_TIMEOUT", "RETRIES")


def _base_lines(bases: Iterable[Reference]) -> str:
    """Number, what to fetch, name in the build. The tools take no reference with both a tag and a digest."""
    lines = []
    for number, base in enumerate(bases):
        wanted = f"{base.host}/{base.repository}@{base.digest}" if base.digest else str(base)
        lines.append(f"{number}\t{wanted}\t{local_name(base)}\n")
    return "".join(lines)


def _registries_conf(plain_hosts: frozenset[str]) -> str:
    """As containers-registries.conf(5) has it: short names mean what they mean in a job, and nothing is asked for them."""
    parts = ['unqualified-search-registries = ["docker.io"]\n']
    parts += [f"[[registry]]\nlocation = {json.dumps(host)}\ninsecure = true\n" for host in sorted(plain_hosts)]
    return "".join(parts)


def _pip_conf(settings: Mapping[str, str]) -> str:
    """What of the settings has a meaning in a container: addresses, not files of this host."""
    lines = ["[global]\n"]
    for option in _PIP_OPTIONS:
        value = settings.get(f"PIP_{option}", "")
        if value:
            lines.append(f"{option.lower().replace('_', '-')} = {' '.join(value.split())}\n")
    return "".join(lines)


def _auth_document(accounts: Mapping[str, Account]) -> str:
    """As containers-auth.json(5) has it."""
    auths = {
        host: {"auth": base64.b64encode(f"{account.username}:{account.password}".encode()).decode()}
        for host, account in sorted(accounts.items())
    }
    return json.dumps({"auths": auths})


@functools.cache
def _pack(source: Path) -> bytes:
    """The package as a gzipped tar that is the same for the same files."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(source.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                member = tarfile.TarInfo(f"{PIP_FOLDER}/pip/{path.relative_to(source).as_posix()}")
                member.size, member.mode = path.stat().st_size, 0o644
                with path.open("rb") as file:
                    archive.addfile(member, file)
    return gzip.compress(plain.getvalue(), compresslevel=6, mtime=0)


def _configured(environment: Mapping[str, str], home: Path) -> Iterator[tuple[str, str]]:
    """Options of pip's own files, the most specific file first. What is in /etc/pip.conf, builds read by themselves."""
    files = [
        Path(environment["PIP_CONFIG_FILE"]) if environment.get("PIP_CONFIG_FILE") else None,
        Path(sys.prefix) / "pip.conf",
        Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf",
        home / ".pip" / "pip.conf",
    ]
    for file in files:
        parser = configparser.RawConfigParser()
        try:
            if file is None or not parser.read(file):
                continue
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue  # pip itself would complain; a build must not fail on a file that it never sees.
        for section in ("install", "global"):
            if parser.has_section(section):
                yield from parser.items(section)


def _is_for_everybody(path: str) -> bool:
    """Whether any user may reach and run a program."""
    try:
        folders = [Path(path), *Path(path).parents]
        return all(folder.stat().st_mode & 0o001 for folder in folders) and bool(Path(path).stat().st_mode & 0o004)
    except OSError:
        return False
