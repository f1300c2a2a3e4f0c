"""Images that are made without a registry: what is in them, and that the same files make the same image."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from tools.kubernetes.images import Layer, make_image

NAME = "berth.test/mine:1"


def a_layer() -> Layer:
    layer = Layer()
    layer.add_bytes("/usr/bin/hello", b"#!/bin/sh\necho hello\n", 0o755)
    layer.add_link("/bin/hello", "/usr/bin/hello")
    layer.add_folder("/tmp", 0o1777)
    return layer


def read(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}  # type: ignore[union-attr]


def blob(files: dict[str, bytes], reference: dict[str, Any]) -> bytes:
    content = files[f"blobs/sha256/{reference['digest'].removeprefix('sha256:')}"]
    assert hashlib.sha256(content).hexdigest() == reference["digest"].removeprefix("sha256:")
    assert len(content) == reference["size"]
    return content


def test_an_archive_is_an_oci_layout_with_one_layer(tmp_path: Path) -> None:
    digest = make_image(tmp_path / "mine.tar", NAME, a_layer(), command=["/usr/bin/hello"], environment={"A": "1"})

    files = read(tmp_path / "mine.tar")
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    [reference] = json.loads(files["index.json"])["manifests"]
    assert reference["digest"] == digest
    assert reference["annotations"]["io.containerd.image.name"] == NAME
    manifest = json.loads(blob(files, reference))
    config = json.loads(blob(files, manifest["config"]))
    assert config["config"]["Cmd"] == ["/usr/bin/hello"]
    assert "A=1" in config["config"]["Env"]
    [layer] = manifest["layers"]
    assert config["rootfs"]["diff_ids"] == [layer["digest"]]
    with tarfile.open(fileobj=io.BytesIO(blob(files, layer))) as tar:
        members = {member.name: member for member in tar}
    assert list(members) == ["usr", "usr/bin", "usr/bin/hello", "bin", "bin/hello", "tmp"]
    assert {(member.uid, member.gid, member.mtime) for member in members.values()} == {(0, 0, 0)}
    assert members["usr/bin/hello"].mode == 0o755
    assert members["bin/hello"].linkname == "/usr/bin/hello"
    assert members["tmp"].mode == 0o1777


def test_the_same_files_make_the_same_image(tmp_path: Path) -> None:
    older = make_image(tmp_path / "older.tar", NAME, a_layer())
    newer = make_image(tmp_path / "newer.tar", NAME, a_layer())

    assert older == newer
    assert (tmp_path / "older.tar").read_bytes() == (tmp_path / "newer.tar").read_bytes()
