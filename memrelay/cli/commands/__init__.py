"""One file per command, with a function of the same name that typer reads."""
