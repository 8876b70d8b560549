"""Layers of the package: a module imports from its own layer's packages and from those below, never from above."""

import ast
from collections.abc import Iterator
from pathlib import Path

import hotloop

PACKAGE = Path(hotloop.__file__).parent

# Each package (or module of the root) with those it may import from, besides itself. Function-level imports and those
# for type checking count, too.
BASE = {"errors", "text", "code", "files", "lazy", "_core"}
ENVS = BASE | {"envs"}
CONFIG = ENVS | {"config"}
RUNNERS = ENVS | {"runners"}
POLICIES = CONFIG | RUNNERS | {"policies"}
LEARNERS = POLICIES | {"ppo", "tabular"}
SHOWN = POLICIES | {"rendering", "episodes"}
TRAINING = LEARNERS | SHOWN | {"make", "training", "tracking", "loading"}
ABOVE = TRAINING | {"export", "integrations", "league", "sweeps", "orchestrator", "cluster"}
ALLOWED = {
    "errors": set(),
    "text": set(),
    "files": set(),
    "lazy": set(),
    "code": BASE,
    "config": CONFIG,
    "envs": ENVS,
    "runners": RUNNERS,
    "policies": POLICIES,
    "ppo": POLICIES,
    "tabular": POLICIES,
    "tracking": CONFIG,
    "make": SHOWN,
    "rendering": SHOWN,
    "episodes": SHOWN,
    "training": TRAINING,
    "loading": TRAINING,
    "export": TRAINING,
    "integrations": TRAINING,
    "league": ABOVE,
    "sweeps": ABOVE,
    "orchestrator": ABOVE,
    "cluster": ABOVE,
    "server": ABOVE | {"server", "hotloop"},
    "bench": ABOVE | {"bench", "hotloop"},
    "cli": ABOVE | {"server", "bench", "cli", "hotloop", "__version__"},
}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Lines and names of everything that a module imports of this package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            names = [f"{node.module}.{alias.name}" if node.module == "hotloop" else node.module for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "hotloop")


def layer(parts: tuple[str, ...]) -> str:
    return parts[0].removesuffix(".py")


def test_packages_import_from_their_own_layer_and_below_only() -> None:
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        own = layer(path.relative_to(PACKAGE).parts)
        if own in ("__init__", "__main__"):
            continue
        for line, name in imports(path):
            _, *parts = name.split(".")
            used = parts[0] if parts else "hotloop"
            if used != own and used not in ALLOWED[own]:
                found.add(f"{path.relative_to(PACKAGE.parent)}:{line} imports {name}: {own} stands below {used}")
    assert not found, "\n".join(sorted(found))
