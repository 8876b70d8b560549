//! Transitions that are kept: until a batch is full, or to be learned from again.

use hotloop_core::codec::{Reader, Writer};
use hotloop_core::error::Result;

/// One transition, by states and not by rows, which move when a table grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transition {
    /// Where it began.
    pub state: u64,
    /// What was done.
    pub action: usize,
    /// What it earned.
    pub reward: f32,
    /// Where it led.
    pub next: u64,
    /// What may be done there.
    pub legal: u64,
    /// What was done there, as far as that matters.
    pub next_action: usize,
    /// 1, or 0 if the episode ended there.
    pub alive: f32,
}

impl Transition {
    fn save(&self, out: &mut Writer) {
        out.u64(self.state);
        out.u32(self.action as u32);
        out.f32(self.reward);
        out.u64(self.next);
        out.u64(self.legal);
        out.u32(self.next_action as u32);
        out.f32(self.alive);
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            state: from.u64()?,
            action: from.u32()? as usize,
            reward: from.f32()?,
            next: from.u64()?,
            legal: from.u64()?,
            next_action: from.u32()? as usize,
            alive: from.f32()?,
        })
    }
}

/// The last so many transitions.
#[derive(Default)]
pub struct Replay {
    kept: Vec<Transition>,
    oldest: usize,
}

impl Replay {
    /// Keeps one more; the oldest goes if there are `most`.
    pub fn push(&mut self, transition: Transition, most: usize) {
        if self.kept.len() < most {
            self.kept.push(transition);
        } else {
            self.kept[self.oldest] = transition;
            self.oldest = (self.oldest + 1) % most;
        }
    }

    /// Any of them, by 32 random bits.
    pub fn pick(&self, bits: u32) -> Transition {
        self.kept[((u64::from(bits) * self.kept.len() as u64) >> 32) as usize]
    }

    /// All of them, as they were pushed.
    pub fn into_kept(self) -> Vec<Transition> {
        self.kept
    }

    /// For a checkpoint.
    pub fn save(&self, out: &mut Writer) {
        out.u64(self.oldest as u64);
        out.u64(self.kept.len() as u64);
        self.kept.iter().for_each(|transition| transition.save(out));
    }

    /// From a checkpoint.
    pub fn load(from: &mut Reader<'_>) -> Result<Self> {
        let oldest = from.u64()? as usize;
        let count = from.u64()? as usize;
        Ok(Self { kept: (0..count).map(|_| Transition::load(from)).collect::<Result<_>>()?, oldest })
    }
}
