"""A sweep is drawn with a panel for everything it knows."""

from pathlib import Path

import pytest

from hotloop.errors import ConfigError
from hotloop.sweeps.plot import plot_sweep
from tests.sweeps.small import RATE, finish, new_sweep


def test_a_picture_has_every_dimension(tmp_path: Path) -> None:
    from PIL import Image

    space = {
        **RATE,
        "ppo.epochs": "int(1, 2)",
        "ppo.gamma": "log1m(0.9, 0.99)",
        "policy.activation": "choice(tanh, relu)",
    }
    one, two = tmp_path / "one.png", tmp_path / "two.png"
    with pytest.raises(ConfigError, match="has no trial to plot yet"):
        plot_sweep(new_sweep(tmp_path, "empty", trials=2, sampler="sobol"), one)
    plot_sweep(finish(new_sweep(tmp_path, "small", trials=4, sampler="sobol")), one)
    plot_sweep(
        finish(new_sweep(tmp_path, "large", space={**space, "ppo.clip": "real(0.1, 0.3)"}, trials=4, sampler="sobol")),
        two,
    )
    with Image.open(one) as small, Image.open(two) as large:
        # A further row of slices.
        assert large.height > small.height
        assert len(large.convert("RGB").getcolors(1 << 24) or []) > 50
