"""The database of the embedded profile."""
