"""Which browser on which system a User-Agent header means, in words that its owner knows it by. A guess, and never relied on."""

from __future__ import annotations

from dataclasses import dataclass

# In this order: most browsers name those before them, too.
BROWSERS = (
    ("Edg", "Edge"), ("OPR/", "Opera"), ("Vivaldi/", "Vivaldi"), ("SamsungBrowser/", "Samsung Internet"), ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"), ("CriOS/", "Chrome"), ("Chromium/", "Chromium"), ("Chrome/", "Chrome"), ("Safari/", "Safari"),
    ("curl/", "curl"),
)  # fmt: skip
SYSTEMS = (
    ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Windows", "Windows"), ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"), ("Linux", "Linux"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Device:
    """Names of products, the same in every language; None where the header says nothing that is known."""

    browser: str | None
    system: str | None

    @property
    def words(self) -> str:
        return f"{self.browser or 'Browser'} on {self.system}" if self.system else self.browser or "Unknown browser"


def device_of(agent: str) -> Device:
    """The device that a header speaks of."""
    return Device(_first(BROWSERS, agent), _first(SYSTEMS, agent))


def _first(names: tuple[tuple[str, str], ...], agent: str) -> str | None:
    return next((name for mark, name in names if mark in agent), None)
