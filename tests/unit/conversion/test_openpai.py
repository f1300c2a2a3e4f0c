"""OpenPAI's protocol: what each part means here, and every mistake at once."""

import pytest

from jobs import bounds
from jobs.conversion import Source, convert
from kernel.errors import InvalidInput, TooLarge

HEAD = "protocolVersion: 2\nname: a\ntype: job\nprerequisites: [{type: dockerimage, name: i, uri: x/y}]\n"


def role(rest: str = "", commands: str = "[run]") -> str:
    more = f", {rest}" if rest else ""
    return f"taskRoles: {{w: {{dockerImage: i, resourcePerInstance: {{cpu: 1}}, commands: {commands}{more}}}}}\n"


def codes(text: str) -> dict[str, str]:
    return {note.code: note.kind for note in convert(text).notes}


def refused(text: str) -> list[tuple[str, str, int | None]]:
    with pytest.raises(InvalidInput) as caught:
        convert(text, Source.OPENPAI)
    return [(entry.path, entry.code, entry.line) for entry in caught.value.fields]


@pytest.mark.capability("37", "Job files of OpenPAI are imported, with what is lost")
def test_all_mistakes_come_at_once_with_their_lines():
    text = """\
protocolVersion: 1
type: job
jobRetryCount: often
taskRoles:
  a:
    instances: 0
    dockerImage: nothing
    resourcePerInstance: {cpu: 1.5, memoryMB: "8G"}
    commands: [run, {a: b}]
  b: text
"""

    assert refused(text) == [
        ("/protocolVersion", "choice", 1),
        ("/name", "required", 1),
        ("/jobRetryCount", "integer", 3),
        ("/taskRoles/a/instances", "range", 6),
        ("/taskRoles/a/dockerImage", "unknown", 7),
        ("/taskRoles/a/resourcePerInstance/cpu", "integer", 8),
        ("/taskRoles/a/resourcePerInstance/memoryMB", "integer", 8),
        ("/taskRoles/a/commands/1", "text", 9),
        ("/taskRoles/b", "mapping", 10),
    ]


def test_yaml_that_cannot_be_read_names_its_line():
    assert refused("taskRoles:\n  a: [\n")[0][1:] == ("syntax", 3)


def test_a_file_without_roles_is_refused():
    assert refused("protocolVersion: 2\nname: a\n") == [("/taskRoles", "required", 1)]


def test_parameters_are_filled_in_and_not_looked_into():
    made = convert(HEAD + "parameters: {a: '<% $parameters.b %>', b: hidden, deep: {list: [1, 2]}}\n"
                   + role(commands="['x <% $parameters.a %> <%$parameters.deep.list[1]%>']"))  # fmt: skip

    assert made.spec["roles"]["w"]["command"] == ["/bin/bash", "-c", "x <% $parameters.b %> 2"]


def test_parameters_cannot_make_a_command_without_bound():
    text = HEAD + f"parameters: {{a: {'x' * 1000}}}\n" + role(commands=f"['{'<% $parameters.a %>' * 10_000}']")

    assert [code for _, code, _ in refused(text)] == ["too_long"]


def test_a_retry_without_end_is_lowered():
    made = convert(HEAD + "jobRetryCount: 1000\n" + role())

    assert made.spec["retry"] == {"limit": bounds.ATTEMPTS_PER_JOB - 1}
    assert codes(HEAD + "jobRetryCount: -2\n" + role())["retry_policy"] == "lost"


def test_what_is_unknown_is_told():
    found = codes(HEAD + "colour: red\n" + role("smell: sweet") + "extras: {music: loud}\n")

    assert found["unknown_key"] == "lost"


def test_a_script_that_is_no_repository_is_lost():
    text = HEAD.replace("uri: x/y}]", "uri: x/y}, {type: script, name: s, uri: 'hdfs://a/b'}]") + role("script: s")

    assert codes(text)["script_lost"] == "lost"
    assert "code" not in convert(text).spec


@pytest.mark.capability("37", "Job files of OpenPAI are imported, with what is lost")
def test_commands_are_bashs_and_names_are_kept_as_they_are_spelled():
    text = HEAD + role(commands="['a &> log &', 'wait']").replace("cpu: 1", "cpu: 1, ports: {SynPort: 2}")
    made = convert(text.replace("w:", "Task_Role:")).spec

    assert made["framework"] == "openpai"
    assert made["roles"]["task-role"]["command"] == ["/bin/bash", "-c", "set -e\na &> log &\nwait"]
    assert made["roles"]["task-role"]["env"] == {
        "PAI_CONTAINER_HOST_PORT_LIST": "SynPort:synport,synport-1",
        "PAI_CURRENT_TASK_ROLE_NAME": "Task_Role",
    }


@pytest.mark.parametrize(
    "command",
    ["mpirun -np 2 -H w-0:1,w-1:1 ./a", "sleep 10; horovodrun -np 2 --hostfile=h ./a", "if x; then mpiexec -f h ./a; fi"],
)
def test_mpirun_over_ssh_is_refused_and_names_the_framework(command):
    text = HEAD + role("instances: 2", commands=f"['echo', '{command}']")
    with pytest.raises(InvalidInput) as caught:
        convert(text)

    [entry] = caught.value.fields
    assert (entry.code, "framework: mpi" in str(entry.hint)) == ("over_ssh", True)
    assert convert(text.replace("instances: 2", "instances: 1"))


def test_ssh_between_tasks_is_told_and_variables_that_nothing_sets():
    found = codes(
        HEAD + role("instances: 2", commands="['ssh w-1 true', 'echo $PAI_WORK_DIR $PAI_HOST_IP_w_1 $PAI_w_0_http_PORT']")
    )

    assert (found["no_ssh"], found["unknown_variable"]) == ("lost", "lost")


def test_a_large_file_is_refused():
    with pytest.raises(TooLarge):
        convert("taskRoles:\n" + "#" * bounds.SPEC_BYTES)


def test_a_text_of_neither_kind_is_refused():
    with pytest.raises(InvalidInput) as caught:
        convert("command: echo hello\n")

    assert caught.value.fields[0].code == "unknown_format"


V1 = """\
{
  "jobName": "mnist",
  "image": "example/mnist",
  "taskRoles": [{"name": "worker", "taskNumber": 1, "cpuNumber": 4, "memoryMB": 8192, "gpuNumber": 1, "command": "python a.py"}]
}
"""


@pytest.mark.parametrize("text", [V1, "protocolVersion: 1\njobName: a\ntaskRoles: [{name: w, taskNumber: 1, command: x}]\n"])
def test_a_file_of_protocol_v1_is_refused_as_what_it_is(text):
    with pytest.raises(InvalidInput) as caught:
        convert(text)

    assert [entry.code for entry in caught.value.fields] == ["protocol_v1"]
    assert "protocol v1" in str(caught.value)
    assert "protocolVersion: 2" in caught.value.hint


def test_the_value_of_a_parameter_that_looks_like_a_secret_is_in_nothing_that_comes_out():
    given = "parameters: {wandb_api_key: abc123, hf: {token: hf_xyz}, rate: 0.1}\n"
    commands = "['train <% $parameters.wandb_api_key %> <% $parameters.hf.token %> <% $parameters.rate %>']"
    made = convert(HEAD + given + role(commands=commands))

    assert made.spec["roles"]["w"]["command"][-1] == "train ${wandb_api_key} ${hf_token} 0.1"
    assert made.spec["secrets"] == {"wandb_api_key": None, "hf_token": None}
    assert not [value for value in ("abc123", "hf_xyz") if value in repr(made)]


def test_a_secret_in_a_command_is_told_without_its_value():
    made = convert(HEAD + role(commands="['export HF_TOKEN=hf_xyz', 'train']"))

    [note] = [note for note in made.notes if note.code == "secret_in_command"]
    assert "HF_TOKEN" in note.text("en")
    assert "hf_xyz" not in repr(made.notes)
