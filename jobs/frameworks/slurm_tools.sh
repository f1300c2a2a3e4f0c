#!/bin/sh
# What a script expects of Slurm, by the name it was called with. Programs that ask Slurm have nothing to tell, which is no reason
# for a script to fail.
files=${0%/*}
name=$1
shift
case "$name $1 $2" in
  "scontrol show hostname" | "scontrol show hostnames")
    list=${3:-$SLURM_JOB_NODELIST}
    case "$list" in
      "") while read -r rank role index host; do echo "$host"; done < "$BERTH_HOSTS_FILE" ;;
      *\[*) exec python3 "$files/slurm_agent.py" hostnames "$list" ;;
      *) echo "$list" | tr ',' '\n' ;;
    esac
    ;;
  "module "* | "ml "*) ;; # Software comes with the image.
  "scontrol show "* | "scontrol  ") echo "scontrol: there is no Slurm here; only 'show hostnames' tells something" >&2 ;;
  "scontrol "*)
    echo "scontrol: there is no Slurm here that '$1' could act on" >&2
    exit 1
    ;;
  *) echo "$name: there is no Slurm here to ask" >&2 ;;
esac
