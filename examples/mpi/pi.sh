#!/bin/sh
# One rank of many: integrates its share of 4 / (1 + x^2) over [0, 1] and writes the part to where the launcher adds them up.
# A real program would be linked with MPI; this one shows ranks, slots and tasks without a compiler.
steps=200000
awk -v rank="$OMPI_COMM_WORLD_RANK" -v count="$OMPI_COMM_WORLD_SIZE" -v steps="$steps" 'BEGIN {
  for (i = rank; i < steps; i += count) { x = (i + 0.5) / steps; sum += 4 / (1 + x * x) }
  printf "%.12f\n", sum / steps
}'
echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE ran in $BERTH_ROLE-$BERTH_INDEX" >&2
