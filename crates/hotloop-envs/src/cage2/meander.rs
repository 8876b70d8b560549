//! The red agent that takes every host it finds, subnet by subnet.

use super::choices::Choices;
use super::network::{ENTERPRISE_SUBNET, FOOTHOLD, OP_SERVER, OPERATIONAL, OPERATIONAL_SUBNET, SERVERS, USER_SUBNET};
use super::red::{ESCALATE, EXPLOIT, IMPACT, Knowledge, RedAction, SCAN, SWEEP};

const ORDER: [usize; 3] = [ENTERPRISE_SUBNET, OPERATIONAL_SUBNET, USER_SUBNET];

/// State of the agent, sets of hosts but for the first.
#[derive(Clone, Copy)]
pub struct Meander {
    pub swept: u8,
    pub scanned: u16,
    /// Exploited, as far as it remembers.
    pub exploited: u16,
    /// Escalated, as far as it remembers.
    pub escalated: u16,
    /// Ever exploited.
    pub mastered: u16,
}

impl Meander {
    pub const START: Self = Self { swept: 0, scanned: 0, exploited: 0, escalated: 0, mastered: 0 };

    /// The next action, given the result of the last.
    pub fn choose(&mut self, last: RedAction, known: &Knowledge, choices: &Choices<'_>) -> RedAction {
        self.learn(last);
        if self.escalated >> OP_SERVER & 1 == 1 {
            return RedAction::of(IMPACT, OP_SERVER);
        }
        let unswept = known.subnets & !self.swept;
        if let Some(subnet) = ORDER.into_iter().find(|subnet| unswept >> subnet & 1 == 1) {
            self.swept |= 1 << subnet;
            return RedAction::of(SWEEP, subnet);
        }
        let unscanned = known.addresses & !self.scanned;
        if unscanned != 0 {
            let host = choices.target(unscanned);
            self.scanned |= 1 << host;
            return RedAction::of(SCAN, host);
        }
        let named = self.mastered | 1 << FOOTHOLD;
        let held = named & !self.escalated & !(self.mastered & !self.exploited);
        if held != 0 {
            let host = choices.target(held);
            self.escalated |= 1 << host;
            return RedAction::of(ESCALATE, host);
        }
        let left = known.addresses & !self.exploited;
        if left != 0 {
            let host = choices.target(left);
            self.exploited |= 1 << host;
            return RedAction::of(EXPLOIT, host);
        }
        RedAction::NONE
    }

    fn learn(&mut self, last: RedAction) {
        match last.kind {
            EXPLOIT if last.succeeded() => self.mastered |= last.host(),
            EXPLOIT => {
                self.exploited &= !last.host();
                let farthest =
                    [OPERATIONAL, SERVERS].map(|hosts| hosts & self.escalated).into_iter().find(|hosts| *hosts != 0);
                let forgotten = farthest.unwrap_or(0);
                self.escalated &= !forgotten;
                self.exploited &= !forgotten;
            }
            ESCALATE | IMPACT if !last.succeeded() => {
                self.escalated &= !last.host();
                self.exploited &= !(last.host() & self.mastered);
            }
            _ => {}
        }
    }
}
