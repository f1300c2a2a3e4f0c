#!/bin/sh
# What a script expects of Slurm, by the name it was called with: scontrol show hostnames, and modules that are none.
files=${0%/*}
name=$1
shift
case "$name" in
  scontrol)
    case "$1 $2" in
      "show hostname" | "show hostnames") ;;
      *)
        echo "scontrol: there is no Slurm here; only 'show hostnames' works" >&2
        exit 1
        ;;
    esac
    list=${3:-$SLURM_JOB_NODELIST}
    case "$list" in
      "") while read -r rank role index host; do echo "$host"; done < "$BERTH_HOSTS_FILE" ;;
      *\[*) exec python3 "$files/slurm_agent.py" hostnames "$list" ;;
      *) echo "$list" | tr ',' '\n' ;;
    esac
    ;;
  *) ;; # Modules: software comes with the image.
esac
