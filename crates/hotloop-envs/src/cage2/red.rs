//! Red's actions, their effects and the traces they leave. The agents select them.

use super::blue_view::Events;
use super::choices::Choices;
use super::network::{EXPLOIT_IDS, FOOTHOLD, HOSTS, NETWORK, OP_SERVER, SSH, SUBNETS, USER_SUBNET, subnet};
use super::world::World;

/// Kinds of red actions, by the numbers of the recordings.
pub const SLEEP: u8 = 0;
pub const SWEEP: u8 = 1;
pub const SCAN: u8 = 2;
pub const EXPLOIT: u8 = 3;
pub const ESCALATE: u8 = 4;
pub const IMPACT: u8 = 5;

/// Result of an action, as red sees it.
pub const FAILED: u8 = 0;
pub const SUCCEEDED: u8 = 1;
pub const UNKNOWN: u8 = 2;

/// A red action and its result.
#[derive(Clone, Copy)]
pub struct RedAction {
    pub kind: u8,
    /// A host, for sweeps a subnet, for sleep -1.
    pub target: i8,
    pub success: u8,
    /// The challenge's number of the exploit that was tried, or -1.
    pub exploit: i8,
    /// Whether an exploit that succeeded showed, or -1.
    pub detected: i8,
}

impl RedAction {
    pub const NONE: Self = Self { kind: SLEEP, target: -1, success: UNKNOWN, exploit: -1, detected: -1 };

    pub fn of(kind: u8, target: usize) -> Self {
        Self { kind, target: target as i8, ..Self::NONE }
    }

    pub fn succeeded(self) -> bool {
        self.success == SUCCEEDED
    }

    /// The host it is aimed at, as a set.
    pub fn host(self) -> u16 {
        1 << self.target
    }
}

/// Knowledge of the network that both agents gather.
#[derive(Clone, Copy)]
pub struct Knowledge {
    /// Ports found open at the last scan of each host; 0 if there was none.
    pub ports: [u8; HOSTS],
    /// Hosts whose address is known.
    pub addresses: u16,
    /// Known subnets.
    pub subnets: u8,
    /// Whether the OT service is known.
    pub ot: bool,
    /// Whether the last scan found its target.
    pub found: bool,
}

impl Knowledge {
    /// The foothold and its subnet.
    pub const START: Self =
        Self { ports: [0; HOSTS], addresses: 1 << FOOTHOLD, subnets: 1 << USER_SUBNET, ot: false, found: false };
}

/// Applies red's action: sets its result and returns the target's events.
pub fn act(red_action: &mut RedAction, world: &mut World, known: &mut Knowledge, choices: &Choices<'_>) -> Events {
    let target = red_action.target as usize;
    let mut events = Events::NONE;
    let success = match red_action.kind {
        SWEEP => {
            let reached = world.reachable(SUBNETS[target]);
            if reached {
                known.addresses |= SUBNETS[target];
                known.subnets |= 1 << target;
            }
            reached
        }
        SCAN => {
            known.found = world.reachable(1 << target);
            if known.found {
                known.ports[target] = world.open(target);
                events = Events::scan(world, target);
            }
            true
        }
        EXPLOIT => exploit(red_action, world, known, choices, &mut events),
        ESCALATE => escalate(target, world, known),
        IMPACT => {
            let done = known.ot && world.sessions() >> OP_SERVER & 1 == 1;
            world.ot_up &= !(done && world.ot_killable);
            done
        }
        _ => return events,
    };
    red_action.success = if success { SUCCEEDED } else { FAILED };
    events
}

fn exploit(
    red_action: &mut RedAction,
    world: &mut World,
    known: &Knowledge,
    choices: &Choices<'_>,
    events: &mut Events,
) -> bool {
    let (target, here) = (red_action.target as usize, red_action.host());
    let ports = known.ports[target];
    if ports == 0 {
        return false;
    }
    let port = choices.exploit(ports);
    red_action.exploit = EXPLOIT_IDS[port.ilog2() as usize] as i8;
    if !world.reachable(here) {
        return false;
    }
    let host = &NETWORK[target];
    let weak = host.weak & port != 0;
    if !weak && (world.decoys[target] | host.open & SSH) & port == 0 {
        return false;
    }
    if port == SSH {
        *events = Events::on(port, if weak { 11 } else { 10 });
        world.sticky |= if weak { here } else { 0 };
        return weak;
    }
    if !weak {
        *events = Events::on(port, 2);
        return false;
    }
    let detected = choices.detected();
    red_action.detected = i8::from(detected);
    *events = Events::on(port, 1);
    if detected {
        events.open_shell();
    }
    world.malware |= here;
    if host.root & port != 0 {
        world.privileged |= here;
    } else if detected {
        world.removable |= here;
    } else {
        world.sticky |= here;
    }
    true
}

fn escalate(target: usize, world: &mut World, known: &mut Knowledge) -> bool {
    let here = 1 << target;
    if world.sessions() & here == 0 {
        return false;
    }
    if world.privileged & here == 0 {
        world.privileged |= here;
        world.malware |= here;
    }
    known.subnets |= 1 << subnet(target);
    known.addresses |= NETWORK[target].link.map_or(0, |link| 1 << link);
    known.ot |= target == OP_SERVER;
    true
}
