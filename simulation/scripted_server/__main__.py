"""`python -m simulation.scripted_server --port 8765`: print the URL, then serve until stopped."""

import argparse
from contextlib import suppress

from simulation.scripted_server.server import AnsweringServer, exit_with_parent


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="simulation.scripted_server", description="A local stand-in for the model providers."
    )
    parser.add_argument("--port", type=int, default=8765, help="0 for any free port")
    parser.add_argument(
        "--with-parent",
        action="store_true",
        help="exit when standard input closes, for example because the parent was killed",
    )
    args = parser.parse_args()
    with AnsweringServer(args.port) as server, suppress(KeyboardInterrupt):
        if args.with_parent:
            exit_with_parent()
        # Flushed at once, because the process that started this one reads the URL from the pipe.
        print(server.url, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
