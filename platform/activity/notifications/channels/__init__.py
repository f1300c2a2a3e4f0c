"""The channels by which notices reach people: every module of this folder is one, and makes its `CHANNEL`.

They are found when this package is imported, which every process does as it starts: an incomplete one stops the start.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from types import MappingProxyType, ModuleType

from activity.notifications.channel import Channel, IncompleteChannel
from kernel.config import BadSetting, Config


def register(modules: Iterable[ModuleType]) -> Mapping[str, Channel]:
    """The channels of modules by kind, those that ask for least first. IncompleteChannel for a module without one of its name."""
    found: dict[str, Channel] = {}
    for module in modules:
        name, channel = module.__name__.rpartition(".")[2], getattr(module, "CHANNEL", None)
        if not isinstance(channel, Channel):
            raise IncompleteChannel(f"{module.__name__} makes no CHANNEL: it needs kind, label, fields, send and target")
        if channel.kind != name:
            raise IncompleteChannel(f"{module.__name__} makes a channel of kind {channel.kind!r}: file and kind have one name")
        found[channel.kind] = channel
    return MappingProxyType(dict(sorted(found.items(), key=lambda item: (len(item[1].fields), item[0]))))


CHANNELS = register(importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))


def offered(config: Config) -> tuple[Channel, ...]:
    """The channels that the operator offers. BadSetting for a name that is none."""
    names = [name.strip() for name in config.notification_channels.split(",") if name.strip()] or list(CHANNELS)
    unknown = sorted(set(names) - set(CHANNELS))
    if unknown:
        raise BadSetting(f"BERTH_NOTIFICATION_CHANNELS names {', '.join(unknown)}; there are {', '.join(CHANNELS)}.")
    return tuple(channel for kind, channel in CHANNELS.items() if kind in names)


def is_offered(kind: str, config: Config) -> bool:
    return any(channel.kind == kind for channel in offered(config))
