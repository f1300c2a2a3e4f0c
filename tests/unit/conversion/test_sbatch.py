"""Scripts for sbatch: amounts, times and arrays in all of Slurm's ways, and a command that runs without Slurm."""

import subprocess

import pytest

from jobs.conversion import Source, convert
from jobs.conversion.slurm_values import memory_text, read_array, read_gpus, read_memory, read_seconds
from kernel.errors import InvalidInput


def script(*options: str, body: str = "run") -> str:
    return "\n".join(["#!/bin/sh", *(f"#SBATCH {option}" for option in options), body])


def spec(*options: str, body: str = "run") -> dict:
    return convert(script(*options, body=body)).spec


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 1800), ("30:15", 1815), ("1:30:00", 5400), ("2-12", 216_000), ("2-12:30", 217_800), ("2-12:30:05", 217_805),
     ("-1", None), ("1:2:3:4", None), ("soon", None), ("", None), ("1-", None)],
)  # fmt: skip
def test_times(text, seconds):
    assert read_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "amount"), [("4000", "4000Mi"), ("16G", "16Gi"), ("16gb", "16Gi"), ("512K", "512Ki"), ("2T", "2Ti")]
)
def test_memory(text, amount):
    assert memory_text(read_memory(text) or 0) == amount


@pytest.mark.parametrize("text", ["", "much", "1.5G", "-1", "16X"])
def test_no_memory(text):
    assert read_memory(text) is None


def test_gpus():
    assert [read_gpus(text) for text in ("4", "A100:2", "a100", "x:y:1")] == [("", 4), ("a100", 2), None, None]


@pytest.mark.parametrize(
    ("text", "size", "first", "step", "parallelism"),
    [
        ("0-15", 16, 0, 1, None),
        ("0-15%4", 16, 0, 1, 4),
        ("5", 1, 5, 1, None),
        ("1-7:2", 4, 1, 2, None),
        ("1,3,5-7", 5, 1, 1, None),
    ],
)
def test_arrays(text, size, first, step, parallelism):
    found = read_array(text)

    assert found is not None
    assert (found.size, found.first, found.step, found.parallelism) == (size, first, step, parallelism)


@pytest.mark.parametrize("text", ["", "a", "5-1", "1-5:0", "1-2%0", "0-999999999", "1-3,0-99999"])
def test_no_array(text):
    assert read_array(text) is None


@pytest.mark.parametrize(
    ("options", "replicas", "resources"),
    [
        (("--nodes=2", "--gpus-per-node=8"), 2, {"gpu": 8}),
        (
            ("-N 2", "--ntasks-per-node=4", "--gres=gpu:a100:4", "-c 8", "--mem=256G"),
            8,
            {"gpu": "a100:1", "cpu": 8, "memory": "64Gi"},
        ),
        (("-n4", "--gpus=8", "--mem-per-cpu=1G"), 4, {"gpu": 2, "memory": "1Gi"}),
        (("-n 1", "--gpus-per-task=h100:2", "--mem-per-gpu=8G"), None, {"gpu": "h100:2", "memory": "16Gi"}),
    ],
)  # fmt: skip
def test_amounts_of_a_script_with_srun(options, replicas, resources):
    made = spec(*options, body="srun run")

    assert (made.get("replicas"), made.get("resources")) == (replicas, resources)


def test_tasks_that_nothing_starts_are_cores():
    assert spec("--ntasks=16", "--mem=32G")["resources"] == {"cpu": 16, "memory": "32Gi"}


def test_the_last_of_an_option_counts_and_names_may_be_cut():
    assert spec("--time=5", "--time=10:00", "--cpus-per-t=3")["max_runtime"] == 600
    assert spec("--cpus-per-t=3")["resources"] == {"cpu": 3}


def test_all_mistakes_come_at_once_with_their_lines():
    text = script("--time=soon", "--nodes=none", "--mem=much", "--array=9-1", '--comment="open', "--job-name", "stray", body="")

    with pytest.raises(InvalidInput) as caught:
        convert(text, Source.SBATCH)

    assert {(entry.path, entry.line) for entry in caught.value.fields} == {
        ("/script", 1), ("/line/6", 6), ("/line/7", 7), ("/line/8", 8), ("/nodes", 3), ("/mem", 4), ("/array", 5), ("/time", 2)
    }  # fmt: skip


@pytest.mark.parametrize("option", ["--comment=" + "a," * 9000, "-" + "H" * 9000, "--array=" + "1," * 9000 + "1"])
def test_a_line_without_end_is_refused(option):
    with pytest.raises(InvalidInput) as caught:
        convert(script(option))

    assert [entry.code for entry in caught.value.fields] == ["too_long"]


def test_a_script_of_an_unknown_program_is_refused():
    with pytest.raises(InvalidInput) as caught:
        convert("#!/usr/bin/awk -f\n#SBATCH -t 5\nBEGIN { print 1 }\n")

    assert caught.value.fields[0].code == "program"


def test_the_command_that_is_made_runs():
    body = """\
module load cuda
srun -n 1 --cpu-bind=none echo "$SLURM_PROCID of $SLURM_NTASKS"
LEVEL=1 srun --mem 4G echo "index $SLURM_ARRAY_TASK_ID"
"""
    env = {"BERTH_RANK": "2", "BERTH_WORLD_SIZE": "4", "BERTH_ARRAY_INDEX": "1", "PATH": "/usr/bin:/bin"}
    made = spec("--array=10,20,35", "-n4", body=body)

    done = subprocess.run(["/bin/sh", "-c", made["command"]], env=env, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == ["2 of 4", "index 20"]
    assert done.stderr == ""


def test_a_script_without_a_name_is_called_after_its_file():
    assert convert(script("-t 5"), file_name="runs/night.run.sh").spec["name"] == "night.run"
    assert convert(script("-t 5"), file_name="train").spec["name"] == "train"
