"""What every reconciler shares: leases, guarded batch transitions, bulk SQL, ticks and sweeps."""
