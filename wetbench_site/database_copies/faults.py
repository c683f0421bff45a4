"""What keeps a backup from being made or restored."""


class BackupError(Exception):
    """Nothing was made or changed; the message says what is wrong and what to do next."""
