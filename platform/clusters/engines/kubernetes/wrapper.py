"""The program that starts a task in its container: POSIX sh, with dd, base64, mkfifo, wc, sleep and kill beside it.

It is the container's first process, and the task its child: a first process cannot be killed by its own signals, and a shell
can say by which signal its child died. The task's program and arguments are arguments of the script; no text of a user is part
of it.

*Output.* A container's log mixes both streams and knows lines only. So the script reads each stream from a pipe and writes it
as lines of ASCII, `O<offset>:<base64>` on its standard output and `E<offset>:<base64>` on its standard error: each stream of
the container is written by one process, so lines never mix. Offsets count the task's bytes, so a reader can tell a gap.
`O<offset>!<count>` says that so many bytes past the quota were dropped, `O<offset>.` that the stream has ended.

*Stop.* A program started beside the task names signal, processes and grace in files, and sends TERM to the first process; so
does the kubelet, without files, where the pod is deleted. It is passed on: at once to those processes that handle it, and to
the others but shells when these have ended; to all where none handles it. (Every shell handles INT, by leaving its script.) The
container ends when none of them is left, or after the grace, when all are killed but those that still write the output down. What
/proc says of a process is read at once: bash seeks between lines, and the kernel writes them anew.

*User.* The pod's user has no name in the image. Only an image that lets all users write its /etc/passwd gets a line for it.

*Start.* What the shell cannot execute is told in the container's termination message, which comes with the pod's status.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from kernel.signals import SHELLS

ROOT = "/berth"  # An emptyDir.
WORK, HOME, TEMPORARY, RUN = f"{ROOT}/work", f"{ROOT}/home", f"{ROOT}/tmp", f"{ROOT}/run"  # noqa: S108 - its own
FILES, LATE_FILES = "/berth-files", f"{RUN}/files"  # A ConfigMap; what the script writes from its environment.
CODE = "/berth-code"
CARRIED = f"{ROOT}/code"
CHECKPOINT = "/berth-checkpoint"
USERS_FILE = "/etc/passwd"
CANNOT_START = "berth: cannot start "
LINE_BYTES = 12_000  # Of a stream in one line: with base64 below the 16 KiB at which runtimes cut lines.
FRAME_BYTES_MAX = 64 * 1024
_READ_BYTES = 65_536  # What a pipe holds.
_KILL_ROUNDS = 50  # A task that forks faster than it is killed: then all at once, with what reads its output.
_LOOK_SECONDS = 5
_DRAIN_SECONDS = 5  # How long output of processes that outlive the task is waited for.

SCRIPT = f"""\
task=$1 quota=$2
shift 2
umask 077
run={RUN}
refuse() {{
  printf '{CANNOT_START}%s' "$1" >/dev/termination-log
  printf '\\n{CANNOT_START}%s\\n' "$1" >&2
  exit 126
}}
for tool in dd base64 mkfifo wc sleep mkdir; do
  command -v "$tool" >/dev/null 2>&1 || refuse "$5: the image has a shell and no $tool"
done
mkdir -p {WORK} {HOME} {TEMPORARY} "$run" && mkfifo "$run/out" "$run/err" || refuse "$5: {ROOT} cannot be written"
[ ! -w {USERS_FILE} ] || id -un >/dev/null 2>&1 || echo "$USER:x:$(id -u):$(id -g)::{HOME}:/bin/sh" >>{USERS_FILE}
wrap='-w {LINE_BYTES * 4 // 3}'
printf x | base64 $wrap >/dev/null 2>&1 || wrap=

relay() {{
  at=0
  while [ "$at" -lt "$quota" ]; do
    room=$((quota - at))
    [ "$room" -lt {_READ_BYTES} ] || room={_READ_BYTES}
    text=$(dd bs="$room" count=1 2>/dev/null | base64 $wrap)
    [ -n "$text" ] || {{ printf '%s%s.\\n' "$1" "$at"; return; }}
    from=$at
    for line in $text; do
      printf '%s%s:%s\\n' "$1" "$at" "$line"
      count=$((${{#line}} / 4 * 3))
      case $line in *==) count=$((count - 2)) ;; *=) count=$((count - 1)) ;; esac
      at=$((at + count))
    done
    [ $((at - from)) -ge 4096 ] || sleep 0.1 2>/dev/null || sleep 1
  done
  count=$(dd bs={_READ_BYTES} count=1 2>/dev/null | wc -c)
  if [ "$((count))" -gt 0 ]; then
    printf '%s%s!%s\\n' "$1" "$at" "$((count))"
    at=$((at + count))
    count=$(wc -c)
    [ "$((count))" -eq 0 ] || printf '%s%s!%s\\n' "$1" "$at" "$((count))"
    at=$((at + count))
  fi
  printf '%s%s.\\n' "$1" "$at"
}}
stopped= again= main= other= timer= self=
look() {{
  text=$(dd if="/proc/$1/status" bs=8192 count=1)
  [ -n "$text" ] || return 1
  set -- ${{text#*Name:}} && called=$1
  set -- ${{text#*State:}} && state=$1
  set -- ${{text#*PPid:}} && parent=$1
  set -- ${{text#*SigCgt:}} && mask=$1
  case $state in Z|X) return 1 ;; esac
}} 2>/dev/null
is_own() {{
  up=$1
  while [ "$up" -gt 1 ]; do
    case " $out $err $other $timer $self " in *" $up "*) return 0 ;; esac
    look "$up" || return 1
    up=$parent
  done
  return 1
}}
now() {{ read -r up rest </proc/uptime && now=${{up%.*}}${{up#*.}}; }}
kill_in_time() {{
  read -r self rest </proc/self/stat
  until now && read -r last <"$run/kill_at" && [ "$now" -ge "$last" ]; do pause; done
  kill -s KILL "$main"
  rounds=0
  while :; do
    left=
    for folder in /proc/[0-9]*; do
      pid=${{folder#/proc/}}
      [ "$pid" -ne 1 ] && look "$pid" && ! is_own "$pid" || continue
      left=1
      kill -s KILL "$pid"
    done
    [ -n "$left" ] || return 0
    rounds=$((rounds + 1))
    [ "$rounds" -lt {_KILL_ROUNDS} ] || kill -s KILL -- -1
  done
}} 2>/dev/null
pause() {{ sleep 0.1 2>/dev/null || sleep 1; }}
forward() {{
  again=1
  [ -z "$stopped" ] || return 0
  mkdir "$run/told"
  stopped=1 name=TERM number=15 target=programs
  [ ! -s "$run/signal" ] || {{ read -r name; read -r number target; }} <"$run/signal"
  told= later= children=
  for folder in /proc/[0-9]*; do
    pid=${{folder#/proc/}}
    [ "$pid" -ne 1 ] && look "$pid" || continue
    [ "$pid" = "$main" ] || children="$children $pid"
    handles=$(((0x${{mask#????????}} >> (number - 1)) & 1))
    case $called in {"|".join(SHELLS)}) is_shell=1 ;; *) is_shell= ;; esac
    if [ "$handles" -eq 1 ] && [ "$is_shell$name" != 1INT ]; then told="$told $pid"
    elif [ -z "$is_shell" ]; then later="$later $pid"
    fi
  done
  case $target in
    first) kill -s "$name" "$main" ;;
    children) kill -s "$name" $children ;;
    programs)
      if [ -n "$told" ]; then
        kill -s "$name" $told
        (
          trap '' HUP INT QUIT USR1 USR2 ALRM PIPE TERM
          for pid in $told; do
            while look "$pid"; do pause; done
          done
          kill -s "$name" $later
        ) &
        other=$!
      else kill -s "$name" -- -1
      fi ;;
    *) kill -s "$name" -- -1 ;;
  esac
  ( trap '' HUP INT QUIT USR1 USR2 ALRM PIPE TERM; kill_in_time ) &
  timer=$!
}} 2>/dev/null
linger() {{
  while :; do
    left=
    for folder in /proc/[0-9]*; do
      pid=${{folder#/proc/}}
      [ "$pid" -ne 1 ] && look "$pid" || continue
      [ "$parent" -eq 0 ] || is_own "$pid" || left=1
    done
    [ -n "$left" ] || return 0
    pause
  done
}}
await() {{
  wait "$1"
  status=$?
  while [ -n "$again" ]; do
    again=
    wait "$1"
    later=$?
    [ "$later" -eq 127 ] || status=$later
  done
}}

trap '' HUP INT QUIT USR1 USR2 ALRM PIPE TERM
relay O <"$run/out" &
out=$!
relay E <"$run/err" >&2 &
err=$!
trap - HUP INT QUIT USR1 USR2 ALRM PIPE
trap forward TERM
[ ! -d "$run/told" ] || forward
begin=
env --default-signal=INT,QUIT true 2>/dev/null && begin='env --default-signal=INT,QUIT'
(
  trap - TERM
  [ -z "$stopped" ] || exit 143
  exec $begin /bin/sh -c "$task" berth "$@"
) >"$run/out" 2>"$run/err" </dev/null &
main=$!
await "$main"
ended=$status
[ -z "$stopped" ] || linger
kill -s TERM -- -1 2>/dev/null
( sleep {_DRAIN_SECONDS}; kill -s KILL "$out" "$err" ) >/dev/null 2>&1 &
await "$out"
await "$err"
: >"$run/ended"
exit "$ended"
"""

AWAIT_CODE_SCRIPT = f"""\
trap 'exit 143' TERM
umask 077
mkdir -p {CARRIED} || exit 126
until [ -e {CARRIED}/code ]; do
  sleep 1 &
  wait $!
done
"""
"""Waits until the code is there."""

TAKE_CODE_SCRIPT = f"""\
umask 077
part={CARRIED}/part.$$
head -c "$1" >"$part" && [ "$(($(wc -c <"$part")))" -eq "$1" ] && mv "$part" {CARRIED}/code && exit 0
rm -f "$part"
exit 1
"""
"""Takes the code from its input, of so many bytes."""

KEEPER_SCRIPT = f"""\
left=$1
trap 'exit 0' TERM
while [ "$left" -gt 0 ]; do
  [ ! -e {RUN}/ended ] || left=$((left - {_LOOK_SECONDS}))
  sleep {_LOOK_SECONDS} &
  wait $!
done
"""
"""Keeps the files of a task that has ended until the pod is deleted, or for so many seconds."""

TASK_SCRIPT = f"""\
umask 077
code=$1 workdir=$2 kept=$3 link=$4
shift 4
cannot() {{
  printf '{CANNOT_START}%s' "$1" >/dev/termination-log
  printf '\\n{CANNOT_START}%s\\n' "$1" >&2
}}
trap 'ended=$?; cannot "$1"; exit $ended' EXIT
[ -z "${{BASH_VERSION:-}}" ] || shopt -s execfail
number=0
while eval "name=\\${{BERTH_FILE_NAME_$number-}}" && [ -n "$name" ]; do
  mkdir -p {LATE_FILES} || exit 126
  eval "printf '%s' \\"\\$BERTH_FILE_TEXT_$number\\"" >"{LATE_FILES}/$name" || exit 126
  unset "BERTH_FILE_NAME_$number" "BERTH_FILE_TEXT_$number"
  number=$((number + 1))
done
[ -z "${{BERTH_CPUS-}}" ] || export OMP_NUM_THREADS="${{OMP_NUM_THREADS-$BERTH_CPUS}}"
[ -z "$kept" ] || mkdir -p -- "$kept" || exit 126
cd {WORK} || exit 126
[ -z "$code" ] || tar -xzf "$code" || exit 126
cd -- "./$workdir" || exit 126
case $link in */*) mkdir -p -- "./${{link%/*}}" || exit 126 ;; esac
[ -z "$link" ] || ln -sfn {CHECKPOINT} "./$link" || exit 126
exec "$@"
exit
"""
"""The part that becomes the task's program: a shell of its own, in which no signal is ignored where `env` can see to it."""

STOP_SCRIPT = f"""\
umask 077
cd {RUN} && read -r up rest </proc/uptime || exit 1
last=$((${{up%.*}}${{up#*.}} + $4))
if [ ! -e kill_at ] || {{ read -r known <kill_at && [ "$last" -lt "$known" ]; }}; then
  echo "$last" >"kill_at.$$" && mv "kill_at.$$" kill_at || exit 1
fi
[ ! -d told ] || exit 0
printf '%s\\n%s %s\\n' "$1" "$2" "$3" >"signal.$$" && mv "signal.$$" signal || exit 1
mkdir told 2>/dev/null || exit 0
kill -s TERM 1
"""
"""Stops the task from beside it: the signal by name and number, which processes get it, and the grace in hundredths of a second.
Repeated, it only brings the end of the grace forward. Times are those of /proc/uptime, which a shell can read by itself."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A part of one stream. `data` None: `skipped` bytes were dropped past the quota. `last`: the stream ends at `offset`."""

    stream: str  # "O" or "E".
    offset: int
    data: bytes | None = None
    skipped: int = 0
    last: bool = False

    @property
    def end(self) -> int:
        return self.offset + (len(self.data) if self.data is not None else self.skipped)


_FRAME = re.compile(rb"([OE])([0-9]{1,15})([:!.])(.*)", re.DOTALL)


def read_frame(line: bytes) -> Frame | None:
    """Parse a line of a container's log; None for what the script did not write."""
    match = _FRAME.fullmatch(line)
    if match is None:
        return None
    stream, offset, kind, rest = match.group(1).decode(), int(match.group(2)), match.group(3), match.group(4)
    if kind == b".":
        return Frame(stream, offset, last=True) if not rest else None
    if kind == b"!":
        return Frame(stream, offset, skipped=int(rest)) if rest.isdigit() and len(rest) <= 15 else None
    if len(rest) > FRAME_BYTES_MAX:
        return None
    try:
        return Frame(stream, offset, base64.b64decode(rest, validate=True))
    except (binascii.Error, ValueError):
        return None
