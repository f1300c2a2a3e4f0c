"""The `berth` command. Modules here load rich and httpx2 only inside the functions that need them."""
