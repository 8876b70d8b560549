//! The scenario: hosts, subnets, open ports, and the exploits that work on them.
//!
//! Hosts are numbered as in the challenge's observations. A set of hosts is a `u16`, a bit per host. Ports that matter
//! to exploits are numbered by how much red likes the exploit they invite, so that the highest bit of a set of ports is
//! red's favourite; a set of ports is a `u8`.

pub const HOSTS: usize = 13;
pub const DEFENDER: usize = 0;
pub const OP_SERVER: usize = 7;
pub const FOOTHOLD: usize = 8;

pub const EVERYWHERE: u16 = (1 << HOSTS) - 1;
/// Enterprise0 to 2: red needs a session on one of them to reach the operational subnet, and forgets it after a failure.
pub const SERVERS: u16 = 0b0_0000_0000_1110;
pub const OPERATIONAL: u16 = 0b0_0000_1111_0000;
pub const WINDOWS: u16 = 0b0_0111_0000_1100;

/// Subnets as red's targets name them: User, Enterprise, Operational.
pub const SUBNETS: [u16; 3] = [0b1_1111_0000_0000, 0b0_0000_0000_1111, OPERATIONAL];
pub const USER_SUBNET: usize = 0;
pub const ENTERPRISE_SUBNET: usize = 1;
pub const OPERATIONAL_SUBNET: usize = 2;

pub const SSH: u8 = 1;
pub const RDP: u8 = 1 << 1;
pub const SMB: u8 = 1 << 2;
pub const HTTP: u8 = 1 << 3;
pub const HTTPS: u8 = 1 << 4;
pub const SQL: u8 = 1 << 5;
pub const SMTP: u8 = 1 << 6;
pub const FTP: u8 = 1 << 7;
/// The challenge's numbers of the exploits of these ports.
pub const EXPLOIT_IDS: [i32; 8] = [4, 1, 0, 2, 3, 5, 6, 7];

/// Facts of one host.
pub struct Host {
    /// Ports that are open from the start and invite an exploit.
    pub open: u8,
    /// Number of other open ports.
    pub others: u8,
    /// Ports whose service gives red a session.
    pub weak: u8,
    /// Those of them that give a privileged one.
    pub root: u8,
    /// The host that red gets to know by escalating here.
    pub link: Option<u8>,
    /// Ports on which a decoy can draw red away from what would succeed: the compact action space places them, red's
    /// favourites first.
    pub useful: u8,
}

const fn host(open: u8, others: u8, weak: u8, root: u8, link: Option<u8>, useful: u8) -> Host {
    Host { open, others, weak, root, link, useful }
}

const WEB: u8 = HTTP | HTTPS;
const LINUX_DECOYS: u8 = SMTP | WEB;
const SERVER: u8 = SSH | RDP | SMB | WEB;

/// All hosts.
pub static NETWORK: [Host; HOSTS] = [
    // Defender
    host(SSH, 2, 0, 0, None, LINUX_DECOYS),
    // Enterprise0
    host(SSH, 0, SSH, 0, None, LINUX_DECOYS),
    // Enterprise1
    host(SERVER, 2, SSH | RDP | WEB, RDP, None, FTP),
    // Enterprise2
    host(SERVER, 2, SSH | RDP | WEB, RDP, Some(OP_SERVER as u8), FTP),
    // Op_Host0 to Op_Host2
    host(SSH, 0, SSH, 0, None, LINUX_DECOYS),
    host(SSH, 0, SSH, 0, None, LINUX_DECOYS),
    host(SSH, 0, SSH, 0, None, LINUX_DECOYS),
    // Op_Server0
    host(SSH, 0, SSH, 0, None, LINUX_DECOYS),
    // User0
    host(SSH | FTP, 0, SSH | FTP, FTP, None, WEB | SMB | RDP),
    // User1
    host(SSH | FTP, 0, SSH | FTP, FTP, Some(2), WEB | SMB | RDP),
    // User2
    host(SMB | RDP, 2, SMB | RDP, SMB, Some(2), FTP | WEB | SSH),
    // User3
    host(WEB | RDP | SMTP, 0, WEB | SMTP, SMTP, Some(1), SSH),
    // User4
    host(SSH | WEB | SQL | SMTP, 0, SSH | WEB | SQL | SMTP, SQL | SMTP, Some(1), 0),
];

/// The subnet of a host.
pub const fn subnet(host: usize) -> usize {
    match host {
        0..=3 => ENTERPRISE_SUBNET,
        4..=7 => OPERATIONAL_SUBNET,
        _ => USER_SUBNET,
    }
}

/// A kind of decoy: the port that must be free, the port it opens, and where it runs.
pub struct Decoy {
    pub checks: u8,
    pub opens: u8,
    pub runs_on: u16,
}

/// The decoys in the order of the full action space: Apache, Femitter, Haraka, Smss, SSHD, Svchost, Tomcat, Vsftpd.
pub static DECOYS: [Decoy; 8] = [
    Decoy { checks: HTTP, opens: HTTP, runs_on: EVERYWHERE },
    Decoy { checks: FTP, opens: FTP, runs_on: WINDOWS },
    Decoy { checks: SMTP, opens: SMTP, runs_on: EVERYWHERE & !WINDOWS },
    Decoy { checks: SMB, opens: SMB, runs_on: WINDOWS },
    Decoy { checks: SSH, opens: SSH, runs_on: EVERYWHERE },
    Decoy { checks: RDP, opens: RDP, runs_on: WINDOWS },
    Decoy { checks: HTTPS, opens: HTTPS, runs_on: EVERYWHERE },
    // Its check looks at the port of the service that it pretends to be, but it opens another.
    Decoy { checks: FTP, opens: HTTP, runs_on: EVERYWHERE & !WINDOWS },
];

/// The highest bit of a set that is not empty.
pub const fn favourite(ports: u8) -> u8 {
    1 << ports.ilog2()
}
