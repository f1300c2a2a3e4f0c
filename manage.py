#!/usr/bin/env python3
"""Start every process of Berth: puts `platform/` on the import path, and says what is wrong with the settings."""

import gc
import logging
import os
import secrets
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def main() -> None:
    sys.path[:0] = [str(ROOT), str(ROOT / "platform")]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    from kernel.config import BadSetting, current

    try:
        run_without_django()
        if sys.argv[1:2] == ["restore"]:
            lend_key(current().data_dir)
        if sys.argv[1:2] not in (["serve"], ["backup"], ["restore"]):  # These start as root; what they leave they give away.
            act_as_owner(current().data_dir / "berth.sqlite3")
        gc.disable()  # Until everything is loaded (`controlplane.apps`): looking through it is a seventh of a start.
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)
    except BadSetting as reason:
        print(f"berth: {reason}", file=sys.stderr)  # noqa: T201  (`make up` looks for this line)
        sys.exit(78 if sys.argv[1:2] in (["serve"], ["run"], ["prepare"]) else 1)  # EX_CONFIG: another try would not help.


def run_without_django() -> None:
    """In production what keeps root loads none of it; everything else gives root up before it is loaded."""
    from kernel.config import current

    if not current().is_production:
        return
    from controlplane import logs
    from controlplane.instance import CannotStart
    from controlplane.processes.service_user import become_service_user

    words = sys.argv[1:]
    logs.set_up(debug=current().debug)
    if words[:1] not in (["serve"], ["run"], ["prepare"]):
        logging.getLogger().setLevel(logging.WARNING)  # What a command prints is for whoever typed it.
    try:
        if words[:1] == ["serve"]:
            from controlplane.processes import supervisor

            sys.exit(supervisor.main(words[1:]))
        if words[:2] == ["run", "launcher"]:
            from controlplane.processes import launcher

            sys.exit(launcher.run(current()))
        if words[:1] not in (["backup"], ["restore"]):  # What these leave they give away by themselves.
            os.umask(0o077)
            become_service_user(current())
        if words[:1] == ["run"]:
            from controlplane.processes import signs

            signs.end_with_supervisor()  # Before all is loaded: a web process has the listening socket from its first moment.
    except CannotStart as reason:
        print(f"berth: {reason}", file=sys.stderr)  # noqa: T201  (the same)
        sys.exit(reason.exit_code)


def act_as_owner(database: Path) -> None:
    """Whoever is root becomes the user that the database belongs to: what this leaves behind must be that user's, too."""
    if os.geteuid() != 0 or not database.exists() or database.stat().st_uid == 0:
        return
    owner = database.stat()
    os.setgroups([])
    os.setgid(owner.st_gid)
    os.setuid(owner.st_uid)


def lend_key(data_dir: Path) -> None:
    """A restore begins where the key may be lost, or was never made: until the backup's own is there, any will do."""
    if "BERTH_SECRET_KEY" not in os.environ and not (data_dir / "secret.key").exists():
        os.environ.update(BERTH_SECRET_KEY=secrets.token_urlsafe(64), BERTH_KEY_IS_LENT="1")


if __name__ == "__main__":
    main()
