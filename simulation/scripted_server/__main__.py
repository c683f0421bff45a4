"""`python -m simulation.scripted_server --port 8765`: print the URL, then serve until stopped."""

import argparse
import json
from contextlib import suppress
from pathlib import Path

from simulation.scripted_server.answers import AnswerOptions
from simulation.scripted_server.code_answers import CodeScript
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
    parser.add_argument(
        "--script",
        type=Path,
        help='JSON with what agents that edit code answer: {"replies": [one a step], "functions": {name: text}}',
    )
    args = parser.parse_args()
    try:
        script = CodeScript.from_json(json.loads(args.script.read_text("utf-8"))) if args.script else CodeScript()
    except (OSError, ValueError) as error:
        parser.error(f"{args.script}: {error}")
    with AnsweringServer(args.port, AnswerOptions(script=script)) as server, suppress(KeyboardInterrupt):
        if args.with_parent:
            exit_with_parent()
        # Flushed at once, because the process that started this one reads the URL from the pipe.
        print(server.url, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
