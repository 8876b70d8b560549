"""The table of keys in the documentation is the one that the models declare."""

from pathlib import Path

from pydantic_core import PydanticUndefined

from hotloop.config.models import Config, Part


def shown(default: object) -> str:
    if default is PydanticUndefined:
        return ""
    return "`null`" if default is None else f"`{str(default).lower()}`"


def test_every_key_is_documented_as_it_is_declared(repository: Path) -> None:
    rows = []
    for part, field in Config.model_fields.items():
        kind = field.annotation
        assert isinstance(kind, type)
        assert issubclass(kind, Part)
        for name, key in kind.model_fields.items():
            default = shown(key.get_default(call_default_factory=True))
            rows.append(f"| `{part}.{name}` | {default} | {key.description} |")
    _, _, table = (
        (repository / "docs" / "training.md").read_text().partition("| key | default | meaning |\n|---|---|---|\n")
    )
    assert table.splitlines() == rows
