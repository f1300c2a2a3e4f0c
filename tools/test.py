"""`make test`, `check`, `lint`, `audit`, `bench`, `chaos`, `screens`, `kubernetes`: install what these need, run them.

Standard library only. Debian packages as root (without root it names the missing ones and stops), Python packages from
requirements-dev.lock into an environment outside the checkout, named by the lock's content: a second run installs nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ["BERTH_CACHE"])

# Package -> a file that is there once it is installed.
DEBIAN = {
    "python3-venv": "/usr/share/doc/python3-venv",
    "postgresql-15": "/usr/lib/postgresql/15/bin/initdb",
    "redis-server": "/usr/bin/redis-server",
    "bubblewrap": "/usr/bin/bwrap",
    "git": "/usr/lib/git-core/git-remote-http",
    "docker-registry": "/usr/bin/docker-registry",
    "skopeo": "/usr/bin/skopeo",
    "buildah": "/usr/bin/buildah",
    "busybox-static": "/bin/busybox",
    "openmpi-bin": "/usr/bin/mpirun",
    "openjdk-17-jre-headless": "/usr/share/doc/openjdk-17-jre-headless",
    "python3-torch": "/usr/lib/python3/dist-packages/torch/__init__.py",
    "chromium": "/usr/bin/chromium",
    "fonts-noto-cjk": "/usr/share/doc/fonts-noto-cjk",
    "slapd": "/usr/sbin/slapd",
    "openssh-server": "/usr/sbin/sshd",
    "libldap-dev": "/usr/include/ldap.h",
    "libsasl2-dev": "/usr/include/sasl/sasl.h",
    "gcc": "/usr/bin/gcc",
    "python3-dev": "/usr/share/doc/python3-dev",
}
LDAP_LOCK = ROOT / "requirements-ldap.lock"
FOR_CHAOS = ("python3-venv", "postgresql-15", "redis-server", "bubblewrap")
FOR_SCREENS = ("python3-venv", "bubblewrap", "chromium", "fonts-noto-cjk")


def main() -> int:
    parser = argparse.ArgumentParser(description="Install what the tests need and run them.")
    parser.add_argument("--long", action="store_true", help="full lengths and large numbers")
    parts = ["check", "lint", "format", "install", "bench", "chaos", "screens", "audit", "kubernetes"]
    parser.add_argument("--only", choices=parts, help="one part")
    parser.add_argument("rest", nargs="*", help="passed on")
    options = parser.parse_args()
    if options.only in (None, "chaos", "screens"):
        install_debian(
            {"chaos": FOR_CHAOS, "screens": FOR_SCREENS}.get(options.only or "", tuple(DEBIAN))
        )  # A benchmark installs its own peers.
    python = install_python()
    if options.only == "install":
        return 0
    if options.only == "chaos":
        return subprocess.run([str(python), "-m", "tests.chaos", *options.rest], cwd=ROOT, check=False).returncode
    if options.only == "kubernetes":
        return subprocess.run([str(python), "-m", "tools.kubernetes", *options.rest], cwd=ROOT, check=False).returncode
    if options.only == "screens":
        return subprocess.run([str(python), "-m", "tests.browser.screens", *options.rest], cwd=ROOT, check=False).returncode
    if options.only == "audit":
        return subprocess.run([str(python), str(ROOT / "tools" / "audit.py"), *options.rest], cwd=ROOT, check=False).returncode
    if options.only == "bench":
        return subprocess.run([str(python), "-m", "bench", *options.rest], cwd=ROOT, check=False).returncode
    if options.only == "format":
        subprocess.run([str(python.parent / "ruff"), "check", "--fix", "-q", "."], cwd=ROOT, check=False)
        return subprocess.run([str(python.parent / "ruff"), "format", "."], cwd=ROOT, check=False).returncode
    if options.only is None:
        install_extra(python, LDAP_LOCK)
    command = [str(python), str(ROOT / "tools" / "testrun.py"), *(["--long"] if options.long else [])]
    if options.only == "check":
        command += ["--check"]
    if options.only == "lint":
        command += [word for check in ("ruff", "format", "mypy", "imports", "portal") for word in ("--only", check)]
    return subprocess.run([*command, *options.rest], cwd=ROOT, check=False).returncode


def install_debian(packages: Sequence[str]) -> None:
    missing = [package for package in packages if not Path(DEBIAN[package]).exists()]
    if not missing:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print(f"The tests need these Debian packages: {' '.join(missing)}\nInstall them, then run this again.", file=sys.stderr)
        sys.exit(1)
    print(f"Installing Debian packages: {' '.join(missing)}", flush=True)
    # Run level 1 keeps the packages from starting services of their own.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    for attempt in (install, ["apt-get", "update", "-q"], install):
        done = subprocess.run(attempt, env=environment, capture_output=True, text=True, check=False)
        if attempt is install and done.returncode == 0:
            return
    print(done.stdout[-2000:] + done.stderr[-2000:], file=sys.stderr)
    sys.exit(f"These Debian packages could not be installed: {' '.join(missing)}")


def install_python() -> Path:
    """The environment's interpreter. A half-made environment has no mark and is made anew."""
    lock = ROOT / "requirements-dev.lock"
    name = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:12]
    environment = CACHE / "test" / name
    python = environment / "bin" / "python"
    done = environment / "complete"
    if not done.exists():
        print("Installing Python packages from requirements-dev.lock", flush=True)
        shutil.rmtree(environment, ignore_errors=True)
        environment.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        subprocess.run([*pip, "--require-hashes", "-r", str(lock)], check=True)
        done.write_text("")
    # The checkout is named anew each time: the environment is shared by all checkouts with the same lock.
    packages = next((environment / "lib").glob("python3.*/site-packages"))
    lines = [ROOT, ROOT / "platform", ROOT / "client" / "src"]
    (packages / "berth.pth").write_text("".join(f"{line}\n" for line in lines))
    return python


def install_extra(python: Path, lock: Path) -> None:
    """An extra of the server, beside the rest: what does not need it runs without."""
    done = python.parent.parent / f"complete-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    if done.exists():
        return
    print(f"Installing Python packages from {lock.name}", flush=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    subprocess.run([*pip, "--require-hashes", "-r", str(lock)], check=True)
    done.write_text("")


if __name__ == "__main__":
    sys.exit(main())
