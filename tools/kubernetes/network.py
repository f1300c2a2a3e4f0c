"""The network of one cluster: a namespace with a bridge, to which the control plane, each node and this machine are connected.

    10.N.0.1     the API server and DNS, in the namespace that holds the bridge; also 10.96.0.1 and 10.96.0.10, the Services by
                 which pods know them
    10.N.0.2     this machine
    10.N.0.11    node-1, whose pods are 10.N.11.0/24; node-2 is 10.N.0.12, and so on

So this machine, nodes and pods reach each other by address, and the API server. There is no way out, and names are
those of Services alone. All devices lie in namespaces, but for this machine's end of one cable, which goes with its other end.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import subprocess
import time
from dataclasses import dataclass

from tools.kubernetes.control_plane import DNS_SERVICE, KUBERNETES_SERVICE
from tools.kubernetes.namespaces import Namespaces
from tools.progress import Stop, last_line

NUMBERS = range(210, 250)  # Of 10.N.0.0/16, taken where nothing else on this machine has it.
NODES_MAX = 100
FIRST_NODE = 10  # Added to a node's number.
GONE_SECONDS_MAX = 30.0  # The kernel takes devices of an ended namespace away in the background.


@dataclass(frozen=True)
class Network:
    """Addresses of the cluster whose second number is this one."""

    number: int

    @property
    def device(self) -> str:
        """This machine's end."""
        return f"berth-k{self.number}"

    @property
    def whole(self) -> str:
        return f"10.{self.number}.0.0/16"

    @property
    def control_plane(self) -> str:
        return f"10.{self.number}.0.1"

    @property
    def host(self) -> str:
        """This machine, as nodes and pods reach it."""
        return f"10.{self.number}.0.2"

    def node(self, node: int) -> str:
        return f"10.{self.number}.0.{FIRST_NODE + node}"

    def pods_of(self, node: int) -> str:
        return f"10.{self.number}.{FIRST_NODE + node}.0/24"


def connect_host(center: Namespaces) -> Network:
    """Lay out the bridge in `center` and connect this machine to it, at the first number that is free."""
    for number in NUMBERS:
        network = Network(number)
        if _is_taken(network):
            continue
        cable = ["ip", "link", "add", network.device, "type", "veth", "peer", "name", "host", "netns", str(center.holder)]
        if subprocess.run(cable, capture_output=True, check=False).returncode:
            continue  # Another cluster was faster: the name of the device is what decides.
        _lay_out(center, network)
        run("ip", "addr", "add", f"{network.host}/24", "dev", network.device)
        run("ip", "link", "set", network.device, "up")
        run("ip", "route", "add", network.whole, "via", network.control_plane)
        return network
    raise Stop(f"all networks from 10.{NUMBERS[0]} to 10.{NUMBERS[-1]} are in use here: look at `ip route`.")


def connect_node(center: Namespaces, network: Network, node: int, namespaces: Namespaces) -> None:
    """Put a node on the bridge. Its namespaces are new and empty."""
    assert 0 < node <= NODES_MAX
    device = f"node-{node}"
    # Of the node that had this place before, the kernel takes the cable away a while after its namespaces.
    subprocess.run(center.enter_network("ip", "link", "del", device), capture_output=True, check=False)
    cable = ["ip", "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", str(namespaces.holder)]
    run(*center.enter_network(*cable))
    run(*center.enter_network("ip", "link", "set", device, "master", "nodes", "up"))
    run(*center.enter_network("ip", "route", "replace", network.pods_of(node), "via", network.node(node)))
    inside = namespaces.enter
    run(*inside("ip", "link", "set", "lo", "up"))
    run(*inside("ip", "addr", "add", f"{network.node(node)}/24", "dev", "eth0"))
    run(*inside("ip", "link", "set", "eth0", "up"))
    run(*inside("ip", "route", "add", "default", "via", network.control_plane))
    _set(namespaces, "net/ipv4/ip_forward", "1")


def wait_until_gone(network: Network) -> None:
    """Until the kernel has taken this machine's device away."""
    deadline = time.monotonic() + GONE_SECONDS_MAX
    while subprocess.run(["ip", "link", "show", network.device], capture_output=True, check=False).returncode == 0:
        if time.monotonic() > deadline:
            raise Stop(f"the device {network.device} is still there: something holds the network of a cluster that ended.")
        time.sleep(0.05)


def run(*command: str) -> str:
    """Run it; raises Stop with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = command[command.index("--") + 1 :] if "--" in command else command
        raise Stop(f"`{' '.join(words)}` said: {last_line(done.stderr or done.stdout)}")
    return done.stdout


def _lay_out(center: Namespaces, network: Network) -> None:
    inside = center.enter
    run(*inside("ip", "link", "set", "lo", "up"))
    for service in (KUBERNETES_SERVICE, DNS_SERVICE):
        run(*inside("ip", "addr", "add", f"{service}/32", "dev", "lo"))
    run(*inside("ip", "link", "add", "nodes", "type", "bridge"))
    run(*inside("ip", "addr", "add", f"{network.control_plane}/24", "dev", "nodes"))
    run(*inside("ip", "link", "set", "nodes", "up"))
    run(*inside("ip", "link", "set", "host", "master", "nodes", "up"))
    run(*inside("ip", "route", "add", "default", "via", network.host))
    _set(center, "net/ipv4/ip_forward", "1")
    _set(center, "net/ipv4/conf/all/send_redirects", "0")  # Nodes need not learn another way to the pods of the next.


def _set(namespaces: Namespaces, name: str, value: str) -> None:
    run(*namespaces.enter("sh", "-c", f"echo {value} > /proc/sys/{name}"))


def _is_taken(network: Network) -> bool:
    """Whether this machine has a route into it."""
    whole = ipaddress.ip_network(network.whole)
    for route in json.loads(run("ip", "-json", "-4", "route", "show", "table", "all")):
        with contextlib.suppress(ValueError):  # "default"
            if ipaddress.ip_network(route["dst"], strict=False).overlaps(whole):
                return True
    return False
