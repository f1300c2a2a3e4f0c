"""Where a message may go: never into our own network (security T10).

A URL is taken apart strictly, its name is resolved once, every address that comes back is checked, and the connection is made
to the checked address itself: a name that answers differently the second time changes nothing. Redirects are not followed.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from kernel.errors import BerthError
from kernel.words import Saying, Text

URL_LENGTH_MAX = 2_000
PORTS = frozenset({80, 443, 8080, 8443})  # Where web servers listen; not where databases and mail servers do.
DEFAULT_PORTS = {"http": 80, "https": 443}
ADDRESSES_MAX = 16

_HOST = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9_-]*[a-z0-9])?)*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
# RFC 3986, section 2: everything that a URL may hold after the host, and nothing that a parser could read twice.
_PATH = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/?%]*")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Sequence[str]]

# Never reachable, whatever the operator allows: link-local (metadata services), "this network", multicast, reserved, and the
# metadata addresses that clouds keep in ordinary ranges.
_NEVER = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "169.254.0.0/16",
        "192.0.0.192/32",  # Oracle Cloud metadata.
        "100.100.100.200/32",  # Alibaba Cloud metadata.
        "168.63.129.16/32",  # Azure's host services, a public address.
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/128",
        "fe80::/10",
        "fd00:ec2::/32",  # AWS metadata and its neighbours.
        "fd20:ce::/32",  # Google Cloud metadata.
        "ff00::/8",
    )
)
# Not on the internet (IANA special-purpose registries, RFC 6890 and its updates); reachable if the operator allows.
_PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "2001::/23",
        "2001:db8::/32",
        "3fff::/20",
    )
)
_GLOBAL_V6 = ipaddress.ip_network("2000::/3")  # All that IANA has handed out.
_NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))


class TargetRefused(BerthError):
    """The target address is not allowed. Repeating the request does not help."""

    code = "target_refused"
    status = 422
    title = Text("This address is not allowed", "不允许使用该地址")


@dataclass(frozen=True, slots=True)
class Target:
    """A URL in its parts. `path` begins with a slash and holds the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """The Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if DEFAULT_PORTS[self.scheme] == self.port else f"{host}:{self.port}"


def parse_target(url: str, *, allow_private: bool = False) -> Target:
    """Take a URL apart; TargetRefused for anything unusual, with the reason. Resolves nothing."""
    if len(url) > URL_LENGTH_MAX or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise _refused(
            Text(
                "The URL is too long or holds characters that do not belong in one; write names in punycode.",
                "URL 过长，或含有不属于 URL 的字符；名称请用 punycode 书写。",
            )
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _refused(Text("This is no URL.", "这不是 URL。")) from None
    if parts.scheme not in DEFAULT_PORTS:
        raise _refused(Text("The URL must begin with https:// or http://.", "URL 须以 https:// 或 http:// 开头。"))
    if "@" in parts.netloc:
        raise _refused(
            Text("The URL must not hold a user name or password.", "URL 不能含有用户名或密码。"),
            hint=Text("Requests are signed; check Berth-Signature.", "请求带有签名；请校验 Berth-Signature。"),
        )
    if parts.fragment or "#" in url:
        raise _refused(Text("The URL must not hold a fragment (#).", "URL 不能含有片段（#）。"))
    if not _is_host(host) or not _PATH.fullmatch(parts.path + parts.query):
        raise _refused(
            Text("The host or path of the URL is not written as a web address.", "URL 的主机名或路径不符合网址的写法。")
        )
    port = DEFAULT_PORTS[parts.scheme] if port is None else port
    if not allow_private and port not in PORTS:
        raise _refused(
            Text(
                f"Port {port} is not one of {', '.join(map(str, sorted(PORTS)))}.",
                f"端口 {port} 不可用；可用：{', '.join(map(str, sorted(PORTS)))}。",
            )
        )
    target = Target(parts.scheme, host, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
    literal = _literal(host)
    if literal is not None:
        check_address(literal, allow_private=allow_private)
    return target


def system_resolver(host: str, port: int) -> Sequence[str]:
    """The host's addresses as the operating system knows them. Raises OSError when there are none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def resolve(target: Target, *, resolver: Resolver = system_resolver, allow_private: bool = False) -> tuple[str, ...]:
    """The addresses to connect to. One forbidden address among them refuses the target; OSError when there are none."""
    addresses = tuple(resolver(target.host, target.port))[:ADDRESSES_MAX]
    if not addresses:
        raise OSError(f"{target.host} has no address")
    for text in addresses:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:  # An address with a zone, such as fe80::1%eth0.
            raise _refused(Text(f"{target.host} leads to {text}.", f"{target.host} 指向 {text}。")) from None
        check_address(address, allow_private=allow_private)
    return addresses


def check_address(address: Address, *, allow_private: bool = False) -> None:
    """Refuse an address inside our own network, also in its IPv6 disguises."""
    for inner in (address, *_embedded(address)):
        if any(inner in network for network in _NEVER):
            raise _refused(Text(f"{address} is not an address of a server.", f"{address} 不是可以访问的地址。"))
        if not allow_private and not _is_public(inner):
            raise _refused(
                Text(f"{address} is not on the internet.", f"{address} 不在互联网上。"),
                hint=Text(
                    "An operator may set BERTH_WEBHOOK_PRIVATE_TARGETS.", "运维人员可以设置 BERTH_WEBHOOK_PRIVATE_TARGETS。"
                ),
            )


def _is_public(address: Address) -> bool:
    if any(address in network for network in _PRIVATE):
        return False
    if isinstance(address, ipaddress.IPv6Address):
        is_wrapped = address.ipv4_mapped is not None or any(address in network for network in _NAT64)
        return not is_wrapped and address.sixtofour is None and address in _GLOBAL_V6
    return True


def _embedded(address: Address) -> tuple[Address, ...]:
    """IPv4 addresses that an IPv6 address stands for: mapped, compatible, NAT64, 6to4, Teredo."""
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    found: list[Address] = []
    is_compatible = 1 < int(address) < 2**32  # "::1" has that form too, but is loopback.
    if is_compatible or any(address in network for network in _NAT64):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    if address.ipv4_mapped is not None:
        found.append(address.ipv4_mapped)
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found.extend(address.teredo)
    return tuple(found)


def _is_host(host: str) -> bool:
    if "%" in host:  # A zone of a link-local address.
        return False
    if _literal(host) is not None:
        return True
    # A last label of digits makes resolvers read the whole as an IPv4 address in one of its old notations.
    return 0 < len(host) <= 253 and bool(_HOST.fullmatch(host)) and not _NUMBER.fullmatch(host.rpartition(".")[2])


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _refused(detail: Saying, hint: Saying = "") -> TargetRefused:
    return TargetRefused(
        detail, hint=hint or Text("Give the address of a web server on the internet.", "请给出互联网上 Web 服务器的地址。")
    )
