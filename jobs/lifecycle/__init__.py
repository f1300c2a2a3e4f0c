"""The rules of a job's life as plain functions: states, reasons, classes of exits, retries and completion.

No database, clock or setting is read here; callers pass in what is known and carry out what comes back."""
