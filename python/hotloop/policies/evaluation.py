"""The result of an evaluation: statistics of the returns and lengths of episodes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Evaluation:
    """The mean return of some episodes, and where the true mean lies with 95 % confidence."""

    mean: float
    low: float
    high: float
    std: float
    episodes: int
    length_mean: float
    metrics: dict[str, float]
    """Means of what the env counts, `success` among it where the env defines that."""
    return_min: float = math.nan
    return_median: float = math.nan
    return_max: float = math.nan
    length_min: float = math.nan
    length_max: float = math.nan
    exact: bool = field(default=False, kw_only=True)
    """Whether it was worked out by enumeration, without playing."""

    @classmethod
    def of(cls, returns: NDArray[Any], lengths: NDArray[Any], metrics: dict[str, NDArray[Any]]) -> Evaluation:
        """Return the statistics of episodes, an entry each; metrics that an episode does not have are NaN."""
        count = len(returns)
        if not count:
            return cls(math.nan, math.nan, math.nan, math.nan, 0, math.nan, {})
        exact = returns.astype(np.float64)
        mean = math.fsum(exact) / count
        std = math.sqrt(math.fsum((exact - mean) ** 2) / (count - 1)) if count > 1 else 0.0
        margin = student_quantile(count - 1) * std / math.sqrt(count)
        known = {name: values[~np.isnan(values)] for name, values in metrics.items()}
        means = {name: math.fsum(values) / len(values) for name, values in known.items() if len(values)}
        return cls(
            mean,
            mean - margin,
            mean + margin,
            std,
            count,
            float(lengths.mean()),
            means,
            *(float(part(exact)) for part in (np.min, np.median, np.max)),
            *(float(part(lengths)) for part in (np.min, np.max)),
        )


def student_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t, by Cornish and Fisher's expansion, which is within 0.2 % from 3 on."""
    if freedom < 1:
        return 0.0
    if freedom < 3:
        return (12.706, 4.303)[freedom - 1]
    z = 1.959963984540054
    n = float(freedom)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    )
