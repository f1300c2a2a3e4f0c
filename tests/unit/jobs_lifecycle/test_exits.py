from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

try:  # The parser moved in 3.11; both names are the standard library's.
    from re import _parser as sre_parse
except ImportError:
    import sre_parse

from clusters.engines.interface import ExitReason, StopCause, TaskExit, TaskName
from jobs.lifecycle.exit_classes import FailureClass, Payer, Reaction
from jobs.lifecycle.exits import (
    LOG_TAIL_BYTES,
    REFINABLE,
    EndedTask,
    all_classes,
    classify,
    classify_task,
    exit_table_markdown,
    find_class,
    match_log,
)
from jobs.lifecycle.states import Outcome

ROOT = Path(__file__).parents[3]


def ended(index: int = 0, log_tail: str = "", **values: object) -> EndedTask:
    return EndedTask(TaskName("worker", index), TaskExit(**{"code": None, **values}), log_tail)


# --- The table -------------------------------------------------------------------------------------------------------


def test_the_table_has_at_least_the_sixty_two_entries_that_its_users_are_used_to():
    assert len(all_classes()) >= 62
    assert len({entry.code for entry in all_classes()}) == len(all_classes())


def test_every_exit_code_and_signal_has_a_class():
    for code in range(256):
        assert classify([ended(code=code)]).code
    for signal in range(1, 32):
        direct, shell = classify([ended(signal=signal)]), classify([ended(code=128 + signal)])
        assert direct.exit_class is shell.exit_class
        assert direct.exit_class.signal == signal
        assert direct.signal == shell.signal == signal


def test_every_engine_reason_has_a_class():
    for reason in set(ExitReason) - {ExitReason.NONE, ExitReason.STOPPED}:
        assert classify([ended(reason=reason)]).exit_class.exit_reason is reason


@pytest.mark.parametrize("entry", all_classes(), ids=lambda entry: entry.code)
def test_every_entry_says_what_happened_and_what_to_do(entry):
    assert re.fullmatch(r"[a-z][a-z0-9_]*", entry.code)
    assert len(entry.title.en) <= 45
    assert entry.title.zh
    assert entry.reason.endswith(".")
    assert entry.remedy.en.endswith(".") or (not entry.remedy.en and entry.code in {"success", "stopped_with_job"})
    assert entry.example.endswith(".")
    assert "|" not in "".join((entry.title.en, entry.reason, entry.remedy.en, entry.example))


@pytest.mark.parametrize("entry", all_classes(), ids=lambda entry: entry.code)
def test_payer_and_reaction_fit_the_class(entry):
    if entry.failure_class in {FailureClass.USER, FailureClass.OOM}:
        assert entry.payer is Payer.USER
        assert entry.reaction in {Reaction.NEVER, Reaction.IF_ASKED}
    if entry.failure_class in {FailureClass.PLATFORM, FailureClass.HANG}:
        assert entry.payer is Payer.PLATFORM
        assert entry.reaction in {Reaction.BACKOFF, Reaction.AT_ONCE}
    if entry.failure_class is FailureClass.PREEMPTED:
        assert entry.payer is Payer.NOBODY
        assert entry.reaction is Reaction.REQUEUE


def test_what_may_be_refined_exists():
    assert all(find_class(code) for code in REFINABLE)


def test_the_document_is_the_table():
    assert (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8") == exit_table_markdown()


# --- 137 -------------------------------------------------------------------------------------------------------------

KILLS = [{"code": 137}, {"signal": 9}, {"code": 137, "signal": 9}]


@pytest.mark.parametrize("kill", KILLS)
def test_a_kill_is_told_apart(kill):
    assert classify([ended(**kill, reason=ExitReason.OOM)]).code == "oom"
    assert classify([ended(**kill, reason=ExitReason.NODE_OOM)]).code == "node_oom"
    assert classify([ended(**kill, reason=ExitReason.STOPPED, stop_cause=StopCause.USER)], stop_cause=StopCause.USER).code == (
        "stopped_by_user"
    )
    assert classify([ended(**kill, stop_cause=StopCause.DEADLINE)], stop_cause=StopCause.DEADLINE).code == "deadline"
    assert classify([ended(**kill)]).code == "killed"


def test_an_oom_is_the_users_and_a_machines_oom_is_not():
    own, machine = classify([ended(code=137, reason=ExitReason.OOM)]), classify([ended(code=137, reason=ExitReason.NODE_OOM)])
    assert (own.failure_class, own.exit_class.payer) == (FailureClass.OOM, Payer.USER)
    assert (machine.failure_class, machine.exit_class.payer) == (FailureClass.PLATFORM, Payer.PLATFORM)


# --- Stops -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cause", "code", "outcome"),
    [
        (StopCause.USER, "stopped_by_user", Outcome.STOPPED),
        (StopCause.PREEMPTED, "preempted", Outcome.PREEMPTED),
        (StopCause.DEADLINE, "deadline", Outcome.FAILED),
        (StopCause.PLATFORM, "stopped_by_platform", Outcome.FAILED),
    ],
)
@pytest.mark.parametrize("end", [{"code": 0}, {"code": 143}, {"signal": 9}, {"code": 1}])
def test_our_own_stop_explains_whatever_the_program_did_then(cause, code, outcome, end):
    verdict = classify([ended(**end)], stop_cause=cause)
    assert (verdict.code, verdict.outcome) == (code, outcome)


def test_a_stop_by_completion_is_explained_by_the_task_that_failed_before():
    tasks = [ended(0, code=3), ended(1, signal=15, reason=ExitReason.STOPPED, stop_cause=StopCause.COMPLETION)]
    verdict = classify(tasks, stop_cause=StopCause.COMPLETION)
    assert (verdict.code, str(verdict.task), verdict.exit_code) == ("program_error", "worker-0", 3)


def test_tasks_stopped_after_a_success_do_not_spoil_it():
    tasks = [ended(0, code=0), ended(1, signal=15, reason=ExitReason.STOPPED, stop_cause=StopCause.COMPLETION)]
    assert classify(tasks, stop_cause=StopCause.COMPLETION).outcome is Outcome.SUCCEEDED


def test_a_task_that_was_stopped_with_its_job_says_so():
    assert classify_task(ended(signal=15, stop_cause=StopCause.COMPLETION)).code == "stopped_with_job"
    assert classify_task(ended(code=0, stop_cause=StopCause.COMPLETION)).code == "success"


# --- Which task decides ----------------------------------------------------------------------------------------------


def test_a_lost_machine_explains_peers_that_failed_before_it_was_noticed():
    tasks = [ended(0, code=1, log_tail="NCCL error"), ended(1, reason=ExitReason.NODE_LOST, evidence="node n7 rebooted")]
    verdict = classify(tasks)
    assert (verdict.code, str(verdict.task), verdict.evidence) == ("node_lost", "worker-1", "node n7 rebooted")


def test_of_equal_evidence_the_first_to_end_decides():
    assert str(classify([ended(2, code=5), ended(0, code=6)]).task) == "worker-2"


def test_nothing_known_at_all_is_a_class_too():
    assert classify([]).code == "vanished"
    assert classify([ended()]).code == "vanished"


def test_success_needs_every_task():
    assert classify([ended(0, code=0), ended(1, code=0)]).outcome is Outcome.SUCCEEDED
    assert classify([ended(0, code=0), ended(1, code=1)]).outcome is Outcome.FAILED


# --- The engine gave up ----------------------------------------------------------------------------------------------


def test_an_engines_code_is_an_entry_or_a_plain_refusal():
    assert classify(engine_code="volume_denied", engine_detail="volume digits").evidence == "volume digits"
    verdict = classify(engine_code="something_new", engine_detail="why")
    assert (verdict.code, verdict.evidence, verdict.outcome) == ("engine_gave_up", "why", Outcome.FAILED)


def test_the_api_gets_words_and_numbers():
    document = classify([ended(code=127)]).as_dict()
    assert document["class"] == "command_not_found"
    assert document["code"] == 127
    assert document["who_pays"] == "user"
    assert document["text"]
    assert document["hint"]


# --- The log ---------------------------------------------------------------------------------------------------------

LINES = {
    "gpu_fault": "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    "cuda_out_of_memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
    "cuda_driver_mismatch": "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
    "cuda_no_device": "RuntimeError: No CUDA GPUs are available",
    "cuda_no_kernel": "CUDA error: no kernel image is available for execution on the device",
    "cuda_error": "RuntimeError: CUDA error: device-side assert triggered",
    "nccl_error": "torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1275",
    "rendezvous_timeout": "XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: x",
    "peer_lost": "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:24532",
    "mpi_abort": "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD",
    "mpi_slots": "There are not enough slots available in the system to satisfy the 8",
    "shm_too_small": "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. insufficient shared memory (shm)",
    "windows_line_ends": "sh: 1: ./run.sh: /bin/bash^M: bad interpreter: No such file or directory",
    "interpreter_absent": "./run.py: /opt/python: bad interpreter: No such file or directory",
    "shell_not_bash": "/bin/sh: 1: [[: not found",
    "python_import_error": "ModuleNotFoundError: No module named 'torch'",
    "python_syntax_error": "SyntaxError: invalid syntax",
    "python_memory_error": "MemoryError",
    "python_recursion": "RecursionError: maximum recursion depth exceeded",
    "disk_full": "OSError: [Errno 28] No space left on device",
    "address_in_use": "OSError: [Errno 98] Address already in use",
    "too_many_files": "OSError: [Errno 24] Too many open files",
    "name_resolution": "socket.gaierror: [Errno -3] Temporary failure in name resolution",
    "download_denied": "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url",
    "connection_failed": "ConnectionRefusedError: [Errno 111] Connection refused",
    "tls_error": "ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED]",
    "permission_denied": "PermissionError: [Errno 13] Permission denied: '/data'",
    "library_missing": "./a: error while loading shared libraries: libgomp.so.1: cannot open shared object file",
    "file_not_found": "FileNotFoundError: [Errno 2] No such file or directory: 'x'",
    "python_assertion": "AssertionError",
    "python_error": "Traceback (most recent call last):",
}


@pytest.mark.parametrize("code", LINES)
def test_the_log_names_what_an_exit_code_does_not(code):
    log = f"epoch 1\n{LINES[code]}\n  more\n"
    verdict = classify([ended(code=1, log_tail=log)])
    assert verdict.code == code
    assert verdict.evidence == LINES[code][:300]


@pytest.mark.parametrize(
    ("code", "line", "exit_code"),
    [
        ("shell_not_bash", "sh: 1: set: Illegal option -o pipefail", 2),
        ("shell_not_bash", 'sh: 1: Syntax error: "(" unexpected', 2),
        ("shell_not_bash", "sh: 1: source: not found", 127),
        ("shell_not_bash", "sh: 3: Bad substitution", 2),
        ("interpreter_absent", "/bin/bash: line 2: ./run.sh: cannot execute: required file not found", 127),
        ("windows_line_ends", "run.sh: 2: \r: not found", 127),
        ("windows_line_ends", "run.sh: 2: set: Illegal option -\r", 2),
        ("windows_line_ends", "run.sh: line 2: $'\\r': command not found", 127),
        ("windows_line_ends", "/usr/bin/env: ‘bash\\r’: No such file or directory", 127),
    ],
)
def test_what_a_shell_did_not_understand_is_named(code, line, exit_code):
    assert classify([ended(code=exit_code, log_tail=f"{line}\n")]).code == code


def test_a_traceback_is_named_by_its_last_line():
    log = 'Traceback (most recent call last):\n  File "a.py", line 1\nImportError: cannot import name x\n'
    assert classify([ended(code=1, log_tail=log)]).code == "python_import_error"


def test_the_log_changes_nothing_about_an_end_that_is_clear():
    log = "CUDA out of memory"
    assert classify([ended(code=0, log_tail=log)]).code == "success"
    assert classify([ended(code=127, log_tail=log)]).code == "command_not_found"
    assert classify([ended(code=137, reason=ExitReason.OOM, log_tail=log)]).code == "oom"


def test_evidence_from_a_log_is_short_and_printable():
    verdict = classify([ended(code=1, log_tail="\x1b[31mCUDA out of memory\x07" + "x" * 10_000)])
    assert len(verdict.evidence) <= 300
    assert verdict.evidence.isprintable()


def patterns() -> list[str]:
    return [pattern for entry in all_classes() for pattern in entry.patterns]


def unbounded_repeats(tree: object) -> int:
    """How many repeats without an upper bound a pattern holds, nested ones included."""
    count = 0
    for operation, argument in tree:  # type: ignore[attr-defined]
        name = str(operation)
        assert name not in {"GROUPREF", "ASSERT", "ASSERT_NOT"}, f"{name} is beyond what RE2 knows"
        if name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
            _, most, inner = argument
            count += (most == sre_parse.MAXREPEAT) + unbounded_repeats(inner)
        elif name == "SUBPATTERN":
            count += unbounded_repeats(argument[3])
        elif name == "BRANCH":
            count += sum(unbounded_repeats(branch) for branch in argument[1])
    return count


@pytest.mark.parametrize("pattern", patterns())
def test_patterns_are_linear(pattern):
    assert unbounded_repeats(sre_parse.parse(pattern)) == 0
    assert not re.search(pattern, "")


@pytest.mark.parametrize("pattern", patterns())
def test_a_hostile_log_costs_little(pattern):
    words = re.sub(r"[^A-Za-z :]+", "", pattern) or "x"
    log = (words[:-1] * (LOG_TAIL_BYTES // max(1, len(words) - 1)))[:LOG_TAIL_BYTES]
    began = time.process_time()
    re.search(pattern, log)
    assert time.process_time() - began < 0.5


def test_only_the_end_of_a_log_is_looked_at():
    assert match_log("CUDA out of memory\n" + "x\n" * LOG_TAIL_BYTES) is None


# --- Engines ---------------------------------------------------------------------------------------------------------


def test_every_code_with_which_an_engine_gives_up_has_a_class():
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "platform" / "clusters" / "engines").rglob("*.py")]
    codes = {code for source in sources for code in re.findall(r'GiveUp\(\s*[\w.\[\]]+,\s*"([a-z_]+)"', source)}
    assert codes
    assert {code for code in codes if find_class(code) is None} == set()
