"""Container images on this host: pulled, unpacked once per digest, and shown to tasks as their read-only root."""
