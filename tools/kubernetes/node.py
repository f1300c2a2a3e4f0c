"""A real node: a kubelet with Debian's containerd, runc and CNI plugins, in namespaces of its own.

Its network, its mounts and its processes end with one process, so `power_off` is what it says: nothing on it gets a word in, and
after `power_on` it has its disk and no process. Its pods run on this machine's kernel, in control groups below one of the node's.

Settings that are not obvious, each because its absence was seen to break something: `failCgroupV1` off, or a kubelet of 1.35
refuses cgroup v1; `restrict_oom_score_adj`, or no pod starts without CAP_SYS_RESOURCE; an address that is not loopback; the
runtime's and the kubelet's folders in places that are hidden from the machine's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tools.kubernetes.api import ApiRefused
from tools.kubernetes.cgroups import make_cgroup, remove_cgroup
from tools.kubernetes.control_plane import DNS_SERVICE, DOMAIN, ControlPlane
from tools.kubernetes.images import PAUSE_IMAGE
from tools.kubernetes.namespaces import Namespaces
from tools.kubernetes.network import Network, connect_node, run
from tools.kubernetes.processes import Processes
from tools.progress import Stop

# Debian's package -> a file that is there once it is installed. Nothing of them is started by installing them in a container;
# where systemd runs, their own services lie beside these and do not touch them.
PACKAGES: Mapping[str, str] = {
    "containerd": "/usr/bin/containerd",
    "runc": "/usr/sbin/runc",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "iptables": "/usr/sbin/iptables",
    "busybox-static": "/bin/busybox",
}
HIDDEN = ("/run", "/var/log", "/var/lib")  # Of the machine; on the node each is empty and in memory.
READY_SECONDS_MAX = 240.0  # 3 s on an idle machine.
POLL_SECONDS = 0.1
GPU = "nvidia.com/gpu"
GPU_PRODUCT = "nvidia.com/gpu.product"
MERGE = "application/merge-patch+json"
CONTAINERD = """\
version = 2
root = "{directory}/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{directory}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{directory}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{directory}/registries"
"""


class RealNode:
    """`node-N` of a cluster. `center` has the bridge; `cluster` is the first word of the names of its control groups."""

    def __init__(
        self, directory: Path, number: int, control_plane: ControlPlane, network: Network, center: Namespaces, cluster: str,
        *, dies_with_caller: bool = False, settings: Mapping[str, object] | None = None,
    ) -> None:  # fmt: skip
        self.directory = directory
        self.number = number
        self.name = f"node-{number}"
        self.control_plane = control_plane
        self.network = network
        self.center = center
        self.cgroup = f"{cluster}-{self.name}"
        self.settings = settings or {}  # Of the kubelet, over those below.
        self.namespaces = Namespaces(directory, dies_with_caller=dies_with_caller)
        self.processes = Processes(directory, self.namespaces)

    @property
    def address(self) -> str:
        return self.network.node(self.number)

    @property
    def registries(self) -> Path:
        """A folder `HOST:PORT/hosts.toml` here says how containerd speaks to that registry: over plain HTTP, for example."""
        return self.directory / "registries"

    def power_on(self, images: Sequence[Path] = ()) -> None:
        """Start it, import the archives, and wait until the API server says that it is ready. Nothing if it runs."""
        check_place(self.directory, self.control_plane.programs.folder)
        since = datetime.now(UTC)
        for folder in ("cni", "registries", "opt", "containerd", "kubelet", "pod-logs", "volume-plugins"):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        if not self.namespaces.is_there:
            self.namespaces.start()
            for hidden in HIDDEN:
                run(*self.namespaces.enter("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", hidden))
            connect_node(self.center, self.network, self.number, self.namespaces)
        self._write_settings()
        self.start("containerd")
        for archive in images:
            self.import_image(archive)
        was_running = bool(self.processes.process("kubelet"))
        self.start("kubelet")
        if not was_running:
            self.wait_ready(since)

    def power_off(self) -> None:
        """Pull the plug: all its processes are gone at once, and what was in memory."""
        self.namespaces.stop()
        remove_cgroup(self.cgroup)

    def start(self, name: str) -> None:
        """Start its kubelet or its containerd, unless it runs. A kubelet reports to the API server some time later."""
        if self.processes.process(name):
            return
        if name == "containerd":
            self.processes.start(name, ["containerd", "--config", str(self.directory / "containerd.toml")])
            self._wait_for_containerd()
            return
        assert name == "kubelet"
        flags = {
            "config": self.directory / "kubelet.json",
            "kubeconfig": self.directory / "kubeconfig",
            "root-dir": self.directory / "kubelet",
            "cert-dir": self.directory / "kubelet-keys",
            "hostname-override": self.name,
            "node-ip": self.address,
        }
        command = [self.control_plane.programs.path("kubelet"), *(f"--{flag}={value}" for flag, value in flags.items())]
        self.processes.start(name, command)

    def stop(self, name: str) -> None:
        """End its kubelet or its containerd in good order; pods run on."""
        self.processes.stop(name)

    def kill(self, name: str) -> None:
        """kill -9 of its kubelet or its containerd; pods run on."""
        self.processes.kill(name)

    def wait_ready(self, since: datetime | None = None) -> None:
        """Until it has reported that it is ready, after `since` where that is given."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not self._is_ready(since):
            if not self.processes.process("kubelet"):
                raise Stop(f"the kubelet of {self.name} ended: {self.processes.last_words('kubelet')}")
            if time.monotonic() > deadline:
                raise Stop(f"{self.name} is not ready after {READY_SECONDS_MAX:.0f} s; its log: {self.processes.log('kubelet')}")
            time.sleep(POLL_SECONDS)

    def set_kubelet(self, **settings: object) -> None:
        """Start its kubelet anew, with these settings over its own; ready when it returns. Pods run on."""
        since = datetime.now(UTC)
        self.stop("kubelet")
        self.settings = settings
        self._write_settings()
        # What it noted of cores is of the policy before, and no kubelet starts with another one over that.
        (self.directory / "kubelet" / "cpu_manager_state").unlink(missing_ok=True)
        self.start("kubelet")
        self.wait_ready(since)

    def cut_off(self) -> None:
        """Pull the network cable: its pods run on."""
        run(*self.center.enter_network("ip", "link", "set", self.name, "down"))

    def reconnect(self) -> None:
        run(*self.center.enter_network("ip", "link", "set", self.name, "up"))
        # The route to its pods went with the device.
        route = ["ip", "route", "replace", self.network.pods_of(self.number), "via", self.address]
        run(*self.center.enter_network(*route))

    def drop(self, chain: str) -> None:
        """Lose all packets one way, silently: "INPUT" of what comes to the node, "OUTPUT" of what it sends."""
        run(*self.namespaces.enter("iptables", "--wait", "--append", chain, "--jump", "DROP"))

    def pass_all(self) -> None:
        """Lose no packets any more."""
        run(*self.namespaces.enter("iptables", "--wait", "--flush"))

    def set_gpus(self, number: int, *, model: str = "NVIDIA-A100-SXM4-80GB", resource: str = GPU) -> None:
        """Let it offer GPUs that are not there; pods that ask for them get nothing more than their place."""
        amounts = {resource: str(number)}
        path = f"/api/v1/nodes/{self.name}"
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        self.control_plane.api.request("PATCH", f"{path}/status", status, content_type=MERGE)
        labels = {"metadata": {"labels": {GPU_PRODUCT: model}}}
        self.control_plane.api.request("PATCH", path, labels, content_type=MERGE)

    def import_image(self, archive: Path) -> None:
        """Give it the image of an OCI archive."""
        self.ctr("images", "import", str(archive))

    def ctr(self, *words: str) -> str:
        """containerd's own command, in the namespace of Kubernetes."""
        return run(*self.namespaces.enter("ctr", "--namespace", "k8s.io", *words))

    def _is_ready(self, since: datetime | None) -> bool:
        with contextlib.suppress(ApiRefused, OSError, HTTPException):
            node = self.control_plane.api.request("GET", f"/api/v1/nodes/{self.name}")
            for condition in node["status"].get("conditions", ()):
                if condition["type"] == "Ready" and condition["status"] == "True":
                    seen = datetime.fromisoformat(condition["lastHeartbeatTime"])
                    return since is None or seen >= since.replace(microsecond=0)  # The API's times have no fraction.
        return False

    def _wait_for_containerd(self) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        command = self.namespaces.enter("ctr", "version")
        while subprocess.run(command, capture_output=True, check=False).returncode:
            if not self.processes.process("containerd") or time.monotonic() > deadline:
                raise Stop(f"containerd of {self.name} does not answer: {self.processes.last_words('containerd')}")
            time.sleep(POLL_SECONDS)

    def _write_settings(self) -> None:
        keys, server = self.control_plane.keys, self.control_plane.server
        keys.issue(self.name, f"system:node:{self.name}", ["system:nodes"], hosts=[self.address, self.name])
        keys.kubeconfig(self.directory / "kubeconfig", server, self.name)
        (self.directory / "containerd.toml").write_text(CONTAINERD.format(directory=self.directory, pause=PAUSE_IMAGE))
        (self.directory / "cni" / "10-pods.conflist").write_text(json.dumps(self._pod_network()))
        settings = {**self._kubelet_settings(make_cgroup(self.cgroup)), **self.settings}
        (self.directory / "kubelet.json").write_text(json.dumps(settings, indent=1))

    def _pod_network(self) -> dict[str, Any]:
        addresses = {
            "type": "host-local",
            "dataDir": "/run/cni",  # Which addresses are taken; none after the node was switched off.
            "ranges": [[{"subnet": self.network.pods_of(self.number)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "ipam": addresses}
        return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}

    def _kubelet_settings(self, cgroup_root: str) -> dict[str, object]:
        keys = self.control_plane.keys
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(keys.authority)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(keys.certificate(self.name)),
            "tlsPrivateKeyFile": str(keys.key(self.name)),
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": cgroup_root,
            "failCgroupV1": False,
            "failSwapOn": False,
            "podLogsDir": str(self.directory / "pod-logs"),
            "volumePluginDir": str(self.directory / "volume-plugins"),
            "clusterDNS": [DNS_SERVICE],
            "clusterDomain": DOMAIN,
            "resolvConf": "",
            "makeIPTablesUtilChains": False,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1Gi", "imagefs.available": "1Gi"},
            "nodeStatusUpdateFrequency": "5s",
            "imageGCHighThresholdPercent": 100,  # Images that were imported cannot be fetched again.
            "shutdownGracePeriod": "0s",
        }


def missing_packages() -> list[str]:
    """Debian's packages that a node needs and this machine has not got."""
    return [package for package, file in PACKAGES.items() if not Path(file).exists()]


def install_packages() -> None:
    """Install them as root on Debian; raises Stop that names them otherwise."""
    missing = missing_packages()
    if not missing:
        return
    words = " ".join(missing)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Stop(f"a real node needs Debian's {' and '.join(missing)}: apt-get install {words}")
    # Run level 1 keeps the packages from starting services of their own.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", *missing]
    for command in (install, ["apt-get", "update", "-q"], install):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if command is install and done.returncode == 0:
            return
    raise Stop(f"these Debian packages cannot be installed: {words}: {done.stderr.strip()[-500:]}")


def check_place(*folders: Path) -> None:
    """Refuse folders that a node could not see."""
    for folder in folders:
        for hidden in HIDDEN:
            if folder.resolve().is_relative_to(hidden):
                raise Stop(f"{folder} lies below {hidden}, which is empty on a node. Choose another directory.")
