/** Jobs to begin with. Each runs as it stands where a machine has the programs that it names. */

interface Sample {
  name: 'hello' | 'gpu' | 'array' | 'pytorch' | 'retry';
  text: string;
}

export const HELLO = `# A job is a command and what it needs. Change anything here; the form follows.
name: hello
command: |
  echo "Hello from $BERTH_ROLE $BERTH_INDEX of $BERTH_WORLD_SIZE"
  sleep 3
replicas: 2
resources: {cpu: 0.5, memory: 256Mi}
max_runtime: 10m
`;

export const SAMPLES: readonly Sample[] = [
  { name: 'hello', text: HELLO },
  {
    name: 'gpu',
    text: `# One task with one GPU.
name: one-gpu
command: |
  nvidia-smi || echo "no driver on this machine (its GPUs may be simulated)"
  echo "GPUs of this task: $CUDA_VISIBLE_DEVICES"
  sleep 20
resources: {gpu: 1, cpu: 1, memory: 1Gi}
max_runtime: 30m
`,
  },
  {
    name: 'array',
    text: `# The same command four times, two at a time, told apart by a number.
name: sweep
command: |
  python3 -c "import os; print('rate', 0.1 / 2 ** int(os.environ['BERTH_ARRAY_INDEX']))"
resources: {cpu: 0.5, memory: 256Mi}
array: {size: 4, parallelism: 2}
max_runtime: 10m
`,
  },
  {
    name: 'pytorch',
    text: `# Data-parallel PyTorch on two tasks, which find each other by MASTER_ADDR, RANK and WORLD_SIZE.
# Needs a python3 with torch: in an image, or on the machines.
name: pytorch-allreduce
framework: pytorch
replicas: 2
resources: {cpu: 0.5, memory: 1Gi}
command: |
  python3 - <<'PY'
  import torch, torch.distributed as dist
  dist.init_process_group("gloo")
  x = torch.ones(1) * dist.get_rank()
  dist.all_reduce(x)
  print("rank", dist.get_rank(), "of", dist.get_world_size(), "sum", x.item())
  PY
max_runtime: 10m
`,
  },
  {
    name: 'retry',
    text: `# Fails the first time, is tried again, and keeps a file.
name: second-try
command: |
  echo "attempt $BERTH_ATTEMPT"
  echo result > result.txt
  exit $((BERTH_ATTEMPT < 2))
resources: {cpu: 0.5, memory: 256Mi}
outputs: [result.txt]
retry: {limit: 1, on: [user]}
max_runtime: 10m
`,
  },
];
