"""The Rust on the page "Write a native env" is what stands in the sources."""

import re
from pathlib import Path

RUST_BLOCK = re.compile(r"^```rust\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_rust_block_is_in_the_sources(repository: Path) -> None:
    crate = repository / "crates" / "hotloop-envs"
    sources = [path.read_text() for path in sorted(crate.rglob("*.rs"))]
    blocks = RUST_BLOCK.findall((repository / "docs" / "native-env.md").read_text())
    assert len(blocks) > 10
    for block in blocks:
        assert any(block in source for source in sources), block
