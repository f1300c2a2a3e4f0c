#!/usr/bin/env python3
#SBATCH --cpus-per-task=2
#SBATCH --container-image=example/torch:2.4
#SBATCH --chdir=runs
#SBATCH --comment="a try"
import os

print("from", os.environ.get("SLURM_JOB_ID"))
