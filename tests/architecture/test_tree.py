"""What the files of the project never hold: paths of one machine, addresses of registries, secrets."""

import re

from tests.architecture.sources import ROOT, tracked_files

# Written in pieces, so that this file does not hold what it looks for.
MACHINE_PATHS = re.compile(
    "|".join(
        ["/wo" + r"rk/(?:main|shared|\.library)\b", "/var/cache/" + "berth/dev", "/home/" + r"(?!berth\b)[a-z]+/", "/Users" + "/"]
    )
)
ADDRESSES = re.compile(r'"resolved"\s*:|--(?:extra-)?index-url|--find-links|--trusted-host|@ https?://')
PRIVATE_KEY = "-----BEGIN " + "(?:RSA |EC |OPENSSH )?PRIVATE KEY"
SECRETS = re.compile("|".join(["AKIA" + "[0-9A-Z]{16}", "ghp_" + "[A-Za-z0-9]{36}", PRIVATE_KEY]))
LOCK_FILES = (
    "requirements.lock",
    "requirements-dev.lock",
    "requirements-audit.lock",
    "requirements-ldap.lock",
    "package-lock.json",
    "frontend/package-lock.json",
)
FILE_BYTES_MAX = 5 * 1024 * 1024


def texts():
    for path in tracked_files():
        content = path.read_bytes()
        if b"\0" not in content[:8192]:
            yield path, content.decode("utf-8", errors="replace")


def test_no_file_names_a_path_of_a_development_machine():
    found = [f"{path.relative_to(ROOT)}: {match.group()}" for path, text in texts() for match in MACHINE_PATHS.finditer(text)]

    assert not found


def test_lock_files_hold_no_addresses():
    present = [ROOT / name for name in LOCK_FILES if (ROOT / name).exists()]

    assert present
    assert not [path.name for path in present if ADDRESSES.search(path.read_text(encoding="utf-8"))]


def test_python_lock_files_hold_a_hash_for_every_package():
    for name in ("requirements.lock", "requirements-dev.lock", "requirements-audit.lock", "requirements-ldap.lock"):
        text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
        packages = [line for line in text.splitlines() if re.match(r"[A-Za-z0-9]", line)]
        assert packages
        assert not [line.split()[0] for line in packages if "--hash=sha256:" not in line]


def test_no_file_holds_a_secret():
    assert not [str(path.relative_to(ROOT)) for path, text in texts() if SECRETS.search(text)]


def test_no_file_is_too_large_to_review():
    assert not [str(path.relative_to(ROOT)) for path in tracked_files() if path.stat().st_size > FILE_BYTES_MAX]
