#!/bin/bash
#SBATCH -J sweep
#SBATCH -a 10-50:10%2
#SBATCH -n1 -c 4
#SBATCH -t 2:30:00
#SBATCH --mem-per-cpu 2G
#SBATCH -o /dev/null
#SBATCH -H
python sweep.py --rate "$SLURM_ARRAY_TASK_ID" --of "$SLURM_ARRAY_TASK_COUNT" --tmp "$SLURM_TMPDIR"
