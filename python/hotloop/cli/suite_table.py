"""A suite's evaluation as a table, for `hotloop eval`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.cli.output import emit

if TYPE_CHECKING:
    from hotloop.policies.policy import Policy
    from hotloop.training.suite_evaluation import SuiteResult


def print_suite_result(agent: Policy, judged: SuiteResult, run: str, as_json: bool) -> float:
    """Print a suite's table; return the mean over its cells."""
    from hotloop.text import plain

    total, count = judged.total, len(judged.cells)
    mean, low, high = (each / count for each in total)
    if as_json:
        cells = [{"cell": str(cell), **plain(vars(found))} for cell, found in judged.cells]
        summed = dict(zip(("mean", "low", "high"), total, strict=True))
        emit(
            "end",
            run=run,
            path=str(agent.path),
            env=agent.env,
            steps=agent.steps,
            mean=mean,
            low=low,
            high=high,
            episodes=judged.episodes,
            suite=judged.suite.name,
            total=summed,
            cells=cells,
        )
        return mean
    from rich.console import Console
    from rich.table import Table

    columns = list(dict.fromkeys(cell.column for cell, _ in judged.cells))
    table = Table(title=f"{judged.suite.name}: {agent.env} at step {agent.steps}", title_justify="left")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    for row in dict.fromkeys(cell.row for cell, _ in judged.cells):
        found = {cell.column: each for cell, each in judged.cells if cell.row == row}
        table.add_row(
            row,
            *(f"{each.mean:.2f} ± {(each.high - each.low) / 2:.2f}" for each in map(found.__getitem__, columns)),
        )
    Console().print(table)
    episodes = judged.cells[0][1].episodes
    print(f"sum {total[0]:.2f} (95 %: {total[1]:.2f} to {total[2]:.2f}), {episodes} episodes in each of {count} cells")
    return mean
