"""Scripts for sbatch: amounts, times and arrays in all of Slurm's ways, and a command that runs without Slurm."""

import subprocess
from pathlib import Path

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


@pytest.mark.capability("6.23", "A converted job runs without the old system")
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


def test_the_value_of_a_variable_that_looks_like_a_secret_is_in_nothing_that_comes_out():
    secrets = "WANDB_API_KEY=abc123,HF_TOKEN=hf_xyz,PGPASSWORD=hunter2,AWS_SECRET_ACCESS_KEY=aaa/bbb"
    made = convert(script(f"--export=ALL,{secrets},TOKENIZER=bert,EPOCHS=3"))
    assert made.spec["env"] == {"TOKENIZER": "bert", "EPOCHS": "3"}
    assert made.spec["secrets"] == dict.fromkeys(["WANDB_API_KEY", "HF_TOKEN", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY"])
    everything = repr(made) + "".join(
        note.text(language) + note.hint(language) for note in made.notes for language in ("en", "zh")
    )
    assert not [value for value in ("abc123", "hf_xyz", "hunter2", "aaa/bbb") if value in everything]
    assert "berth secrets set HF_TOKEN" in everything


def test_a_secret_that_no_job_can_name_is_left_out_without_its_value():
    made = convert(script("--export=ALL,BERTH_TOKEN=abc123,1_PASSWORD=def456"))
    assert "abc123" not in repr(made)
    assert "def456" not in repr(made)


def test_the_parts_of_a_heterogeneous_job_are_kept_apart():
    text = script("--nodes=1", "--mem=8G", "hetjob", "--nodes=4", "--gpus-per-node=8", "--mem=512G", "packjob", "--time=9:00")

    made = convert(text)

    assert made.spec == {"name": made.spec["name"], "resources": {"memory": "8Gi"}, "command": "run"}
    lost = {note.line: (note.code, dict(note.values)) for note in made.notes if note.kind == "lost"}
    assert lost == {
        4: ("hetjob", {"part": "2"}),
        5: ("hetjob_option", {"part": "2", "option": "--nodes=4"}),
        6: ("hetjob_option", {"part": "2", "option": "--gpus-per-node=8"}),
        7: ("hetjob_option", {"part": "2", "option": "--mem=512G"}),
        8: ("hetjob", {"part": "3"}),
        9: ("hetjob_option", {"part": "3", "option": "--time=9:00"}),
    }


def test_a_later_part_of_a_job_tells_no_secret_either():
    assert "hunter2" not in repr(convert(script("--nodes=1", "hetjob", "--export=PGPASSWORD=hunter2")))


def run(command: str, hosts: list[str], rank: int, tmp_path: Path) -> list[str]:
    """What a task of that rank prints."""
    file = tmp_path / "berth-hosts"
    file.write_text("".join(f"{place} worker {place} {host}\n" for place, host in enumerate(hosts)))
    env = {
        "BERTH_RANK": str(rank),
        "BERTH_WORLD_SIZE": str(len(hosts)),
        "BERTH_WORKER_HOSTS": ",".join(hosts),
        "BERTH_HOSTS_FILE": str(file),
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(["/bin/sh", "-c", command], env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("asked", ['scontrol show hostnames "$SLURM_JOB_NODELIST"', "scontrol show hostname"])
def test_the_usual_way_to_the_master_address_finds_the_first_task(asked, tmp_path):
    made = convert(script("--nodes=3", body=f"MASTER_ADDR=$({asked} | head -n 1)\necho $MASTER_ADDR; {asked} | wc -l"))

    assert run(made.spec["command"], ["10.0.0.7", "10.0.0.8", "10.0.0.9"], 2, tmp_path) == ["10.0.0.7", "3"]
    assert [note.kind for note in made.notes if note.place == "scontrol"] == ["changed"]


def test_what_else_scontrol_does_is_told_as_lost():
    made = convert(script("-t 5", body="scontrol show hostnames\nscontrol requeue 4711"))

    assert [note.code for note in made.notes if note.place == "scontrol"] == ["slurm_program", "scontrol"]


def test_slurms_nodes_are_those_that_the_script_asks_for(tmp_path):
    names = ("NNODES", "NTASKS_PER_NODE", "NODEID", "NTASKS", "GPUS_PER_NODE", "GPUS", "JOB_NODELIST")
    body = "srun echo " + " ".join(f"$SLURM_{name}" for name in names)
    made = convert(script("-N 2", "--ntasks-per-node=4", "--gres=gpu:4", body=body))

    assert run(made.spec["command"], [f"10.0.0.{last}" for last in range(8)], 5, tmp_path) == ["2 4 1 8 4 8 10.0.0.0,10.0.0.4"]
    (told,) = [note for note in made.notes if note.code == "nodes_as_asked"]
    assert told.text("en").startswith("SLURM_NNODES says 2 and SLURM_NTASKS_PER_NODE 4")


def test_tasks_that_became_cores_are_still_counted_for_the_script(tmp_path):
    made = spec(
        "-N 2", "--ntasks-per-node=4", "-c 2", body="echo $SLURM_NNODES $SLURM_NTASKS_PER_NODE $SLURM_NTASKS $SLURM_CPUS_PER_TASK"
    )

    assert (made["replicas"], made["resources"]) == (2, {"cpu": 8})
    assert run(made["command"], ["10.0.0.7", "10.0.0.8"], 1, tmp_path) == ["2 4 8 2"]


def test_secrets_that_a_script_sets_itself_are_told_by_name():
    lines = (
        "export WANDB_API_KEY=abc123",
        "  HF_TOKEN='hf_xyz' python train.py",
        "export PGPASSWORD=$(cat ~/.pg)",
        'export AWS_SECRET_ACCESS_KEY="$KEY"',
        "export TOKENIZER=bert",
        "export API_KEY_FILE=/data/key",
    )
    made = convert(script("-t 5") + "\n" + "\n".join(lines))

    told = [note for note in made.notes if note.code == "secret_in_command"]
    assert [note.values["name"] for note in told] == ["HF_TOKEN", "WANDB_API_KEY"]
    assert "berth secrets set HF_TOKEN" in told[0].hint("zh")
    assert not [value for value in ("abc123", "hf_xyz") if value in repr(made.notes)]
