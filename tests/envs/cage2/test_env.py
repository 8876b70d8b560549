"""The env's options, action spaces, masks, features and infos."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hotloop

HOSTS = 13
OP_SERVER, USER1, USER2, USER4 = 7, 9, 10, 12


def make(num_envs: int = 1, *, infos: tuple[str, ...] = (), **options: Any) -> Any:
    envs = hotloop.make_vec("cage2", num_envs=num_envs, options=options, infos=infos)
    envs.reset(seed=0)
    return envs


def play_compact_and_full(steps: int, red: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Random compact actions, and the same in the full space by the documented mapping; gives both observations."""
    rng = np.random.default_rng(3)
    compact = make(64, red=red, actions="compact")
    full = make(64, red=red)
    seen: list[list[NDArray[Any]]] = [[], []]
    for _ in range(steps):
        actions = rng.integers(53, size=64)
        state = full.get_state()
        shown = [compact.step(actions), full.step(to_full(actions, state["decoys"]))]
        for each, (obs, reward, *_) in zip(seen, shown, strict=True):
            each.append(np.column_stack([obs, reward]))
    return np.stack(seen[0]), np.stack(seen[1])


# The mapping as docs/cage2.md has it: the first action of each decoy, and which are placed on a host in which order.
APACHE, FEMITTER, HARAKA, SMSS, SSHD, SVCHOST, TOMCAT = range(28, 119, 13)
LINUX = (HARAKA, TOMCAT, APACHE)
NEXT = (LINUX, LINUX, (FEMITTER,), (FEMITTER,), LINUX, LINUX, LINUX, LINUX, *[(TOMCAT, APACHE, SMSS, SVCHOST)] * 2)
NEXT = (*NEXT, (FEMITTER, TOMCAT, APACHE, SSHD), (SSHD,), ())


def to_full(actions: NDArray[Any], decoys: NDArray[Any]) -> NDArray[Any]:
    placed = np.unpackbits(decoys.astype(np.uint8)[..., None], axis=-1).sum(axis=-1)
    out = []
    for action, counts in zip(actions, placed, strict=True):
        part, host = divmod(int(action) - 1, HOSTS)
        first = (2, 15, 132)[part] if 0 <= part < 3 else None
        if action == 0:
            out.append(0)
        elif first is not None:
            out.append(first + host)
        else:
            left = NEXT[host][counts[host] :]
            out.append(left[0] + host if left else 0)
    return np.array(out)


@pytest.mark.parametrize("red", ["b-line", "meander"])
def test_the_compact_space_maps_to_the_full_one(red: str) -> None:
    compact, full = play_compact_and_full(90, red)
    assert (compact == full).all()


def test_what_the_mask_forbids_does_nothing() -> None:
    rng = np.random.default_rng(5)
    envs = make(256, red="mix", actions="compact", lengths=[0])
    other = make(256, red="mix", actions="compact", lengths=[0])
    _, info = envs.reset(seed=2)
    for _ in range(60):
        mask = info["action_mask"].astype(np.bool_)
        assert mask[:, 0].all()
        other.restore(envs.snapshot())
        masked = np.array([rng.choice(np.flatnonzero(~row)) for row in mask])
        restores = (masked >= 27) & (masked < 40)
        result, slept = other.step(masked), envs.step(np.zeros(256, np.int64))
        # A restore has its price; all else is as if blue had slept.
        assert (result[1] == slept[1] - restores).all()
        assert (result[0] == slept[0]).all()
        mine, theirs = envs.get_state(), other.get_state()
        assert [name for name in mine if (mine[name] != theirs[name]).any() and name != "restored"] == []
        actions = np.array([rng.choice(np.flatnonzero(row)) for row in mask])
        info = envs.step(actions)[4]


def test_a_full_space_has_no_mask() -> None:
    assert "action_mask" not in make().step([144])[4]


def test_episodes_are_truncated_at_lengths_drawn_from_the_list() -> None:
    envs = make(300, lengths=[30, 50, 100])
    ends = np.zeros(300, np.int64)
    for step in range(1, 101):
        _, _, terminated, truncated, _ = envs.step(np.zeros(300, np.int64))
        assert not terminated.any()
        ends = np.where(truncated & (ends == 0), step, ends)
    lengths, counts = np.unique(ends, return_counts=True)
    assert lengths.tolist() == [30, 50, 100]
    assert counts.min() > 60


def test_one_length_is_a_number_and_zero_never_ends() -> None:
    assert make(lengths=2).options["lengths"] == [2]
    envs = make(lengths=0)
    assert not any(envs.step([0])[3].any() for _ in range(300))


def test_a_mix_draws_its_red_agent_per_episode() -> None:
    envs = make(400, red="mix")
    agents = envs.get_state()["red"].ravel()
    assert set(agents.tolist()) == {0, 1}
    assert 150 < (agents == 0).sum() < 250
    assert set(make(400, red="b-line+meander+sleep").get_state()["red"].ravel().tolist()) == {0, 1, 2}


def test_infos_are_the_true_state() -> None:
    envs = make(red="b-line", infos=("access", "red_action", "ot"))
    envs.set_state({"choices": [[USER1, -1, -1, -1]], "bline_stage": [[0]]})
    info = envs.step([0])[4]
    assert info["access"][0].tolist() == [0] * 8 + [2] + [0] * 4
    sweep_of_the_user_subnet = [1, 0, 1, -1, -1]
    assert info["red_action"][0].tolist() == sweep_of_the_user_subnet
    assert info["ot"][0].tolist() == [1, 1, 0]
    restored = envs.step([132 + OP_SERVER])[4]
    assert restored["ot"][0].tolist() == [1, 0, 0]


def test_injected_choices_hold_for_one_step() -> None:
    envs = make(200, red="meander", infos=("red_action",))
    envs.step(np.zeros(200, np.int64))
    envs.set_state({"choices": [[USER4, -1, -1, -1]] * 200})
    assert (envs.step(np.zeros(200, np.int64))[4]["red_action"][:, 1] == USER4).all()
    assert len(np.unique(envs.step(np.zeros(200, np.int64))[4]["red_action"][:, 1])) > 2


def test_memory_adds_features_that_follow_from_the_episode_so_far() -> None:
    envs = make(red="b-line", features="memory", actions="compact")
    assert envs.single_observation_space.shape == (52 + 1 + 5 * HOSTS,)

    def notes(action: int) -> NDArray[Any]:
        table: NDArray[Any] = envs.step([action])[0][0, 53:].reshape(HOSTS, 5).T
        return table

    decoy_on_server = 1 + 3 * HOSTS + OP_SERVER
    notes(decoy_on_server)
    envs.set_state({"choices": [[USER2, -1, -1, -1]]})
    decoy_on_user = 1 + 3 * HOSTS + USER2
    seen, recent, restored, decoys, listed = notes(decoy_on_user)
    assert np.flatnonzero(seen).tolist() == np.flatnonzero(recent).tolist() == [USER2]
    assert recent[USER2] == 1
    assert (decoys[OP_SERVER], decoys[USER2], listed[USER2]) == (0.25, 0.25, 0.25)
    assert not restored.any()
    envs.set_state({"bline_stage": [[3]]})
    _, recent, restored, decoys, _ = notes(1 + 2 * HOSTS + OP_SERVER)
    assert recent[USER2] == 0.5
    assert (restored[OP_SERVER], decoys[OP_SERVER]) == (1, 0)
    _, _, restored, decoys, listed = notes(1 + 2 * HOSTS + USER2)
    assert (restored[USER2], decoys[USER2], listed[USER2]) == (1, 0, 0.25)


def test_memory_has_a_clock() -> None:
    envs = make(red="sleep", features="memory", lengths=[3])
    seen = [envs.reset(seed=0)[0][0, 52], *(envs.step([0])[0][0, 52] for _ in range(4))]
    np.testing.assert_array_equal(seen, 1 / np.array([1, 2, 3, 4, 1], np.float32))


def test_rewards_are_the_recorded_decimals() -> None:
    """Every reward there can be is the float nearest to its decimal, though it is summed from three terms."""
    envs = make(1, red="sleep")
    users, servers = [9, 10, 11, 12, 4, 5, 6, 0], [1, 2, 3, OP_SERVER]
    for cheap in range(len(users) + 1):
        for dear in range(len(servers) + 1):
            privileged = np.zeros((1, HOSTS), np.uint8)
            privileged[0, [8, *users[:cheap], *servers[:dear]]] = 1
            for up in (0, 1):
                for restore in (0, 1):
                    envs.set_state({"privileged": privileged, "ot_up": [[up]]})
                    # User0 stays privileged, so restoring it changes nothing that costs.
                    reward = envs.step([140 if restore else 0])[1][0]
                    assert reward == np.float32(-round(cheap * 0.1 + dear + 10 * (1 - up) + restore, 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"red": "bline"}, 'red is "bline": there is no red agent "bline"; expected b-line, meander, sleep, several'),
        ({"red": "b-line+"}, 'there is no red agent ""'),
        ({"variant": "official2"}, '"variant" of cage2 is "official2": expected one of official, challenge2'),
        ({"lengths": [30, -1]}, r"\"lengths\" of cage2 is \[30, -1\]: expected 0 to 100000"),
        ({"lengths": []}, '"lengths" of cage2 is .*: expected at least one number'),
        ({"actions": "small"}, '"actions" of cage2 is "small": expected one of full, compact'),
        ({"features": "all"}, '"features" of cage2 is "all": expected one of bits, memory'),
        ({"gren": True}, 'cage2 has no option "gren"; did you mean "green"?'),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**options)


@pytest.mark.parametrize(("options", "action"), [({}, 145), ({"actions": "compact"}, 53), ({}, -1)])
def test_actions_out_of_range_are_refused(options: dict[str, Any], action: int) -> None:
    with pytest.raises(ValueError, match=f"row 0 is {action}"):
        make(**options).step([action])


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"privileged": [[0] * 13]}, "red never loses its foothold"),
        ({"red": [[3]]}, "red is 3: expected 0 to 2"),
        ({"red_action": [[2, 13, 1, -1, -1]]}, "target is 13: expected 0 to 12"),
        ({"bline_stage": [[2]], "bline_user": [[0]]}, "bline_user is 0: expected 9 to 12"),
        ({"choices": [[13, -1, -1, -1]]}, "choices' target is 13"),
    ],
)
def test_impossible_states_are_refused(state: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make().set_state(state)
