"""Which registries may be spoken to, and how: the operators' word, checked for every address (security T7, T10)."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusters.registries.errors import RegistryRefused, RegistryUnreachable
from kernel.config import Config, words_of
from kernel.targets import (
    PORTS,
    Resolver,
    Target,
    TargetRefused,
    parse_target,
    resolve,
    system_resolver,
)
from kernel.words import Text

# Where the registry of a name listens, and the name that container tools use for its accounts.
_ENDPOINTS = {"docker.io": "registry-1.docker.io"}
_PORTS = PORTS | {5000}  # Where registries listen if nobody says otherwise (github.com/distribution/distribution).


@dataclass(frozen=True, slots=True)
class Account:
    """Whom a registry takes us for."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Rules:
    """`hosts` empty: any registry of the internet. Hosts are written as references write them: `name` or `name:port`."""

    hosts: frozenset[str] = frozenset()
    private_hosts: frozenset[str] = frozenset()
    plain_hosts: frozenset[str] = frozenset()
    ca_file: str = ""
    resolver: Resolver = system_resolver

    def check_registry(self, host: str) -> None:
        """RegistryRefused for a registry that no operator allows. Resolves nothing."""
        if self.hosts and host not in self.hosts | self.private_hosts | self.plain_hosts:
            raise RegistryRefused(
                Text(
                    f"{host} is not among the registries that this installation allows.", f"{host} 不在本系统允许的镜像仓库之列。"
                )
            )
        self._target(self.url(host, "/v2/"), registry=host)

    def url(self, host: str, path: str) -> str:
        """Where a registry answers."""
        scheme = "http" if host in self.plain_hosts else "https"
        return f"{scheme}://{_ENDPOINTS.get(host, host)}{path}"

    def checked(self, url: str, *, registry: str) -> tuple[Target, str]:
        """A URL in its parts and the address to connect to. `registry` is whose answer led there."""
        target = self._target(url, registry=registry)
        try:
            return target, resolve(target, resolver=self.resolver, allow_private=self._is_inside(target))[0]
        except TargetRefused as error:
            raise RegistryRefused(
                Text(
                    f"{registry} leads to an address that may not be asked: {error.detail}",
                    f"{registry} 指向不允许访问的地址：{error.detail_text.zh}",
                )
            ) from None
        except (OSError, UnicodeError) as error:
            raise RegistryUnreachable(
                Text(f"The name {target.host} does not resolve: {error}", f"无法解析名称 {target.host}：{error}")
            ) from None

    def _target(self, url: str, *, registry: str) -> Target:
        """Plain HTTP is for registries that operators named so, and stays with them: nothing is sent on by it."""
        try:
            target = parse_target(url, allow_private=True)  # Addresses are checked once they are known.
        except TargetRefused as error:
            raise RegistryRefused(
                Text(f"{registry} may not be asked: {error.detail}", f"不允许访问 {registry}：{error.detail_text.zh}")
            ) from None
        if not target.is_tls and not (registry in self.plain_hosts and target.authority == registry):
            raise RegistryRefused(Text(f"{registry} leads to an address without TLS.", f"{registry} 指向不使用 TLS 的地址。"))
        if target.port not in _PORTS and not self._is_named(target):
            raise RegistryRefused(
                Text(
                    f"Port {target.port} of {target.host} is not one where registries listen.",
                    f"{target.host} 的端口 {target.port} 不是镜像仓库使用的端口。",
                )
            )
        return target

    def _is_inside(self, target: Target) -> bool:
        """Whether operators named it as a host of their own network."""
        return bool(_names(target) & (self.private_hosts | self.plain_hosts))

    def _is_named(self, target: Target) -> bool:
        return bool(_names(target) & (self.hosts | self.private_hosts | self.plain_hosts))


def rules_of(config: Config) -> Rules:
    """The rules of this installation."""
    return Rules(
        hosts=_hosts(config.registry_hosts),
        private_hosts=_hosts(config.registry_private_hosts),
        plain_hosts=_hosts(config.registry_plain_hosts),
        ca_file=config.registry_ca_file,
    )


def _hosts(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in words_of(text))


def _names(target: Target) -> set[str]:
    """How operators may have written it."""
    return {target.authority, target.host, f"{target.host}:{target.port}"}
