//! The true state of the network: sessions, files, decoys and the OT service. Red and blue act on it.

use super::network::{FOOTHOLD, HOSTS, NETWORK, OP_SERVER, OPERATIONAL, SERVERS};

/// The true state of the network.
#[derive(Clone, Copy)]
pub struct World {
    /// Hosts with a privileged session of red.
    pub privileged: u16,
    /// Hosts with a user session that Remove ends.
    pub removable: u16,
    /// Hosts with a user session that Remove does not end.
    pub sticky: u16,
    /// Hosts with a file that Analyse finds.
    pub malware: u16,
    /// Ports that decoys hold open, by host.
    pub decoys: [u8; HOSTS],
    /// Whether the OT service runs.
    pub ot_up: bool,
    /// Whether Impact still stops it: restoring the server loses track of the process that would be killed.
    pub ot_killable: bool,
}

impl World {
    pub const START: Self = Self {
        privileged: 1 << FOOTHOLD,
        removable: 0,
        sticky: 0,
        malware: 0,
        decoys: [0; HOSTS],
        ot_up: true,
        ot_killable: true,
    };

    /// Hosts on which red has any session.
    pub fn sessions(&self) -> u16 {
        self.privileged | self.removable | self.sticky
    }

    /// Whether red can reach a host of this set, all of one subnet.
    pub fn reachable(&self, hosts: u16) -> bool {
        hosts & OPERATIONAL == 0 || self.sessions() & SERVERS != 0
    }

    /// Ports of a host that invite exploits.
    pub fn open(&self, host: usize) -> u8 {
        NETWORK[host].open | self.decoys[host]
    }

    /// Ends all that red and blue have put on a host; the foothold comes back at once.
    pub fn restore(&mut self, host: usize) {
        let kept = !(1 << host);
        self.privileged = self.privileged & kept | 1 << FOOTHOLD;
        self.removable &= kept;
        self.sticky &= kept;
        self.malware &= kept;
        self.decoys[host] = 0;
        if host == OP_SERVER {
            self.ot_up = true;
            self.ot_killable = false;
        }
    }

    /// Red's level on a host: 0 none, 1 user, 2 privileged.
    pub fn access(&self, host: usize) -> u8 {
        let has = |set: u16| (set >> host & 1) as u8;
        if has(self.privileged) == 1 { 2 } else { has(self.removable | self.sticky) }
    }

    /// Cost of the privileged sessions in a step.
    pub fn confidentiality(&self) -> f32 {
        const DEAR: u16 = SERVERS | 1 << OP_SERVER;
        const CHEAP: u16 = !DEAR & !(1 << FOOTHOLD);
        let tenths = (self.privileged & CHEAP).count_ones() + 10 * (self.privileged & DEAR).count_ones();
        tenths as f32 / 10.0
    }
}
