"""Kubernetes on this machine, for development and tests: a control plane, real nodes and simulated ones, as plain processes.

    python -m tools.kubernetes up DIR       # builds what is missing, starts it, prints the KUBECONFIG
    python -m tools.kubernetes down DIR     # nothing of it is left but DIR

Nothing here is part of the product, and nothing of it is for production: data is written without care for power cuts, the keys
lie in DIR, and a user who may read them owns the cluster.

- `programs` builds Kubernetes, etcd, CoreDNS and kwok from their Go modules, once.
- `control_plane` runs etcd, API server, controller manager, scheduler, CoreDNS and kwok.
- `node` runs a kubelet with Debian's containerd, runc and CNI plugins; `images` makes what its pods run.
- `namespaces` and `network` give each node what makes it a machine of its own, all of which ends with one process.
- `simulated` makes nodes that kwok plays; `stages.yaml` says what becomes of their pods.
- `cluster` is all of them in one directory, and what other processes ask of it; `hold` ends it with its last user.
"""
