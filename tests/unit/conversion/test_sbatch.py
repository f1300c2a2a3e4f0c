"""Scripts for sbatch: amounts, times and arrays in all of Slurm's ways, and a command that runs without Slurm."""

import pytest

from jobs.conversion import Source, convert
from jobs.conversion.slurm_values import memory_text, read_gpus, read_memory, read_seconds
from jobs.frameworks.slurm_array import read_array
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
    ("options", "replicas", "resources", "asked"),
    [
        (("--nodes=2", "--gpus-per-node=8"), 2, {"gpu": 8}, None),
        (
            ("-N 2", "--ntasks-per-node=4", "--gres=gpu:a100:4", "-c 8", "--mem=256G"),
            2,
            {"gpu": "a100:4", "cpu": 32, "memory": "256Gi"},
            {"SLURM_NTASKS_PER_NODE": "4", "SLURM_CPUS_PER_TASK": "8"},
        ),
        (("-N 2", "--tasks-per-node 4"), 2, {"cpu": 4}, {"SLURM_NTASKS_PER_NODE": "4"}),
        (("-N 2", "-n 3"), 2, {"cpu": 2}, {"SLURM_NTASKS": "3"}),
        (("-N 4", "-n 2"), 2, None, {"SLURM_NTASKS": "2"}),
        (("-n 8", "--ntasks-per-node=3"), 3, {"cpu": 3}, {"SLURM_NTASKS": "8", "SLURM_NTASKS_PER_NODE": "3"}),
        (("-n4", "--gpus=8"), 4, {"gpu": 2}, {"SLURM_NTASKS": "4"}),
        (("-n2", "--mem-per-cpu=1G"), 2, {"memory": "1Gi"}, {"SLURM_NTASKS": "2", "SLURM_MEM_PER_CPU": "1024"}),
        (("-n4", "--mem=8G"), None, {"cpu": 4, "memory": "8Gi"}, {"SLURM_NTASKS": "4"}),
        (
            ("-n 1", "--gpus-per-task=h100:2", "--mem-per-gpu=8G"),
            None,
            {"gpu": "h100:2", "memory": "16Gi"},
            {"SLURM_NTASKS": "1", "SLURM_GPUS_PER_TASK": "2", "SLURM_MEM_PER_GPU": "8192"},
        ),
    ],
)  # fmt: skip
def test_nodes_are_tasks_with_all_that_their_tasks_have(options, replicas, resources, asked):
    made = spec(*options, body="srun run")

    assert (made.get("replicas"), made.get("resources"), made.get("env")) == (replicas, resources, asked)


def test_tasks_that_nothing_starts_are_cores():
    assert spec("--ntasks=16", "--mem-per-cpu=2G")["resources"] == {"cpu": 16, "memory": "32Gi"}


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


def refused(body: str, *options: str) -> list[tuple[str, int | None]]:
    with pytest.raises(InvalidInput) as caught:
        convert(script(*options, body=body), Source.SBATCH)
    return [(entry.code, entry.line) for entry in caught.value.fields]


@pytest.mark.parametrize("word", ["hetjob", "packjob"])
def test_a_heterogeneous_job_is_refused_where_its_next_part_begins(word):
    assert refused("run", "--nodes=1", word, "--export=PGPASSWORD=hunter2") == [("hetjob", 3)]


@pytest.mark.parametrize(
    "line",
    [
        *("srun --pty bash", "srun --multi-prog plan.conf", "srun --het-group=0,1 run", "srun run : --het-group=1 other"),
        *("x=$(srun --bcast=/tmp/a ./a)", "f() { srun --no-such-option run; }", "cd /data; srun -N two run"),
        *("time srun --uid 7 run", "L='srun --prolog=a'; $L run", 'bash -c "srun --x11 run"', "srun --mpi=pmix ./solve"),
        *("srun --jobid=4711 run", "true && srun --nodelist", "if srun -Q7 run; then :; fi", "srun --test-only run"),
        "srun --signal=USR1@60 run",
    ],
)  # fmt: skip
def test_a_step_with_an_option_that_means_nothing_here_is_refused_by_its_line(line):
    assert refused(f"echo begin\n{line}", "-N 2") == [("srun_option", 4)]


def test_srun_of_a_folder_is_refused():
    assert refused("/opt/slurm/bin/srun run") == [("slurm_folder", 2)]
    assert refused("x=$(/usr/bin/scontrol show hostnames)") == [("slurm_folder", 2)]


@pytest.mark.parametrize("line", ["sbatch next.sh", "scancel $SLURM_JOB_ID", "scontrol requeue 7", "sbcast a /tmp/a"])
def test_what_acts_on_slurm_is_refused(line):
    assert refused(f"run\n{line}") == [("slurm_program", 3)]


@pytest.mark.parametrize(
    "line", ["# srun --pty bash\ntrue", "echo 'srun --pty bash'", "cat <<END\nsrun --pty bash\nEND", "command -v srun", "ls srun"]
)
def test_what_is_no_command_is_no_step(line):
    assert "srun" not in {note.code for note in convert(script("-N 2", body=line)).notes}


def test_what_only_the_shell_will_know_is_left_to_srun():
    notes = {note.code: note.line for note in convert(script("-N 2", body='srun $OPTIONS run\n"$LAUNCHER" run')).notes}

    assert notes["srun_later"] == 3


def test_what_asks_slurm_is_told_with_its_line():
    made = convert(script("-t 5", body="scontrol show hostnames\nsqueue -u $USER\nscontrol show job 7\nmodule load cuda"))

    assert [(note.code, note.line) for note in made.notes if note.kind == "lost"] == [
        ("slurm_program", 4),
        ("slurm_program", 5),
        ("modules", 6),
    ]


def test_a_variable_that_nothing_sets_is_told():
    made = convert(script("-t 5", body="echo $SLURM_TMPDIR $SLURM_JOB_ID ${SLURM_OWN:-x}\nSLURM_OWN=1\n"))

    assert [(note.values["name"], note.line) for note in made.notes if note.code == "unknown_variable"] == [("SLURM_TMPDIR", 3)]


def test_nodes_in_which_nothing_is_started_are_told():
    codes = {note.code for note in convert(script("-N 2", body="python train.py")).notes}

    assert "idle_nodes" in codes


def test_text_that_is_no_shell_is_told_and_runs_as_it_is():
    made = convert(script("-t 5", body="echo a\nif then ("))

    assert [note.line for note in made.notes if note.code == "shell_unread"] == [3]
    assert made.spec["command"][-1] == "echo a\nif then ("


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
