"""`hotloop envs`: list the envs, or show one in full."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from hotloop.cli.output import emit, known_env

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from hotloop.envs.adapters.factory import AdapterEntry
    from hotloop.envs.registry import EnvEntry, OptionEntry


def envs(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show this env in full.")] = None,
    include: Annotated[bool, typer.Option("--include", help="Print the include folder of hotloop.h.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """List the envs, or show a native one in full: options, rewards, state.

    \b
      hotloop envs                       all envs, one line each
      hotloop envs frozen-lake           one env with its options
      hotloop envs native:./walk.so      an env in a shared library
      hotloop envs --json | jq -r '.name // empty'
    """
    if include:
        from hotloop.envs.abi import INCLUDE

        print(INCLUDE)
        return
    import hotloop
    from hotloop.envs.registry import env_entry

    entries = hotloop.list_envs()
    if name is not None:
        name = known_env(name, (entry.name for entry in entries))
        entries = [env_entry(name)]
    if as_json:
        for entry in entries:
            emit("env", **dataclasses.asdict(entry))
        if name is None:
            for adapter, installed in _installed():
                emit("adapter", prefix=adapter.prefix, what=adapter.what, installed=installed)
        emit("end", envs=len(entries))
        return
    from rich.console import Console

    console = Console(highlight=False)
    if name is None:
        console.print(_overview(entries))
        console.print("\n'hotloop envs NAME' shows one in full.\n", markup=False)
        console.print(_adapters())
    else:
        _print_in_full(console, entries[0])


def _plain_table(*headings: str, wide: str) -> Table:
    """A borderless table in which only one column wraps."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(headings))
    for heading in headings:
        table.add_column(heading, no_wrap=heading != wide, overflow="fold")
    return table


def _overview(entries: list[EnvEntry]) -> Table:
    table = _plain_table("name", "observation", "action", "about", wide="about")
    for entry in entries:
        table.add_row(entry.name, entry.observation, entry.action, entry.about)
    return table


def _installed() -> list[tuple[AdapterEntry, bool]]:
    """Adapters of Python envs, and whether each one's package is installed."""
    from importlib.util import find_spec

    from hotloop.envs.adapters.factory import ADAPTERS

    return [(entry, entry.module is None or find_spec(entry.module) is not None) for entry in ADAPTERS]


def _adapters() -> Table:
    from rich.markup import escape

    table = _plain_table("other envs", "installed", "what follows", wide="what follows")
    for entry, installed in _installed():
        how = "yes" if installed else f"no: pip install {entry.install}"
        table.add_row(escape(entry.prefix or "MODULE:FACTORY"), escape(how), escape(entry.what))
    return table


def _print_in_full(console: Console, entry: EnvEntry) -> None:
    from rich.markup import escape
    from rich.table import Table

    console.print(f"[bold]{entry.name}[/bold]: {escape(entry.about)}\n")
    facts = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for label, value in (
        ("Gymnasium id", entry.gymnasium_id or "none"),
        ("agents", str(entry.seats)),
        ("observation", entry.observation),
        ("action", entry.action + (", with an action mask" if entry.masked else "")),
        ("reward terms", _words(entry.terms)),
        ("episode metrics", _words(entry.metrics)),
        ("info arrays", _words(entry.infos)),
        ("state", _words(entry.state)),
    ):
        facts.add_row(label, escape(value))
    console.print(facts)
    table = _plain_table("option", "default", "allowed", "about", wide="about")
    for option in entry.options:
        about = option.about + (" (fixed per runner)" if option.fixed else "")
        table.add_row(*map(escape, (option.name, _shown(option.default), _allowed(option), about)))
    console.print()
    console.print(table)
    some = entry.options[0]
    example = f"hotloop.make_vec({entry.name!r}, num_envs=1024, options={{{some.name!r}: {some.default!r}}})"
    console.print(f"\n{example}", markup=False, soft_wrap=True)


def _words(words: tuple[str, ...]) -> str:
    return ", ".join(words) or "none"


def _shown(value: object) -> str:
    """An option's value in Python syntax, floats to four digits."""
    return repr(float(f"{value:.4g}") if isinstance(value, float) else value)


def _allowed(option: OptionEntry) -> str:
    if option.choices is not None:
        return ", ".join(option.choices)
    if option.low is not None and option.high is not None:
        return f"{option.low:.10g} to {option.high:.10g}"
    return "True, False" if isinstance(option.default, bool) else "any"
