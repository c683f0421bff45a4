#!/usr/bin/env python
"""Django's command line for WetBench."""

import logging
import os
import sys


def main() -> None:
    """A fault ends the command as it ends a request: redacted in the log. `--traceback` shows it whole, to a developer."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wetbench_site.settings")
    from django.core.management import execute_from_command_line

    from wetbench_site.environment import InvalidConfiguration

    try:
        execute_from_command_line(sys.argv)
    except InvalidConfiguration as error:
        sys.exit(str(error))
    except Exception:  # whatever it is ends up here: a traceback holds what must not stand in a log
        if "--traceback" in sys.argv:
            raise
        logging.getLogger("wetbench.commands").exception("the command failed; with --traceback it says more")
        sys.exit(1)


if __name__ == "__main__":
    main()
