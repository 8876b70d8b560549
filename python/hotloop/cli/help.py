"""Help texts without type names: `--json` needs no `<bool>` beside it, and `ENV` no `<str>`."""

from __future__ import annotations

from typing import Any


def hide_types(command: Any) -> Any:
    """Return a Typer command whose help, and that of its subcommands, shows types of options with values only."""
    if hasattr(command, "get_params"):
        every = command.get_params
        command.get_params = lambda context: [_quiet(parameter) for parameter in every(context)]
    for each in getattr(command, "commands", {}).values():
        hide_types(each)
    return command


def _quiet(parameter: Any) -> Any:
    """Return the parameter; a flag or an argument shows no type. Earlier versions of Typer never did."""
    if hasattr(parameter, "display_type_rich") and (
        parameter.param_type_name == "argument" or getattr(parameter, "is_flag", False)
    ):
        parameter.display_type_rich = lambda ctx: None
    return parameter
