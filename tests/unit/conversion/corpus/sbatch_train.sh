#!/bin/bash -l
#SBATCH --job-name=resnet
#SBATCH --partition=gpu
#SBATCH --account=vision
#SBATCH --qos=high
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4          # one for each GPU
#SBATCH --cpus-per-task=8
#SBATCH --mem=256G
#SBATCH --gres=gpu:a100:4
#SBATCH --time=1-12:00:00
#SBATCH --output=logs/%x-%j.out
#SBATCH --error=logs/%x-%j.err
#SBATCH --mail-type=END,FAIL
#SBATCH --mail-user=mei@example.org
#SBATCH --constraint="ib&nvme"
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
#SBATCH --export=ALL,SEED=7
#SBATCH --chdir=/scratch/mei/resnet
#SBATCH --dependency=afterok:4711

module purge
module load cuda/12.4
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
echo "$SLURM_NTASKS tasks, job $SLURM_JOB_ID"
srun --cpu-bind=none python train.py --rank "$SLURM_PROCID"
#SBATCH --time=5
