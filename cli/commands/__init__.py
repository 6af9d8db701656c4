"""One file a command; each has a function of the command's name that typer reads."""
