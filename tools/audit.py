"""`make audit`: known holes in what the project depends on, and licences. Says what could not be asked: that is no pass.

    python tools/audit.py

Python: pip-audit over each lock. JavaScript: `npm audit` for each package-lock.json. Licences: those of the installed packages.
A hole, or a licence that the project cannot live with, ends with 1. What could not be looked at, such as without the index of
advisories, is named in the last line and ends with 3: that is no pass.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("BERTH_CACHE", str(Path.home() / ".cache" / "berth")))
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-audit.lock", "requirements-ldap.lock")
OWN_LOCK = ROOT / "requirements-audit.lock"
SECONDS_MAX = 300

# Advisories that do not concern us: id -> (why, until when). Past its day an entry counts no more.
ACCEPTED: dict[str, tuple[str, date]] = {}

# Words of licences under which a server may be given away with its source; and one that obliges those who link to it statically.
FREE = re.compile(
    r"mit|bsd|apache|isc|psf|python|mpl|mozilla|lgpl|zlib|unlicense|public domain|0bsd|cc0|dual license", re.IGNORECASE
)
BINDING = re.compile(r"(?<![L])GPL|affero|sspl|busl|commons clause|proprietary", re.IGNORECASE)


@dataclass
class Report:
    """What was found, what was looked at, what could not be."""

    holes: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    not_made: list[str] = field(default_factory=list)


def main(arguments: list[str] | None = None) -> int:
    """Run every part; the exit status says what came of it."""
    argparse.ArgumentParser(description="Look for known holes in dependencies, and at their licences.").parse_args(arguments)
    report = Report()
    audit_python(report)
    audit_javascript(report)
    audit_licences(report)
    for line in report.made:
        print(f"  looked at   {line}")
    for line in report.not_made:
        print(f"  NOT AUDITED {line}")
    for line in report.holes:
        print(f"  HOLE        {line}")
    print(f"audit: {len(report.holes)} findings; {len(report.made)} parts looked at")
    if report.not_made:
        print(f"audit: not looked at: {'; '.join(line.partition(':')[0] for line in report.not_made)}")
    return 1 if report.holes else 3 if report.not_made else 0


def audit_python(report: Report) -> None:
    """Every lock by pip-audit, which is installed from a lock of its own."""
    try:
        program = install_pip_audit()
    except (OSError, subprocess.SubprocessError) as error:
        report.not_made += [f"{name}: pip-audit could not be installed ({type(error).__name__})" for name in LOCKS]
        return
    for name in LOCKS:
        if (ROOT / name).exists():
            judge_python(name, *_run_pip_audit(program, ROOT / name), report)


def judge_python(name: str, document: dict[str, Any] | None, problem: str, report: Report) -> None:
    """What pip-audit said of one lock. It ends well also when it could ask about nothing, so its skips are counted."""
    if document is None:
        report.not_made.append(f"{name}: {problem}")
        return
    packages = document.get("dependencies", [])
    skipped = [package for package in packages if "skip_reason" in package]
    for package in packages:
        for found in package.get("vulns", []):
            names = [found["id"], *found.get("aliases", [])]
            if not any(_is_accepted(each) for each in names):
                fixed = ", ".join(found.get("fix_versions", [])) or "nothing yet"
                report.holes.append(f"{name}: {package['name']} {package['version']}: {names[0]}, mended in {fixed}")
    if skipped or not packages:
        report.not_made.append(f"{name}: nothing is known of {len(skipped)} of {len(packages)} packages; is the index reachable?")
    if len(skipped) < len(packages):
        report.made.append(f"{name}: {len(packages) - len(skipped)} packages")


def audit_javascript(report: Report) -> None:
    """Every package-lock.json by npm; high and critical ones are findings."""
    locks = [path for path in sorted(ROOT.rglob("package-lock.json")) if "node_modules" not in path.parts]
    if not locks:
        report.made.append("JavaScript: there is no package-lock.json, so nothing is installed from npm")
        return
    npm = shutil.which("npm")
    for lock in locks:
        name = str(lock.relative_to(ROOT))
        if npm is None:
            report.not_made.append(f"{name}: npm is not installed")
            continue
        command = [npm, "audit", "--package-lock-only", "--json", "--audit-level=high"]
        done = subprocess.run(command, cwd=lock.parent, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        judge_javascript(name, done.stdout, report)


def judge_javascript(name: str, text: str, report: Report) -> None:
    """What npm said of one lock."""
    try:
        document = json.loads(text)
    except ValueError:
        document = {}
    if "vulnerabilities" not in document:
        report.not_made.append(f"{name}: {str(document.get('error', {}).get('summary', 'npm gave no report'))[:200]}")
        return
    for package, found in document["vulnerabilities"].items():
        if found.get("severity") in {"high", "critical"} and not _is_accepted(package):
            report.holes.append(f"{name}: {package} {found.get('range', '')}: {found['severity']}")
    report.made.append(f"{name}: {document.get('metadata', {}).get('dependencies', {}).get('total', '?')} packages")


def audit_licences(report: Report) -> None:
    """The licences of what the server is made of, as its packages state them."""
    names = re.findall(r"^([A-Za-z0-9._-]+)==", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    seen = 0
    for name in names:
        try:
            licence = licence_of(metadata.metadata(name))
        except metadata.PackageNotFoundError:
            report.not_made.append(f"licence of {name}: it is not installed here")
            continue
        seen += 1
        if BINDING.search(licence) or not FREE.search(licence):
            report.holes.append(f"licence of {name}: {licence or 'none stated'}")
    report.made.append(f"licences: {seen} packages")


def licence_of(package: Any) -> str:
    """A package's licence in the words of its metadata: the expression, else the classifiers, else the free text."""
    classifiers = [line.rpartition("::")[2].strip() for line in package.get_all("Classifier") or [] if line.startswith("License")]
    free_text = (package.get("License") or "").strip().split("\n")[0]
    return str(package.get("License-Expression") or "; ".join(classifiers) or free_text)


def install_pip_audit() -> Path:
    """The program, in an environment named by its lock; a half-made environment has no mark and is made anew."""
    name = hashlib.sha256(OWN_LOCK.read_bytes() + sys.version.encode()).hexdigest()[:12]
    environment = CACHE / "audit" / name
    if not (environment / "complete").exists():
        shutil.rmtree(environment, ignore_errors=True)
        environment.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        pip = [
            str(environment / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
        ]
        subprocess.run([*pip, "--require-hashes", "-r", str(OWN_LOCK)], check=True, timeout=SECONDS_MAX)
        (environment / "complete").write_text("")
    return environment / "bin" / "pip-audit"


def _run_pip_audit(program: Path, lock: Path) -> tuple[dict[str, Any] | None, str]:
    command = [str(program), "--requirement", str(lock), "--require-hashes", "--disable-pip", "--format", "json"]
    command += ["--progress-spinner", "off", "--timeout", "15"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        document: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return None, f"no answer within {SECONDS_MAX} seconds"
    except ValueError:
        return None, (done.stderr.strip().splitlines() or ["no report"])[-1][:200]
    return document, ""


def _is_accepted(name: str) -> bool:
    return name in ACCEPTED and date.today() <= ACCEPTED[name][1]


if __name__ == "__main__":
    sys.exit(main())
