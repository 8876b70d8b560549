"""Groups of a worker pool: each has one state, and only the named transitions change it."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hotloop.runners.group_state import GroupState, GroupStates

COUNT = 4
GROUPS = st.integers(0, COUNT - 1)


def test_a_group_of_a_healthy_worker_goes_out_and_comes_back() -> None:
    states = GroupStates(2)
    assert states.send(1)
    assert (states[1], states.in_flight, states.steady) == (GroupState.BUSY, [1], True)
    states.receive([1])
    assert (states[1], states.in_flight) == (GroupState.IDLE, [])


def test_a_group_that_is_lost_in_flight_comes_back_recovered() -> None:
    states = GroupStates(2)
    states.send(0)
    states.lose([0, 1])
    assert states.unavailable([0])
    assert not states.deliver(2)
    for group in (0, 1):
        states.start_reset(group)
        states.finish_reset(group)
    # Group 1 was not in flight: it is delivered when it is sent next, without going to its worker.
    assert states.deliver(2) == [0]
    assert not states.steady
    assert not states.send(1)
    assert states.deliver(2) == [1]
    assert states.steady


def test_a_reset_makes_recovered_groups_idle() -> None:
    states = GroupStates(1)
    states.lose([0])
    states.start_reset(0)
    states.finish_reset(0)
    states.accept()
    assert states.steady
    assert states.send(0)


def test_other_transitions_are_bugs() -> None:
    with pytest.raises(AssertionError, match=r"IDLE, not GroupState\.LOST"):
        GroupStates(1).start_reset(0)
    states = GroupStates(1)
    states.lose([0])
    with pytest.raises(AssertionError, match=r"LOST, not GroupState\.RESETTING"):
        states.finish_reset(0)


class Pool(RuleBasedStateMachine):
    """A pool whose workers are lost and replaced at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.states = GroupStates(COUNT)
        self.sent: list[int] = []
        self.received: list[int] = []

    def of(self, state: GroupState) -> list[int]:
        return [group for group in range(COUNT) if self.states[group] is state]

    @rule(group=GROUPS)
    def send(self, group: int) -> None:
        if group not in self.states.in_flight:
            idle = self.states[group] is GroupState.IDLE
            assert self.states.send(group) == idle
            self.sent.append(group)

    @precondition(lambda self: not self.states.in_flight and self.states.steady)
    @rule()
    def send_all(self) -> None:
        self.states.send_all()
        self.sent += range(COUNT)

    @rule(data=st.data())
    def receive(self, data: st.DataObject) -> None:
        if busy := self.of(GroupState.BUSY):
            groups = data.draw(st.lists(st.sampled_from(busy), unique=True))
            self.states.receive(groups)
            self.received += groups

    @rule(groups=st.sets(GROUPS))
    def lose(self, groups: set[int]) -> None:
        self.states.lose(groups)

    @rule(group=GROUPS)
    def reset(self, group: int) -> None:
        if self.states[group] is GroupState.LOST:
            self.states.start_reset(group)
        elif self.states[group] is GroupState.RESETTING:
            self.states.finish_reset(group)

    @rule(limit=st.integers(0, COUNT))
    def deliver(self, limit: int) -> None:
        found = self.states.deliver(limit)
        assert len(found) <= limit
        self.received += found

    @invariant()
    def every_group_that_was_sent_is_in_flight_or_was_received_once(self) -> None:
        assert sorted(self.sent) == sorted(self.received + self.states.in_flight)

    @invariant()
    def busy_groups_are_in_flight_and_steady_pools_have_only_idle_and_busy_ones(self) -> None:
        busy, idle = self.of(GroupState.BUSY), self.of(GroupState.IDLE)
        assert set(busy) <= set(self.states.in_flight)
        assert not set(idle) & set(self.states.in_flight)
        assert self.states.steady == (len(busy) + len(idle) == COUNT)


TestPool = Pool.TestCase
TestPool.settings = settings(max_examples=50, stateful_step_count=40)
