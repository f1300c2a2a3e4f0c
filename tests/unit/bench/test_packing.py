"""The packing benchmark on a small cluster made here: what it reads, reports and draws, never how fast."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.__main__ import main


def write_traces(folder: Path) -> None:
    nodes = [f"node-{number},32000,262144,{2 if number % 2 else 8},{'T4' if number % 2 else 'G2'}" for number in range(12)]
    (folder / "openb_node_list_gpu_node.csv").write_text("\n".join(["sn,cpu_milli,memory_mib,gpu,model", *nodes, ""]))
    pods = [f"pod-{number},{cpu},1024,{gpus},{millis},{spec}" for number, (cpu, gpus, millis, spec) in enumerate(
        [(4000, 1, 1000, ""), (2000, 1, 500, "T4"), (16000, 8, 1000, ""), (8000, 2, 1000, "G2|T4"), (1000, 0, 0, "")] * 4
    )]  # fmt: skip
    text = "\n".join(["name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec", *pods, ""])
    for name in ("default", "own"):
        (folder / f"openb_pod_list_{name}.csv").write_text(text)


def given(traces: Path, out: Path) -> list[str]:
    return ["P7", "--traces", str(traces), "--lists", "own", "--out", str(out)]


def test_it_reports_and_draws_what_it_finds_in_the_folder_given(tmp_path, capsys):
    write_traces(tmp_path)

    code = main(
        ["P7", "--traces", str(tmp_path), "--lists", "own", "--seeds", "2", "--reference-seeds", "1", "--out", str(tmp_path)]
    )

    assert code == 0
    lines = capsys.readouterr().out
    assert "P7 openb-own " in lines
    assert "our-best-fit=" in lines
    (file,) = tmp_path.glob("P7-*.json")
    runs = json.loads(file.read_text())["records"]["own"]
    assert [len(runs[policy]) for policy in ("berth", "best-fit", "random")] == [2, 1, 1]
    assert all(0 < run["allocated"] <= 100 and len(run["curve"]) == 129 for run in runs["berth"])
    picture = (tmp_path / "P7-packing.svg").read_text()
    assert picture.count("<polyline") == 3
    assert ">100<" in picture


def test_the_same_seed_gives_the_same_packing(tmp_path):
    write_traces(tmp_path)
    found = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        main(
            [
                "P7",
                "--traces",
                str(tmp_path),
                "--lists",
                "own",
                "--seeds",
                "1",
                "--nodes-percent",
                "80",
                "--resample",
                "--out",
                str(folder),
            ]
        )
        (file,) = folder.glob("P7-*.json")
        found.append([run["curve"] for runs in json.loads(file.read_text())["records"]["own"].values() for run in runs])

    assert found[0] == found[1]


def test_the_second_term_is_learned_from_the_list_and_the_fixed_one_takes_the_same_orders_beside_another(tmp_path, capsys):
    nodes = [f"node-{number},64000,262144,8,G2" for number in range(12)]
    (tmp_path / "openb_node_list_gpu_node.csv").write_text("\n".join(["sn,cpu_milli,memory_mib,gpu,model", *nodes, ""]))
    pods = [f"pod-{number},1000,4096,{4 if number % 2 else 1},1000," for number in range(80)]
    text = "\n".join(["name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec", *pods, ""])
    (tmp_path / "openb_pod_list_default.csv").write_text(text)
    arguments = ["--traces", str(tmp_path), "--seeds", "2", "--reference-seeds", "0", "--out", str(tmp_path)]
    assert main(["P7", *arguments, "--lists", "default,whole-50"]) == 0
    lines = capsys.readouterr().out
    assert "P7 openb-default-learning" in lines
    assert "balanced 1 pack 2 of balanced 2: " in lines
    assert "P7 openb-whole-50 " in lines
    (file,) = tmp_path.glob("P7-*.json")
    runs = json.loads(file.read_text())["records"]["default"]
    assert len(runs["fixed"]) == len(runs["berth"]) == 2
    assert sum(run["allocated"] for run in runs["berth"]) > sum(run["allocated"] for run in runs["fixed"])
    assert main(["P7", *arguments, "--lists", "whole-many"]) == 1
    assert "write whole-40" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--traces", "nowhere"]])
def test_without_traces_it_says_where_they_are_published(arguments, tmp_path, capsys):
    assert main(["P7", *arguments, "--out", str(tmp_path)]) == 1
    assert "kubernetes-scheduler-simulator" in capsys.readouterr().err
