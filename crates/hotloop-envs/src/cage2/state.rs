//! The state under names that people can read: sets of hosts become a 0 or 1 for each host.

use hotloop_core::fields::Fields;

use super::choices::NO_HOST;
use super::network::{EXPLOIT_IDS, FOOTHOLD, HOSTS};
use super::red::{IMPACT, SWEEP, UNKNOWN};
use super::{AGENTS, Cage2};

fn set(fields: &mut dyn Fields, name: &'static str, hosts: &mut u16) {
    let mut bits: [u8; HOSTS] = std::array::from_fn(|host| (*hosts >> host & 1) as u8);
    fields.u8s(name, &mut bits);
    *hosts = bits.iter().enumerate().map(|(host, bit)| u16::from(*bit != 0) << host).sum();
}

fn subnets(fields: &mut dyn Fields, name: &'static str, subnets: &mut u8) {
    let mut bits: [u8; 3] = std::array::from_fn(|subnet| *subnets >> subnet & 1);
    fields.u8s(name, &mut bits);
    *subnets = bits.iter().enumerate().map(|(subnet, bit)| u8::from(*bit != 0) << subnet).sum();
}

fn flag(fields: &mut dyn Fields, name: &'static str, yes: &mut bool) {
    let mut byte = u8::from(*yes);
    fields.u8(name, &mut byte);
    *yes = byte != 0;
}

impl Cage2 {
    pub(super) fn name_fields(&mut self, fields: &mut dyn Fields) {
        let (world, view, known) = (&mut self.world, &mut self.view, &mut self.known);
        set(fields, "privileged", &mut world.privileged);
        set(fields, "removable", &mut world.removable);
        set(fields, "sticky", &mut world.sticky);
        set(fields, "malware", &mut world.malware);
        fields.u8s("decoys", &mut world.decoys);
        flag(fields, "ot_up", &mut world.ot_up);
        flag(fields, "ot_killable", &mut world.ot_killable);

        let mut activity: [u8; HOSTS] =
            std::array::from_fn(|host| (view.active >> host & 1) as u8 + (view.exploit >> host & 1) as u8);
        fields.u8s("activity", &mut activity);
        let at_least = |level: u8| -> u16 {
            activity.iter().enumerate().map(|(host, seen)| u16::from(*seen >= level) << host).sum()
        };
        (view.active, view.exploit) = (at_least(1), at_least(2));
        let mut belief: [u8; HOSTS] = std::array::from_fn(|host| view.belief(host));
        fields.u8s("belief", &mut belief);
        let bit = |bit: u8| -> u16 {
            belief.iter().enumerate().map(|(host, belief)| u16::from(belief >> bit & 1) << host).sum()
        };
        (view.taken, view.unsure) = (bit(0), bit(1));
        set(fields, "touched", &mut view.touched);
        set(fields, "seen", &mut view.seen);
        set(fields, "restored", &mut view.restored);
        fields.u8s("ages", &mut view.ages);
        fields.u8s("listed", &mut view.listed);

        fields.u8("red", &mut self.agent);
        let mut last = [
            i32::from(self.last.kind),
            i32::from(self.last.target),
            i32::from(self.last.success),
            i32::from(self.last.exploit),
            i32::from(self.last.detected),
        ];
        fields.i32s("red_action", &mut last);
        self.last.kind = last[0].clamp(0, 255) as u8;
        self.last.target = last[1].clamp(-128, 127) as i8;
        self.last.success = last[2].clamp(0, 255) as u8;
        self.last.exploit = last[3].clamp(-128, 127) as i8;
        self.last.detected = last[4].clamp(-128, 127) as i8;
        fields.u8s("red_ports", &mut known.ports);
        set(fields, "red_addresses", &mut known.addresses);
        subnets(fields, "red_subnets", &mut known.subnets);
        flag(fields, "red_knows_ot", &mut known.ot);
        flag(fields, "red_scan_found", &mut known.found);
        fields.u8("bline_stage", &mut self.bline.stage);
        fields.u8("bline_user", &mut self.bline.user);
        flag(fields, "bline_arrived", &mut self.bline.arrived);
        subnets(fields, "meander_swept", &mut self.meander.swept);
        set(fields, "meander_scanned", &mut self.meander.scanned);
        set(fields, "meander_exploited", &mut self.meander.exploited);
        set(fields, "meander_escalated", &mut self.meander.escalated);
        set(fields, "meander_mastered", &mut self.meander.mastered);

        fields.i32("time", &mut self.time);
        fields.i32("length", &mut self.length);
        fields.i32s("choices", &mut self.injected);
    }

    pub(super) fn check_fields(&self) -> Result<(), String> {
        let within = |name: &str, value: i32, low: i32, high: i32| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(format!("{name} is {value}: expected {low} to {high}"))
            }
        };
        if self.world.privileged >> FOOTHOLD & 1 == 0 {
            return Err("privileged is 0 for User0: red never loses its foothold".into());
        }
        within("red", i32::from(self.agent), 0, AGENTS.len() as i32 - 1)?;
        within("red_action's kind", i32::from(self.last.kind), 0, i32::from(IMPACT))?;
        let targets = match self.last.kind {
            0 => -1..=-1,
            SWEEP => 0..=2,
            _ => 0..=HOSTS as i32 - 1,
        };
        within("red_action's target", i32::from(self.last.target), *targets.start(), *targets.end())?;
        within("red_action's success", i32::from(self.last.success), 0, i32::from(UNKNOWN))?;
        within("bline_stage", i32::from(self.bline.stage), 0, 14)?;
        if self.bline.user != 0 || (1..=6).contains(&self.bline.stage) {
            within("bline_user", i32::from(self.bline.user), 9, 12)?;
        }
        within("time", self.time, 0, i32::MAX)?;
        within("length", self.length, 0, 100_000)?;
        let [target, exploit, detected, green] = self.injected;
        within("choices' target", target, -1, HOSTS as i32 - 1)?;
        within("choices' exploit", exploit, -1, EXPLOIT_IDS.len() as i32 - 1)?;
        within("choices' detection", detected, -1, 1)?;
        within("choices' green host", green, -1, NO_HOST)
    }
}
