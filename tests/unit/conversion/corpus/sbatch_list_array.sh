#!/usr/bin/env bash
#SBATCH --array=1,3,5-7
#SBATCH --gpus-per-task=1 --ntasks=1
#SBATCH --no-requeue --parsable --nice=100
echo "index $SLURM_ARRAY_TASK_ID"
