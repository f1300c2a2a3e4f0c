"""What `python -m tools.kubernetes build` builds, and when it does not: with a `go` that takes notes."""

from __future__ import annotations

import fcntl
import re
import threading
import time
from pathlib import Path

import pytest

from tools.kubernetes.programs import MODULES, PROGRAMS, VERSION, Programs, linker_flags
from tools.progress import Stop

GO = """#!/bin/sh
echo "$PWD $CGO_ENABLED $(nice) $*" >>{notes}
test -z "{failure}" || {{ echo "go: downloading something"; echo "{failure}"; exit 1; }}
while [ "$1" != -o ]; do shift; done
output=$2; shift 2
for package; do
  name=${{package##*/}}
  case $name in v3) name=server ;; .) name=coredns ;; esac
  printf '#!/bin/sh\\n' >"$output$name"; chmod 755 "$output$name"
done
"""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return give_go(tmp_path, monkeypatch)


def give_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str = "") -> Path:
    """Let `go` be a program that writes down how it was called; where it does."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "go").write_text(GO.format(notes=tmp_path / "notes", failure=failure))
    (folder / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return tmp_path / "notes"


def test_each_module_is_built_once_with_its_programs(tmp_path: Path, notes: Path) -> None:
    programs = Programs(tmp_path / "programs")

    assert programs.build() == list(PROGRAMS)

    assert programs.missing() == []
    calls = notes.read_text().splitlines()
    assert len(calls) == len({program.module for program in PROGRAMS.values()})
    [kubernetes] = [call for call in calls if "kube-apiserver" in call]
    assert f"gitVersion={VERSION}" in kubernetes
    assert "-mod=readonly" in kubernetes
    assert kubernetes.split()[1:3] == ["0", "19"], "without C, at the lowest priority"
    assert sorted(path.name for path in programs.folder.iterdir()) == sorted([*PROGRAMS, "lock"])


def test_what_is_there_is_not_built_again(tmp_path: Path, notes: Path) -> None:
    programs = Programs(tmp_path / "programs")
    programs.build(["kubectl"])
    notes.unlink()

    assert programs.build(["kubectl"]) == []
    assert not notes.exists()
    assert programs.build(["kubectl", "kubelet"]) == ["kubelet"]
    assert "kubectl" not in notes.read_text()


def test_a_build_waits_for_another_one_and_takes_what_that_made(tmp_path: Path, notes: Path) -> None:
    programs = Programs(tmp_path / "programs")
    programs.folder.mkdir()
    with (programs.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = threading.Thread(target=programs.build, args=[["etcd"]])
        waiting.start()
        time.sleep(0.2)
        assert waiting.is_alive()
        (programs.folder / "etcd").write_text("#!/bin/sh\n")
        (programs.folder / "etcd").chmod(0o755)
    waiting.join(30)

    assert not waiting.is_alive()
    assert not notes.exists()


def test_without_go_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.kubernetes.programs.GO_PLACES", ())
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(Stop, match=r"there is no `go` on the PATH. Install Go \d+\.\d+"):
        Programs(tmp_path / "programs").build()


def test_a_build_that_fails_says_why_and_leaves_nothing_half_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_go(tmp_path, monkeypatch, "module is not available")
    programs = Programs(tmp_path / "programs")

    with pytest.raises(Stop, match="etcd cannot be built: `go build` ended with 1: module is not available"):
        programs.build(["etcd"])

    assert [path.name for path in programs.folder.iterdir()] == ["lock"]


def test_every_module_is_pinned_with_its_hashes() -> None:
    for module in {program.module for program in PROGRAMS.values()}:
        requirements = (MODULES / module / "go.mod").read_text()
        hashes = (MODULES / module / "go.sum").read_text()
        versions = re.findall(r"^\s*(?:require )?(\S+\.\S+) (v\S+)", requirements, re.MULTILINE)
        assert len(versions) > 20
        replaced = {name for name, _ in re.findall(r"^replace (\S+) => (\S+)", requirements, re.MULTILINE)}
        assert not [name for name, version in versions if f"{name} {version}/go.mod h1:" not in hashes and name not in replaced]


def test_kubernetes_is_the_pinned_version_in_all_its_parts() -> None:
    requirements = (MODULES / "kubernetes" / "go.mod").read_text()
    staging = VERSION.replace("v1.", "v0.")

    assert f"k8s.io/kubernetes {VERSION}\n" in requirements
    assert set(re.findall(r"^replace \S+ => \S+ (\S+)", requirements, re.MULTILINE)) == {staging}
    assert "gitMajor=1" in linker_flags("kubernetes")
    assert linker_flags("etcd") == "-s -w"
