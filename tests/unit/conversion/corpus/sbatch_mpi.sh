#!/bin/bash
#SBATCH --ntasks=32
#SBATCH --nodes=1-2
#SBATCH --time=90:00
#SBATCH --mem=0
#SBATCH --gpus=3
#SBATCH --begin=now+1hour
mpirun ./solve --input mesh.dat
