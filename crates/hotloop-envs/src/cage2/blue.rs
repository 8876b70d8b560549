//! Blue's actions, in both action spaces, and their effects.

use super::blue_view::BlueView;
use super::network::{DECOYS, HOSTS, NETWORK, favourite};
use super::world::World;

/// Actions of the challenge.
pub const FULL: usize = 145;
/// Sleep, and for each host Analyse, Remove, Restore and the next useful decoy.
pub const COMPACT: usize = 1 + 4 * HOSTS;

/// An action of blue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blue {
    Sleep,
    Analyse(usize),
    Remove(usize),
    Restore(usize),
    /// A kind of decoy on a host.
    Decoy(usize, usize),
    /// A host's next useful decoy.
    NextDecoy(usize),
}

impl Blue {
    /// An action of the challenge. Monitor, which happens anyway, is sleep.
    pub fn full(action: usize) -> Self {
        let Some(number) = action.checked_sub(2) else { return Self::Sleep };
        let host = number % HOSTS;
        match number / HOSTS {
            0 => Self::Analyse(host),
            1 => Self::Remove(host),
            10 => Self::Restore(host),
            kind => Self::Decoy(kind - 2, host),
        }
    }

    /// An action of the compact space.
    pub fn compact(action: usize) -> Self {
        let Some(number) = action.checked_sub(1) else { return Self::Sleep };
        let host = number % HOSTS;
        match number / HOSTS {
            0 => Self::Analyse(host),
            1 => Self::Remove(host),
            2 => Self::Restore(host),
            _ => Self::NextDecoy(host),
        }
    }

    /// Applies it; returns the host that a decoy was placed on and the host on which a file was found, as sets.
    pub fn act(self, world: &mut World, view: &mut BlueView) -> (u16, u16) {
        match self {
            Self::Sleep => {}
            Self::Analyse(host) => return (0, world.malware & 1 << host),
            Self::Remove(host) => {
                world.removable &= !(1 << host);
                view.remove(host);
            }
            Self::Restore(host) => {
                world.restore(host);
                view.restore(host);
            }
            Self::Decoy(kind, host) => {
                let decoy = &DECOYS[kind];
                if decoy.runs_on >> host & 1 == 1 && world.open(host) & decoy.checks == 0 {
                    return place(world, view, host, decoy.opens);
                }
            }
            Self::NextDecoy(host) => {
                let port = next_decoy(world, host);
                if port != 0 {
                    return place(world, view, host, port);
                }
            }
        }
        (0, 0)
    }
}

fn place(world: &mut World, view: &mut BlueView, host: usize, port: u8) -> (u16, u16) {
    world.decoys[host] |= port;
    view.touched |= 1 << host;
    (1 << host, 0)
}

/// The port of the next useful decoy on a host, red's favourite first; 0 if there is none left.
fn next_decoy(world: &World, host: usize) -> u8 {
    match NETWORK[host].useful & !world.decoys[host] {
        0 => 0,
        left => favourite(left),
    }
}

/// Clears actions that have no effect, as far as blue can know, in a mask of the compact space.
///
/// Red scans a host before it takes it, and every scan shows unless a decoy is placed in the same step. So on a host
/// that was never active and never had a decoy there is nothing to find or to restore, but on the operational server
/// Restore also protects the OT service. A session that Remove ends was seen as an exploit when it came, unless green's
/// scan hid it.
pub fn mask(world: &World, view: &BlueView, green: bool, mask: &mut [bool]) {
    use super::network::{DEFENDER, EVERYWHERE, OP_SERVER};
    let analyse = view.touched & !(1 << DEFENDER);
    let remove = if green { EVERYWHERE } else { view.taken };
    let restore = view.touched | 1 << OP_SERVER;
    let mask = &mut mask[1..COMPACT];
    for host in 0..HOSTS {
        mask[host] = analyse >> host & 1 == 1;
        mask[HOSTS + host] = remove >> host & 1 == 1;
        mask[2 * HOSTS + host] = restore >> host & 1 == 1;
        mask[3 * HOSTS + host] = next_decoy(world, host) != 0;
    }
}
