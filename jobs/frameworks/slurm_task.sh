#!/bin/sh
# The first process of a task of framework slurm: puts what a script expects of Slurm where commands are looked for. Then the
# first task becomes the script, and the others serve the srun in it.
files=${0%/*}
tools=$(mktemp -d "${TMPDIR:-/tmp}/berth-slurm-XXXXXX") || exit 126
for name in scontrol squeue sinfo sacct sstat sprio sshare sreport sdiag seff module ml; do
  printf '#!/bin/sh\nexec /bin/sh "%s/slurm_tools.sh" %s "$@"\n' "$files" "$name" > "$tools/$name" || exit 126
done
# No shell on the way: some would lose functions that bash has exported.
cat > "$tools/srun" << END || exit 126
#!/usr/bin/env python3
import sys
sys.path.insert(0, "$files")
import slurm_agent
sys.exit(slurm_agent.main(["srun", *sys.argv[1:]]))
END
chmod 700 "$tools"/*
PATH=$tools:${PATH:-/usr/local/bin:/usr/bin:/bin}
# A login shell sets PATH anew, and reads this afterwards.
printf 'case ":$PATH:" in *":%s:"*) ;; *) PATH=%s:$PATH ;; esac\n' "$tools" "$tools" > "$tools/.profile"
BASH_ENV=${BASH_ENV:-$tools/.profile}
SLURM_TASK_PID=$$
SLURM_JOB_UID=$(id -u)
SLURM_JOB_GID=$(id -g)
SLURM_SUBMIT_DIR=${SLURM_SUBMIT_DIR:-$PWD}
export PATH BASH_ENV SLURM_TASK_PID SLURM_JOB_UID SLURM_JOB_GID SLURM_SUBMIT_DIR
if [ -n "$CUDA_VISIBLE_DEVICES" ]; then
  SLURM_JOB_GPUS=$CUDA_VISIBLE_DEVICES
  export SLURM_JOB_GPUS
fi
case "$BERTH_HOST" in
  127.* | ::1 | localhost)
    OMPI_MCA_oob_tcp_if_include=${OMPI_MCA_oob_tcp_if_include:-lo}
    OMPI_MCA_btl_tcp_if_include=${OMPI_MCA_btl_tcp_if_include:-lo}
    export OMPI_MCA_oob_tcp_if_include OMPI_MCA_btl_tcp_if_include
    ;;
esac
if [ "$SLURM_NNODES" = 1 ]; then
  exec "$@"
fi
if ! command -v python3 > /dev/null; then
  echo "berth-slurm: the image has no python3, without which srun cannot start anything in other tasks" >&2
  exit 127
fi
if [ "$BERTH_RANK" = 0 ]; then
  python3 "$files/slurm_agent.py" start || exit
  exec "$@"
fi
exec python3 "$files/slurm_agent.py" serve
