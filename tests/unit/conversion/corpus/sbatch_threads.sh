#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks=16
#SBATCH --mem=31GB
#SBATCH --time=UNLIMITED
#SBATCH --gres=gpu:2,scratch:100
#SBATCH --cpus-per-gpu=4
#SBATCH --switches=1
#SBATCH --mystery=yes
export OMP_NUM_THREADS=$SLURM_CPUS_ON_NODE
./simulate
