"""Recorded episodes of the real simulator, played back with its random choices injected: nothing may differ."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotloop.integrations.cyborg import replay

DATA = Path(__file__).parents[2] / "data" / "cage2"
RECORDINGS = {
    "sleep": "sleep",
    "bline": "b-line",
    "bline_focus": "b-line",
    "meander": "meander",
    "meander_same": "meander",
}


def recording(name: str) -> dict[str, Any]:
    with np.load(DATA / f"{name}.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize("variant", ["official", "challenge2"])
@pytest.mark.parametrize("name", RECORDINGS)
def test_every_recorded_episode_replays_without_a_difference(name: str, variant: str) -> None:
    assert replay(recording(name), RECORDINGS[name], variant=variant) == []


def test_a_recording_that_was_tampered_with_is_found_out() -> None:
    trace = recording("bline")
    trace["rew"][3, 50] -= 1
    trace["obs"][5, 11, 7] ^= 1
    found = replay(trace, "b-line")
    assert [(x.what, x.episode, x.step) for x in found] == [("observation", 5, 10), ("reward", 3, 50)]
    assert str(found[1]).startswith("reward differs in episode 3 at step 50: recorded ")


def test_the_wrappers_differ_where_a_decoy_meets_a_scan() -> None:
    traces = [recording(name) for name in RECORDINGS]
    assert sum((trace["obs"] != trace["obs_cw2"]).any(axis=2).sum() for trace in traces) > 0
    assert replay(recording("meander"), "meander", variant="official") == []
    swapped = recording("meander")
    swapped["obs"] = swapped["obs_cw2"]
    recorded = recording("meander")
    assert bool(replay(swapped, "meander")) == bool((recorded["obs"] != recorded["obs_cw2"]).any())


def test_a_trace_of_another_action_space_is_refused() -> None:
    trace = recording("bline")
    trace["act"][0, 0] = 145
    with pytest.raises(ValueError, match="act holds 145: the trace is of another action space; expected the"):
        replay(trace, "b-line")


def test_a_trace_that_lacks_something_is_refused() -> None:
    trace = recording("bline")
    del trace["red_det"]
    with pytest.raises(ValueError, match="the trace has no red_det"):
        replay(trace, "b-line")
    trace = recording("bline")
    trace["obs"] = trace["obs"][:, 1:]
    with pytest.raises(ValueError, match=r"obs has shape \(24, 100, 52\): expected \(24, 101, 52\)"):
        replay(trace, "b-line")


def test_a_trace_of_an_unknown_red_agent_is_refused() -> None:
    with pytest.raises(ValueError, match="red is 'mix': a recording has one of b-line, meander, sleep"):
        replay(recording("bline"), "mix")
