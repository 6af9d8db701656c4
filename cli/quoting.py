"""A command that says how a text is quoted, where a shell has taken it apart, or it was taken for
an option."""

from typing import Any, cast

import typer
from typer.core import TyperCommand

from cli.escaping import escaped

UsageError = cast(
    "type[Exception]", typer.BadParameter.__mro__[1]
)  # typer has no name for what its errors have in common
TEXTS = ("text", "content", "query", "name")  # arguments of several words


class Quoting(TyperCommand):
    """Its arguments are read as typer reads them."""

    allow_extra_args = True  # which are told here

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """typer's call."""
        try:
            rest = super().parse_args(ctx, args)
        except UsageError as error:
            option = getattr(error, "option_name", None) or "--"
            if option.startswith("--") or not self._takes_text():
                raise
            ctx.fail(
                f'No such option: {escaped(option)}. A text that begins with - comes last, behind --: -- "- milk"'
            )
        if rest and not ctx.resilient_parsing:
            remedy = (
                '. A text of several words stands in quotes: "The meeting is at 3pm"'
                if self._takes_text()
                else ""
            )
            ctx.fail(f"Got unexpected extra argument(s) ({escaped(' '.join(rest))}){remedy}")
        return rest

    def _takes_text(self) -> bool:
        return any(
            parameter.param_type_name == "argument" and parameter.name in TEXTS
            for parameter in self.params
        )
