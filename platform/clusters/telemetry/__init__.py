"""Use of CPU, memory, disk and GPU over time: sampled, kept for a bounded window, thinned with age, gaps kept as gaps."""
