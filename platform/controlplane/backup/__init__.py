"""Backup and restore of an installation, each one command: `manage.py backup`, `manage.py restore`."""
