//! The red agent that goes straight for the OT service.

use super::choices::Choices;
use super::network::{ENTERPRISE_SUBNET, OP_SERVER, USER_SUBNET};
use super::red::{ESCALATE, EXPLOIT, IMPACT, Knowledge, RedAction, SCAN, SWEEP};

/// Next stage after a failure at each stage.
const FALL_BACK: [u8; 15] = [0, 1, 2, 2, 2, 2, 5, 5, 5, 5, 9, 9, 9, 12, 13];
const LAST_STAGE: u8 = 14;
const SCAN_USER: u8 = 1;
const EXPLOIT_OP_SERVER: u8 = 12;
const ENTERPRISE2: usize = 3;
/// User1 to User4.
const WAYS_IN: u16 = 0b1_1110_0000_0000;

/// State of the agent.
#[derive(Clone, Copy)]
pub struct BLine {
    pub stage: u8,
    /// The user host it goes through; 0 until it is chosen.
    pub user: u8,
    /// Whether it has tried to exploit the operational server.
    pub arrived: bool,
}

impl BLine {
    pub const START: Self = Self { stage: 0, user: 0, arrived: false };

    /// The next action, given the result of the last.
    pub fn choose(&mut self, last: RedAction, known: &Knowledge, choices: &Choices<'_>) -> RedAction {
        let stage = usize::from(self.stage);
        self.stage = if last.succeeded() { (self.stage + 1).min(LAST_STAGE) } else { FALL_BACK[stage] };
        if self.stage == EXPLOIT_OP_SERVER && !self.arrived {
            if known.found {
                self.arrived = true;
            } else {
                self.stage = SCAN_USER;
            }
        }
        if self.stage == SCAN_USER && self.user == 0 {
            self.user = choices.target(WAYS_IN) as u8;
        }
        let user = usize::from(self.user);
        // User1 and User2 lead to Enterprise1, the others to Enterprise0.
        let enterprise = if user <= 10 { 2 } else { 1 };
        let (kind, target) = match self.stage {
            0 => (SWEEP, USER_SUBNET),
            1 => (SCAN, user),
            2 => (EXPLOIT, user),
            3 => (ESCALATE, user),
            4 => (SCAN, enterprise),
            5 => (EXPLOIT, enterprise),
            6 => (ESCALATE, enterprise),
            7 => (SWEEP, ENTERPRISE_SUBNET),
            8 => (SCAN, ENTERPRISE2),
            9 => (EXPLOIT, ENTERPRISE2),
            10 => (ESCALATE, ENTERPRISE2),
            11 => (SCAN, OP_SERVER),
            12 => (EXPLOIT, OP_SERVER),
            13 => (ESCALATE, OP_SERVER),
            _ => (IMPACT, OP_SERVER),
        };
        RedAction::of(kind, target)
    }
}
