#!/bin/sh
#SBATCH --time=10
hostname
