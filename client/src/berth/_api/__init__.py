"""Generated types of the API."""
