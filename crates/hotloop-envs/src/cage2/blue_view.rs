//! Blue's view of the network: a step's events become activity, activity and blue's own actions become beliefs.

use super::network::{HOSTS, NETWORK};
use super::world::World;

/// Connections seen on one host in one step.
#[derive(Clone, Copy)]
pub struct Events {
    /// Number of connections.
    pub count: u8,
    ports: u8,
    others: u8,
    /// Whether one goes to red's listening port, from a port of its own.
    shell: bool,
}

impl Events {
    pub const NONE: Self = Self { count: 0, ports: 0, others: 0, shell: false };

    /// As many connections to one port.
    pub fn on(port: u8, count: u8) -> Self {
        Self { count, ports: port, ..Self::NONE }
    }

    /// A connection to every open port. Where several share a number the count is too low, but never across a threshold.
    pub fn scan(world: &World, host: usize) -> Self {
        let (ports, others) = (world.open(host), NETWORK[host].others);
        Self { count: ports.count_ones() as u8 + others, ports, others, shell: false }
    }

    /// A connection back to red.
    pub fn open_shell(&mut self) {
        self.shell = true;
        self.count += 1;
    }

    /// Both in the same step.
    pub fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            ports: self.ports | other.ports,
            others: self.others.max(other.others),
            shell: self.shell | other.shell,
        }
    }

    /// The activity that they are classified as; `placed` if blue put a decoy on the host in the same step, which counts as one more.
    pub fn activity(self, placed: bool, decoys_show: bool) -> Activity {
        let count = self.count + u8::from(placed);
        let distinct = self.ports.count_ones() as u8 + self.others + u8::from(self.shell);
        match (self.count, count >= 3) {
            (0, _) => Activity::None,
            (_, true) if distinct >= 3 => Activity::Scan,
            _ if self.shell => Activity::Exploit,
            (_, true) if distinct == 1 => Activity::Exploit,
            _ if placed && !decoys_show => Activity::None,
            _ => Activity::Scan,
        }
    }
}

/// Apparent activity on a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    None,
    Scan,
    Exploit,
}

/// Blue's view of the network, in sets of hosts: two bits per host each for activity and belief, as observations show
/// them, and a history of each host.
#[derive(Clone, Copy)]
pub struct BlueView {
    /// Scan or exploit in this step.
    pub active: u16,
    /// Exploit in this step.
    pub exploit: u16,
    /// Belief, first bit: unknown or privileged.
    pub unsure: u16,
    /// Belief, second bit: user or privileged.
    pub taken: u16,
    /// Activity was seen, or a decoy was placed, in this episode.
    pub touched: u16,
    /// Activity was seen in this episode.
    pub seen: u16,
    /// Restored in this episode.
    pub restored: u16,
    /// Steps since activity was seen at each host, saturating at 255.
    pub ages: [u8; HOSTS],
    /// Ports that decoys held open when activity was first seen at each host: those that red knows.
    pub listed: [u8; HOSTS],
}

impl BlueView {
    pub const START: Self = Self {
        active: 0,
        exploit: 0,
        unsure: 0,
        taken: 0,
        touched: 0,
        seen: 0,
        restored: 0,
        ages: [u8::MAX; HOSTS],
        listed: [0; HOSTS],
    };

    /// A step begins: nothing is seen yet.
    pub fn blink(&mut self) {
        self.active = 0;
        self.exploit = 0;
        self.ages = self.ages.map(|age| age.saturating_add(1));
    }

    /// Records the connections seen at one host.
    pub fn notice(&mut self, host: usize, activity: Activity, decoys: u8) {
        let here = 1 << host;
        if activity == Activity::None {
            return;
        }
        if self.seen & here == 0 {
            self.listed[host] = decoys;
        }
        self.active |= here;
        self.seen |= here;
        self.touched |= here;
        self.ages[host] = 0;
        if activity == Activity::Exploit {
            self.exploit |= here;
            self.believe_user(here);
        }
    }

    fn believe_user(&mut self, here: u16) {
        self.unsure &= !here;
        self.taken |= here;
    }

    /// Removed: what seemed taken is unknown now.
    pub fn remove(&mut self, host: usize) {
        let here = 1 << host;
        self.unsure |= here & self.taken;
        self.taken &= !here;
    }

    /// Restored: believed clean.
    pub fn restore(&mut self, host: usize) {
        let here = 1 << host;
        self.unsure &= !here;
        self.taken &= !here;
        self.restored |= here;
    }

    /// Analysed, and a file was found.
    pub fn find(&mut self, host: usize) {
        self.unsure |= 1 << host;
        self.taken |= 1 << host;
    }

    /// The belief of a host: 0 clean, 1 user, 2 unknown, 3 privileged.
    pub fn belief(&self, host: usize) -> u8 {
        ((self.unsure >> host & 1) << 1 | self.taken >> host & 1) as u8
    }

    /// Writes the 52 bits.
    pub fn show(&self, out: &mut [f32]) {
        let out = out.as_chunks_mut::<4>().0;
        for (host, four) in out[..HOSTS].iter_mut().enumerate() {
            let bit = |set: u16| usize::from(set >> host & 1);
            *four = NIBBLES[bit(self.active) << 3 | bit(self.exploit) << 2 | bit(self.unsure) << 1 | bit(self.taken)];
        }
    }
}

/// Four bits as numbers, highest first.
static NIBBLES: [[f32; 4]; 16] = {
    let mut table = [[0.0; 4]; 16];
    let mut i = 0;
    while i < 64 {
        table[i / 4][i % 4] = ((i / 4) >> (3 - i % 4) & 1) as f32;
        i += 1;
    }
    table
};
