"""OpenPAI's protocol: what each part means here, and every mistake at once."""

import subprocess

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

    assert made.spec["roles"]["w"]["command"] == "x <% $parameters.b %> 2"


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
def test_the_command_that_is_made_runs():
    made = convert(HEAD + role(commands="['for i in 1 2; do', 'echo $PAI_TASK_INDEX-$i', 'done', 'echo $PAI_HOST_IP_w_0']"))
    env = {"BERTH_INDEX": "3", "BERTH_W_HOSTS": "10.0.0.7,10.0.0.8", "PATH": "/usr/bin:/bin"}

    done = subprocess.run(
        ["/bin/sh", "-c", made.spec["roles"]["w"]["command"]], env=env, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["3-1", "3-2", "10.0.0.7"]


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

    assert made.spec["roles"]["w"]["command"] == "train ${wandb_api_key} ${hf_token} 0.1"
    assert made.spec["secrets"] == {"wandb_api_key": None, "hf_token": None}
    assert not [value for value in ("abc123", "hf_xyz") if value in repr(made)]


def test_a_secret_in_a_command_is_told_without_its_value():
    made = convert(HEAD + role(commands="['export HF_TOKEN=hf_xyz', 'train']"))

    [note] = [note for note in made.notes if note.code == "secret_in_command"]
    assert "HF_TOKEN" in note.text("en")
    assert "hf_xyz" not in repr(made.notes)
