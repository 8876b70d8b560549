//! Stored transitions: batches and the replay buffer.

use hotloop_core::codec::{Reader, Writer};
use hotloop_core::error::Result;

/// A transition. It holds states instead of rows, which move when a table grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transition {
    /// State.
    pub state: u64,
    /// Action.
    pub action: usize,
    /// Reward.
    pub reward: f32,
    /// Next state.
    pub next: u64,
    /// Legal actions in the next state, a bit each.
    pub legal: u64,
    /// Action chosen in the next state, for SARSA.
    pub next_action: usize,
    /// 1, or 0 if the episode ended.
    pub nonterminal: f32,
}

impl Transition {
    fn save(&self, out: &mut Writer) {
        out.u64(self.state);
        out.u32(self.action as u32);
        out.f32(self.reward);
        out.u64(self.next);
        out.u64(self.legal);
        out.u32(self.next_action as u32);
        out.f32(self.nonterminal);
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            state: from.u64()?,
            action: from.u32()? as usize,
            reward: from.f32()?,
            next: from.u64()?,
            legal: from.u64()?,
            next_action: from.u32()? as usize,
            nonterminal: from.f32()?,
        })
    }
}

/// A ring buffer of transitions.
#[derive(Default)]
pub struct ReplayBuffer {
    transitions: Vec<Transition>,
    oldest: usize,
}

impl ReplayBuffer {
    /// Add a transition; it replaces the oldest if the buffer holds `capacity`.
    pub fn push(&mut self, transition: Transition, capacity: usize) {
        if self.transitions.len() < capacity {
            self.transitions.push(transition);
        } else {
            self.transitions[self.oldest] = transition;
            self.oldest = (self.oldest + 1) % capacity;
        }
    }

    /// Sample a transition with 32 random bits.
    pub fn sample(&self, bits: u32) -> Transition {
        self.transitions[((u64::from(bits) * self.transitions.len() as u64) >> 32) as usize]
    }

    /// All transitions, in memory order.
    pub fn into_transitions(self) -> Vec<Transition> {
        self.transitions
    }

    /// Write the checkpointed state.
    pub fn save(&self, out: &mut Writer) {
        out.u64(self.oldest as u64);
        out.u64(self.transitions.len() as u64);
        self.transitions.iter().for_each(|transition| transition.save(out));
    }

    /// Read the checkpointed state.
    pub fn load(from: &mut Reader<'_>) -> Result<Self> {
        let oldest = from.u64()? as usize;
        let count = from.u64()? as usize;
        Ok(Self { transitions: (0..count).map(|_| Transition::load(from)).collect::<Result<_>>()?, oldest })
    }
}
