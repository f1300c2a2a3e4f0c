"""etcd, API server, controller manager, scheduler, DNS and kwok of one directory, on loopback or inside of namespaces.

    control_plane = ControlPlane(directory, Programs.cached())
    control_plane.start()                       # ready when it returns
    control_plane.kill("kube-apiserver")
    control_plane.start("kube-apiserver")       # on the same data, at the same address
    control_plane.stop()

Another process may do the same with the same directory: what is running is read from there.

Flags that are not obvious, each because its absence was seen to break something: nothing is published as endpoints of the
`kubernetes` Service, because a controller for that refuses loopback; kubelets are reached by address, because a node's name is in
no DNS; the front proxy's authority comes with the names that it allows, because without these any certificate of the authority
could speak for any user; anonymous requests are refused, so `/readyz` wants a certificate.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tools.kubernetes.api import Api, ApiRefused
from tools.kubernetes.keys import Keys
from tools.kubernetes.namespaces import Namespaces
from tools.kubernetes.processes import Processes
from tools.kubernetes.programs import Programs
from tools.progress import Stop

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns", "kwok")
READY_SECONDS_MAX = 240.0  # 3 s on an idle machine; 24 s were seen at a load of 25 on two cores.
POLL_SECONDS = 0.1
LOOPBACK = "127.0.0.1"
SERVICES = "10.96.0.0/16"
KUBERNETES_SERVICE = "10.96.0.1"  # The first address of SERVICES, by which pods know the API server.
DNS_SERVICE = "10.96.0.10"  # Where clusters usually have theirs.
DOMAIN = "cluster.local"
STAGES = Path(__file__).resolve().parent / "stages.yaml"
SIMULATED = "kwok.x-k8s.io/node"  # The annotation, and the taint, of nodes that kwok plays.
NODE_LEASE_SECONDS = 40  # As a kubelet's. Without leases each simulated node turns NotReady about every 55 s.
PORTS: Mapping[str, int] = {
    "kube-apiserver": 443,  # That of the Service by which pods know it: there is no kube-proxy to map it.
    "etcd": 2379,
    "etcd-peer": 2380,
    "kube-controller-manager": 10257,
    "kube-scheduler": 10259,
    "kwok": 10247,
}
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
AUDIT_FILE_MB = 100
COREFILE = """\
.:53 {{
    errors
    kubernetes {domain} in-addr.arpa {{
        kubeconfig {kubeconfig}
    }}
}}
"""


class ControlPlane:
    """The programs of one directory. Inside of namespaces it answers on `address`, else on loopback at a free port.

    `options` are more flags of a program, and win over those below; they count from its next start in this process.
    """

    def __init__(
        self, directory: Path, programs: Programs, *, address: str = LOOPBACK, inside: Namespaces | None = None,
        with_kwok: bool = False, options: Mapping[str, Sequence[str]] | None = None, dies_with_caller: bool = False,
    ) -> None:  # fmt: skip
        self.directory = directory
        self.programs = programs
        self.address = address
        self.inside = inside
        self.with_kwok = with_kwok
        self.options = options or {}
        self.processes = Processes(directory, inside, dies_with_caller=dies_with_caller)
        self.keys = Keys(directory / "keys")

    @property
    def server(self) -> str:
        return f"https://{self.address}:{self.ports['kube-apiserver']}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.directory / "admin.kubeconfig"

    @property
    def audit_log(self) -> Path:
        """A JSON object a line for each request: who asked for what, and the status of the answer."""
        return self.directory / "audit.log"

    @cached_property
    def api(self) -> Api:
        """As the administrator."""
        return Api(self.server, self.keys.authority, self.keys.certificate("admin"), self.keys.key("admin"))

    @cached_property
    def ports(self) -> Mapping[str, int]:
        """The usual ones in a network of its own; on loopback free ones, kept from the first start on: kubeconfigs name them."""
        if self.inside is not None:
            return PORTS
        path = self.directory / "ports.json"
        if not path.exists():
            path.write_text(json.dumps(_free_ports(tuple(PORTS))))
        ports: dict[str, int] = json.loads(path.read_text())
        return ports

    def start(self, name: str | None = None) -> None:
        """Start all, or one; returns when it is ready. What runs already stays as it is."""
        self._prepare()
        for each in self._names() if name is None else (name,):
            if not self.processes.process(each):
                self.processes.start(each, [*self._command(each), *self.options.get(each, ())])
            if each == "kube-apiserver":
                self.wait_ready()
        if name is None:
            self._wait_for_controllers()

    def stop(self, name: str | None = None) -> None:
        """End all, or one, in good order; the data stays."""
        for each in reversed(NAMES) if name is None else (name,):
            self.processes.stop(each)

    def kill(self, name: str) -> None:
        """kill -9; returns when it is gone."""
        self.processes.kill(name)

    def is_running(self, name: str) -> bool:
        return bool(self.processes.process(name))

    def wait_ready(self) -> None:
        """Until the API server says that it is ready; raises Stop when it ends or takes too long."""
        self._wait("kube-apiserver", self.api.is_ready)

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig with a certificate for this person."""
        name = _file_name("user", user, *groups)
        self.keys.issue(name, user, groups)
        return self.keys.kubeconfig(self.directory / f"{name}.kubeconfig", self.server, name)

    def kubeconfig_of_account(self, namespace: str, name: str, seconds: int = 3600) -> Path:
        """A kubeconfig with a new token of this service account, which must be there."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
        token: str = self.api.request("POST", path, request)["status"]["token"]
        file = self.directory / f"{_file_name('account', namespace, name)}.kubeconfig"
        return self.keys.kubeconfig_of_token(file, self.server, token)

    def _names(self) -> tuple[str, ...]:
        """Names are for pods, which run on real nodes alone; these are inside of namespaces, too."""
        left_out = {*(() if self.with_kwok else ("kwok",)), *(() if self.inside else ("coredns",))}
        return tuple(name for name in NAMES if name not in left_out)

    def _prepare(self) -> None:
        """Keys, kubeconfigs and the audit policy, as far as they are missing."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        self.keys.make_authority()
        self.keys.make_account_key()
        hosts = [self.address, LOOPBACK, KUBERNETES_SERVICE, "localhost", "kubernetes.default", "kubernetes.default.svc"]
        self.keys.issue("kube-apiserver", "kube-apiserver", hosts=hosts)
        self.keys.issue("to-kubelet", "kube-apiserver-kubelet-client", ["system:masters"])
        self.keys.issue("admin", "admin", ["system:masters"])
        for name in ("coredns", "kwok"):
            self.keys.issue(name, name, ["system:masters"])
        self.keys.issue("simulated-nodes", "kwok", hosts=[self.address, LOOPBACK])
        for name in ("kube-controller-manager", "kube-scheduler"):
            self.keys.issue(name, f"system:{name}")
        for name in ("admin", "kube-controller-manager", "kube-scheduler", "coredns", "kwok"):
            self.keys.kubeconfig(self.directory / f"{name}.kubeconfig", self.server, name)
        (self.directory / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY))
        corefile = COREFILE.format(domain=DOMAIN, kubeconfig=self.directory / "coredns.kubeconfig")
        (self.directory / "Corefile").write_text(corefile)

    def _command(self, name: str) -> list[str]:
        commands = {
            "etcd": self._etcd,
            "kube-apiserver": self._api_server,
            "kube-controller-manager": self._controller_manager,
            "kube-scheduler": self._scheduler,
            "coredns": self._dns,
            "kwok": self._kwok,
        }
        return [self.programs.path(name), *_flags(commands[name]())]

    def _etcd(self) -> dict[str, object]:
        clients, peers = (f"http://{LOOPBACK}:{self.ports[name]}" for name in ("etcd", "etcd-peer"))
        return {
            "name": "etcd",
            "data-dir": self.directory / "etcd",
            "log-level": "warn",
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"etcd={peers}",
        }

    def _api_server(self) -> dict[str, object]:
        keys = self.keys
        return {
            "etcd-servers": f"http://{LOOPBACK}:{self.ports['etcd']}",
            "bind-address": self.address if self.inside is None else "0.0.0.0",
            "advertise-address": self.address,
            "secure-port": self.ports["kube-apiserver"],
            "endpoint-reconciler-type": "none",
            "service-cluster-ip-range": SERVICES,
            "anonymous-auth": "false",
            "authorization-mode": "Node,RBAC",
            "client-ca-file": keys.authority,
            "tls-cert-file": keys.certificate("kube-apiserver"),
            "tls-private-key-file": keys.key("kube-apiserver"),
            "requestheader-client-ca-file": keys.authority,
            "requestheader-allowed-names": "nobody",
            "kubelet-preferred-address-types": "InternalIP",
            "kubelet-certificate-authority": keys.authority,
            "kubelet-client-certificate": keys.certificate("to-kubelet"),
            "kubelet-client-key": keys.key("to-kubelet"),
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": keys.key("service-account"),
            "service-account-signing-key-file": keys.key("service-account"),
            "enable-admission-plugins": "NodeRestriction",
            "audit-policy-file": self.directory / "audit-policy.json",
            "audit-log-path": self.audit_log,
            "audit-log-maxsize": AUDIT_FILE_MB,
            "audit-log-maxbackup": 1,
            "profiling": "false",
        }

    def _controller_manager(self) -> dict[str, object]:
        return {
            **self._of_a_controller("kube-controller-manager"),
            "service-account-private-key-file": self.keys.key("service-account"),
            "root-ca-file": self.keys.authority,
            "use-service-account-credentials": "true",
        }

    def _scheduler(self) -> dict[str, object]:
        return self._of_a_controller("kube-scheduler")

    def _of_a_controller(self, name: str) -> dict[str, object]:
        kubeconfig = self.directory / f"{name}.kubeconfig"
        return {
            "kubeconfig": kubeconfig,
            "authentication-kubeconfig": kubeconfig,
            "authorization-kubeconfig": kubeconfig,
            "bind-address": LOOPBACK,
            "secure-port": self.ports[name],
            "client-ca-file": self.keys.authority,
            "leader-elect": "false",
        }

    def _dns(self) -> dict[str, object]:
        return {"conf": self.directory / "Corefile"}

    def _kwok(self) -> dict[str, object]:
        return {
            "kubeconfig": self.directory / "kwok.kubeconfig",
            "server-address": f"{LOOPBACK}:{self.ports['kwok']}",
            "manage-all-nodes": "false",
            "manage-nodes-with-annotation-selector": f"{SIMULATED}=fake",
            "node-lease-duration-seconds": NODE_LEASE_SECONDS,
            "tls-cert-file": self.keys.certificate("simulated-nodes"),
            "tls-private-key-file": self.keys.key("simulated-nodes"),
            "config": STAGES,
        }

    def _wait_for_controllers(self) -> None:
        """No pod can be created in a namespace before the controller manager has made its account."""

        def is_made() -> bool:
            with contextlib.suppress(ApiRefused, OSError, http.client.HTTPException):
                self.api.request("GET", "/api/v1/namespaces/default/serviceaccounts/default")
                return True
            return False

        self._wait("kube-controller-manager", is_made)

    def _wait(self, name: str, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not is_done():
            if not self.processes.process(name):
                raise Stop(f"{name} ended: {self.processes.last_words(name)}\nIts log: {self.processes.log(name)}")
            if time.monotonic() > deadline:
                raise Stop(f"{name} is not ready after {READY_SECONDS_MAX:.0f} s; its log: {self.processes.log(name)}")
            time.sleep(POLL_SECONDS)


def _flags(values: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]


def _free_ports(names: Sequence[str]) -> dict[str, int]:
    """Ports that nothing listens on now. Held at once while they are chosen, so that all differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in names]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return {name: each.getsockname()[1] for name, each in zip(names, sockets, strict=True)}


def _file_name(kind: str, *words: str) -> str:
    """Names of users hold colons and whatever else. A digest keeps those apart that look alike without."""
    plain = "-".join("".join(letter if letter.isalnum() else "_" for letter in word) for word in words)
    return f"{kind}-{plain[:60]}-{hashlib.sha256(chr(0).join(words).encode()).hexdigest()[:8]}"
