"""A whole cluster in one directory: control plane, real nodes, simulated ones, and what is asked of it.

    cluster = Cluster(directory)
    cluster.up(nodes=1)
    print(cluster.kubectl("get", "nodes"))
    cluster.down()                      # `up` goes on with its data; `remove` deletes the directory, too

Any process may make a `Cluster` of the same directory and use it, start and kill parts of it, or take it down: what runs is read
from the directory. Without real nodes it is on loopback and needs no root; with them it has a network of its own, and all of it
lies in namespaces.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.kubernetes import images
from tools.kubernetes.api import Api, ApiRefused
from tools.kubernetes.cgroups import cgroups_of, remove_cgroup
from tools.kubernetes.control_plane import LOOPBACK, NAMES, ControlPlane
from tools.kubernetes.namespaces import Namespaces
from tools.kubernetes.network import Network, connect_host, run, wait_until_gone
from tools.kubernetes.node import RealNode
from tools.kubernetes.programs import Programs
from tools.kubernetes.simulated import create_simulated_nodes
from tools.progress import Stop, last_line, step

POD_SECONDS_MAX = 60.0
ACCOUNT_SECONDS_MAX = 60.0
KUBECTL_SECONDS_MAX = 120.0
POLL_SECONDS = 0.05
MODEL = "NVIDIA-A100-SXM4-80GB"
RESTRICTED: Mapping[str, str] = {"pod-security.kubernetes.io/enforce": "restricted"}


@dataclasses.dataclass(frozen=True)
class Layout:
    """What the cluster of a directory is made of. `network` is the number of its own, None on loopback."""

    network: int | None = None
    nodes: int = 0
    simulated: bool = False


class Cluster:
    """The cluster of a directory. `options` are more flags by program, for what this object starts."""

    control_plane: ControlPlane
    nodes: tuple[RealNode, ...]

    def __init__(
        self, directory: Path, programs: Programs | None = None, *, options: Mapping[str, Sequence[str]] | None = None,
        dies_with_caller: bool = False,
    ) -> None:  # fmt: skip
        self.directory = directory.resolve()
        self.programs = programs or Programs.cached()
        self.options = options or {}
        self.dies_with_caller = dies_with_caller
        self.name = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:8]
        self.center = Namespaces(self.directory / "control-plane", dies_with_caller=dies_with_caller)
        self._set_parts(self._stored_layout())

    # --- Its life ----------------------------------------------------------------------------------------------------

    def up(self, *, nodes: int = 1, simulated: int = 0, gpus: int = 4, with_python: bool = False) -> None:
        """Start what does not run: ready when it returns. `gpus` are those that each real node pretends to have."""
        check_rights(nodes)
        for folder in (self.directory, self.directory / "control-plane", self.directory / "images"):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
        nodes = self._add_to_those_that_run(nodes)
        network = self._connect() if nodes else None
        self._store(Layout(network.number if network else None, nodes, bool(simulated) or self.layout.simulated))
        with step("control plane") as done:
            self.control_plane.start()
            done.outcome = self.server
        archives = self._make_images(with_python=with_python) if nodes else []
        for node in self.nodes:
            with step(node.name) as done:
                node.power_on(archives)
                node.set_gpus(gpus, model=MODEL)
                done.outcome = f"{node.address}, {gpus} simulated GPUs"
        if simulated:
            with step("simulated nodes") as done:
                self.add_simulated_nodes(simulated)
                done.outcome = str(simulated)

    def down(self) -> None:
        """Stop it in good order; its data stays. Nothing if it does not run; what is left of it if it was killed."""
        for node in self.nodes:
            node.power_off()
        self.control_plane.stop()
        self._end()

    def remove(self) -> None:
        """Kill all of it, whatever state it is in, and delete its directory."""
        for name in NAMES:
            self.control_plane.kill(name)
        for node in self.nodes:
            node.namespaces.stop()
        self._end()
        shutil.rmtree(self.directory)

    def drop(self, chain: str) -> None:
        """Lose all packets between this machine and the control plane one way, silently: "INPUT" of what comes to it, "OUTPUT" of
        what it sends. Its nodes notice nothing."""
        whose = {"INPUT": "--source", "OUTPUT": "--destination"}[chain]
        run(*self.center.enter_network("iptables", "--wait", "--append", chain, whose, self.host, "--jump", "DROP"))

    def pass_all(self) -> None:
        """Lose no packets any more."""
        run(*self.center.enter_network("iptables", "--wait", "--flush", "INPUT"))
        run(*self.center.enter_network("iptables", "--wait", "--flush", "OUTPUT"))

    # --- Who may ask it ----------------------------------------------------------------------------------------------

    @property
    def server(self) -> str:
        return self.control_plane.server

    @property
    def authority(self) -> Path:
        return self.control_plane.keys.authority

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.control_plane.kubeconfig

    @property
    def api(self) -> Api:
        """As the administrator."""
        return self.control_plane.api

    @property
    def host(self) -> str:
        """The address by which pods reach this machine."""
        return Network(self.layout.network).host if self.layout.network is not None else LOOPBACK

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        return self.control_plane.kubeconfig_for(user, groups)

    def kubeconfig_of_account(self, namespace: str, name: str, seconds: int = 3600) -> Path:
        return self.control_plane.kubeconfig_of_account(namespace, name, seconds)

    # --- What is asked of it -----------------------------------------------------------------------------------------

    def request(self, method: str, path: str, body: object = None, *, content_type: str = "application/json") -> Any:
        """Parsed JSON. Raises ApiRefused."""
        return self.api.request(method, path, body, content_type=content_type)

    def text(self, path: str) -> str:
        """What is no JSON: logs, metrics."""
        return self.api.text("GET", path)

    def create(self, document: Mapping[str, Any]) -> Any:
        """Create an object; the API server's view of it."""
        return self.request("POST", _collection(document), document)

    def delete(self, document: Mapping[str, Any]) -> None:
        self.request("DELETE", f"{_collection(document)}/{document['metadata']['name']}")

    def kubectl(self, *words: str, text: str = "", kubeconfig: Path | None = None) -> str:
        """Its output. Raises Stop with what it said."""
        cache = self.directory / "kubectl-cache"
        command = [self.programs.path("kubectl"), "--kubeconfig", str(kubeconfig or self.kubeconfig), "--cache-dir", str(cache)]
        done = subprocess.run(
            [*command, *words], input=text, capture_output=True, text=True, check=False, timeout=KUBECTL_SECONDS_MAX
        )
        if done.returncode:
            raise Stop(f"`kubectl {' '.join(words)}` ended with {done.returncode}: {last_line(done.stderr)}")
        return done.stdout

    @contextlib.contextmanager
    def namespace(self, prefix: str = "test", labels: Mapping[str, str] = RESTRICTED) -> Iterator[str]:
        """A namespace in which pods can be created; it is being deleted when the block has ended."""
        name = f"{prefix}-{secrets.token_hex(3)}"
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}})
        try:
            self._wait_for_account(name)
            yield name
        finally:
            self.request("DELETE", f"/api/v1/namespaces/{name}")

    def pod(self, namespace: str, name: str) -> Any:
        return self.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")

    def wait_for_pod(self, namespace: str, name: str, *phases: str, seconds: float = POD_SECONDS_MAX) -> Any:
        """The pod once it is in one of these phases. Raises TimeoutError with its status."""
        deadline = time.monotonic() + seconds
        while True:
            pod = self.pod(namespace, name)
            if pod["status"].get("phase") in phases:
                return pod
            if time.monotonic() > deadline:
                raise TimeoutError(f"pod {namespace}/{name} is not {' or '.join(phases)}: {json.dumps(pod['status'])}")
            time.sleep(POLL_SECONDS)

    def logs(self, namespace: str, name: str) -> str:
        return self.text(f"/api/v1/namespaces/{namespace}/pods/{name}/log")

    def add_simulated_nodes(self, number: int, *, gpus: int = 8, model: str = MODEL, prefix: str = "fake") -> None:
        """Nodes `fake-00000` and on, played by kwok, which is started if need be. Those that are there stay as they are."""
        if not self.layout.simulated:
            self._store(dataclasses.replace(self.layout, simulated=True))
        self.control_plane.start("kwok")
        port = self.control_plane.ports["kwok"]
        create_simulated_nodes(self.api, number, gpus=gpus, model=model, port=port, prefix=prefix)

    # --- How it is put together --------------------------------------------------------------------------------------

    @property
    def _layout_path(self) -> Path:
        return self.directory / "cluster.json"

    def _stored_layout(self) -> Layout:
        try:
            return Layout(**json.loads(self._layout_path.read_text()))
        except FileNotFoundError:
            return Layout()

    def _store(self, layout: Layout) -> None:
        building = self._layout_path.with_suffix(".building")
        building.write_text(json.dumps(dataclasses.asdict(layout)))
        building.replace(self._layout_path)
        self._set_parts(layout)

    def _set_parts(self, layout: Layout) -> None:
        self.layout = layout
        network = None if layout.network is None else Network(layout.network)
        self.control_plane = ControlPlane(
            self.directory / "control-plane",
            self.programs,
            address=network.control_plane if network else LOOPBACK,
            inside=self.center if network else None,
            with_kwok=layout.simulated,
            options=self.options,
            dies_with_caller=self.dies_with_caller,
        )
        numbers = range(1, layout.nodes + 1) if network else ()
        self.nodes = tuple(self._node(number, network) for number in numbers if network)

    def _node(self, number: int, network: Network) -> RealNode:
        return RealNode(
            self.directory / f"node-{number}",
            number,
            self.control_plane,
            network,
            self.center,
            self.name,
            dies_with_caller=self.dies_with_caller,
        )

    def _add_to_those_that_run(self, nodes: int) -> int:
        """How many nodes it is to have: what runs is not taken away."""
        is_running = any(self.control_plane.is_running(name) for name in NAMES)
        if is_running and nodes and self.layout.network is None:
            raise Stop(f"{self.directory} runs on loopback, where no node can reach it. Take it down first, then up again.")
        return max(nodes, self.layout.nodes) if is_running else nodes

    def _connect(self) -> Network:
        """The network that is there, or a new one."""
        if self.center.is_there and self.layout.network is not None:
            return Network(self.layout.network)
        self.center.stop()
        self.center.start()
        return connect_host(self.center)

    def _make_images(self, *, with_python: bool) -> list[Path]:
        makers = {"pause": images.make_pause_image, "shell": images.make_shell_image}
        if with_python:
            makers["python"] = images.make_python_image
        archives = []
        for name, make in makers.items():
            archive = self.directory / "images" / f"{name}.tar"
            if not archive.exists():
                make(archive)
            archives.append(archive)
        return archives

    def _end(self) -> None:
        """End its namespaces, and what they do not take with them."""
        self.center.stop()
        if self.layout.network is not None:
            wait_until_gone(Network(self.layout.network))
        for cgroup in cgroups_of(self.name):
            remove_cgroup(cgroup)

    def _wait_for_account(self, namespace: str) -> None:
        """The controller manager makes the account without which no pod is admitted."""
        deadline = time.monotonic() + ACCOUNT_SECONDS_MAX
        while True:
            try:
                self.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
                return
            except ApiRefused as refusal:
                if refusal.status != 404 or time.monotonic() > deadline:
                    raise
            time.sleep(POLL_SECONDS)


def check_rights(nodes: int) -> None:
    """Refuse what only root can start."""
    if nodes and os.geteuid() != 0:
        raise Stop("a real node needs root. Without it there are simulated nodes alone: --nodes 0 --simulated 10")


def _collection(document: Mapping[str, Any]) -> str:
    """The path of all objects of its kind, in its namespace where it has one. Plurals are those of English."""
    version, kind = document["apiVersion"], document["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}es" if kind.endswith("s") else f"{kind}s"
    namespace = document["metadata"].get("namespace")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
