//! Everything random, in one place: drawn from the env's stream, or injected through the state field `choices`.

use hotloop_core::env::Rng;

use super::network::{EXPLOIT_IDS, SERVERS, SUBNETS, USER_SUBNET, favourite};

/// Draws of a step, by number.
const TARGET: u32 = 0;
const EXPLOIT: u32 = 1;
const DETECTION: u32 = 2;
const GREEN: u32 = 3;
/// An exploit that shows, 19 times of 20.
const DETECTED_BELOW: u32 = 4_080_218_931;
/// Green scans one of these eight.
const GREEN_HOSTS: u16 = SERVERS | SUBNETS[USER_SUBNET];

/// Choices injected into the next step: red's target, the challenge's number of red's exploit, whether it is detected,
/// and the host that green scans (13: none). A negative number, or a choice that is not
/// open, is drawn at random.
pub type Injected = [i32; 4];
pub const CHANCE: Injected = [-1; 4];
pub const NO_HOST: i32 = 13;

/// The random choices of one step.
pub struct Choices<'a> {
    pub rng: &'a Rng,
    pub injected: Injected,
}

impl Choices<'_> {
    /// One host of a set that is not empty.
    pub fn target(&self, hosts: u16) -> usize {
        let wanted = self.injected[0];
        if (0..16).contains(&wanted) && hosts >> wanted & 1 == 1 {
            return wanted as usize;
        }
        let nth = self.rng.draws().below(TARGET, hosts.count_ones());
        (0..nth).fold(hosts, |left, _| left & (left - 1)).trailing_zeros() as usize
    }

    /// One port of a set that is not empty: the favourite three times of four, else any other.
    pub fn exploit(&self, ports: u8) -> u8 {
        let injected = EXPLOIT_IDS.iter().position(|id| *id == self.injected[1]).map_or(0, |bit| 1 << bit);
        if ports & injected != 0 {
            return injected;
        }
        let best = favourite(ports);
        let others = ports & !best;
        if others == 0 {
            return best;
        }
        let bits = self.rng.draws().bits(EXPLOIT);
        if bits < 3 << 30 {
            return best;
        }
        let nth = (u64::from(bits << 2) * u64::from(others.count_ones())) >> 32;
        let left = (0..nth).fold(others, |left, _| left & (left - 1));
        left & left.wrapping_neg()
    }

    /// Whether an exploit shows.
    pub fn detected(&self) -> bool {
        match self.injected[2] {
            0 => false,
            1 => true,
            _ => self.rng.draws().bits(DETECTION) < DETECTED_BELOW,
        }
    }

    /// The host that green scans, half of the time.
    pub fn green(&self) -> Option<usize> {
        let wanted = self.injected[3];
        if wanted == NO_HOST {
            return None;
        }
        if (0..16).contains(&wanted) && GREEN_HOSTS >> wanted & 1 == 1 {
            return Some(wanted as usize);
        }
        let bits = self.rng.draws().bits(GREEN);
        let hosts = (0..bits >> 28 & 7).fold(GREEN_HOSTS, |left, _| left & (left - 1));
        (bits >> 31 == 1).then_some(hosts.trailing_zeros() as usize)
    }
}
