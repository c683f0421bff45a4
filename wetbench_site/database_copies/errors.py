"""The error of backups and restores."""


class BackupError(Exception):
    """Nothing was created or changed; the message says what is wrong and what to do next."""
