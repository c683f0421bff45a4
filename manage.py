#!/usr/bin/env python
"""Django's command line for WetBench."""

import gc
import logging
import os
import sys


def main() -> None:
    """Run a command. An unexpected exception is logged in redacted form, as in a request; `--traceback` raises it in full."""
    # Loading the code creates a million objects that stay: with Python's thresholds, scanning them takes a tenth of the start.
    gc.set_threshold(50_000, 10, 10)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wetbench_site.settings")
    from django.core.management import execute_from_command_line

    from wetbench_site.environment import InvalidConfiguration

    try:
        execute_from_command_line(sys.argv)
    except InvalidConfiguration as error:
        sys.exit(str(error))
    except Exception:  # a full traceback could put secrets into the log
        if "--traceback" in sys.argv:
            raise
        logging.getLogger("wetbench.commands").exception("the command failed; --traceback shows all details")
        sys.exit(1)


if __name__ == "__main__":
    main()
