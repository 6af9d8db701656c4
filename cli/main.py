"""`memrelay`: the command line. Only the command that is called is loaded, so that help is quick."""
import importlib
import sys
from collections.abc import Sequence

import typer

COMMANDS = {
    "up": "Start the embedded bus and a worker, deploy the sample pipeline, and say what to try.",
    "worker": "Serve the deployed pipelines until it is told to end.",
    "deploy": "Check a bundle and put it in service.",
    "check": "Check a bundle without deploying it.",
    "ls": "List the pipelines in service.",
    "rm": "Take a pipeline out of service.",
    "say": "Say something on a swarm and print the results.",
}


def main() -> None:
    """The entry point of `memrelay`."""
    make_app(sys.argv[1:])()


def make_app(arguments: Sequence[str]) -> typer.Typer:
    """The application, with the function of the one command that `arguments` call for; the others have a name and a help."""
    app = typer.Typer(name="memrelay", help="Memory for agents, on a message bus.", no_args_is_help=True,
                      add_completion=False, pretty_exceptions_enable=False)
    wanted = next((word for word in arguments if not word.startswith("-")), "")
    for name, summary in COMMANDS.items():
        if name == wanted:
            app.command(name)(getattr(importlib.import_module(f"cli.commands.{name}"), name))
        else:
            app.command(name, help=summary)(_not_called)
    return app


def _not_called() -> None:
    """Stands for the commands that this call does not name."""


if __name__ == "__main__":
    main()
