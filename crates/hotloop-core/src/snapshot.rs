//! The whole state of a runner as bytes, and single fields of it by name.

use std::sync::Arc;

use crate::codec::{Reader, Writer, checksum};
use crate::error::{Error, Result, input};
use crate::fields::{Describe, FieldKind, FieldMut, FieldSpec, Fields, Load, Save};
use crate::options::Options;
use crate::pool::Pool;
use crate::slot::{Slot, lock};

const MAGIC: &[u8; 8] = b"hotloop\x01";

/// The name under which the step counter can be read and set beside the env's own fields.
pub const ELAPSED: &str = "elapsed_steps";

impl Pool {
    /// Everything: every env's state, its counters and random streams, its current and its pending options.
    pub fn snapshot(&mut self) -> Result<Vec<u8>> {
        self.check_idle("a snapshot")?;
        self.check_started("a snapshot")?;
        let mut table = Vec::new();
        let mut body = Writer::default();
        for slot in self.slots.iter() {
            let Slot { group, group_state, .. } = &mut *lock(slot);
            for env in 0..group_state.envs {
                group_state.save(env, &mut body, &mut table);
                group.fields(env, &mut Save(&mut body));
            }
        }
        let mut writer = Writer::default();
        writer.raw(MAGIC);
        writer.text(self.env.name);
        writer.u64(self.base.fixed_hash());
        writer.u32(self.spec.state_version);
        writer.u64(self.envs() as u64);
        writer.u8(self.rules.autoreset as u8);
        self.rules.weights.iter().for_each(|weight| writer.f32(*weight));
        writer.u32(table.len() as u32);
        table.iter().for_each(|options| options.save(&mut writer));
        writer.raw(body.bytes());
        writer.u64(checksum(writer.bytes()));
        Ok(writer.into_bytes())
    }

    /// Restores a snapshot of an equal runner, whatever its numbers of threads and groups. A rejected one changes nothing.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.check_idle("restore")?;
        let before = if self.started { Some(self.snapshot()?) } else { None };
        let outcome = self.read(bytes);
        if outcome.is_err()
            && let Some(before) = before
        {
            self.read(&before).expect("a snapshot taken just now can be read");
        }
        outcome
    }

    fn read(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(split) = bytes.len().checked_sub(8).filter(|_| bytes.starts_with(MAGIC)) else {
            return input("this is not a snapshot of a hotloop runner");
        };
        let (content, sum) = bytes.split_at(split);
        if Reader::new(sum).u64()? != checksum(content) {
            return input("the snapshot is damaged or cut off: its checksum does not fit");
        }
        let mut reader = Reader::new(&content[MAGIC.len()..]);
        let name = reader.text()?;
        if name != self.env.name {
            return input(format!("the snapshot is of {name:?}, this runner plays {:?}", self.env.name));
        }
        if reader.u64()? != self.base.fixed_hash() {
            return input(format!("the snapshot is of {name} with other options that fix its spaces"));
        }
        let version = reader.u32()?;
        if version != self.spec.state_version {
            let ours = self.spec.state_version;
            return input(format!("the snapshot has version {version} of the state of {name}, this build has {ours}"));
        }
        let envs = reader.u64()?;
        if envs != self.envs() as u64 {
            return input(format!("the snapshot has {envs} envs, this runner {}", self.envs()));
        }
        if reader.u8()? != self.rules.autoreset as u8 {
            return input("the snapshot was taken in another autoreset mode");
        }
        let weights = self.rules.weights.iter().map(|_| reader.f32()).collect::<Result<Vec<f32>>>()?;
        let mut table: Vec<Arc<Options>> = Vec::new();
        for _ in 0..reader.u32()? {
            let options = self.base.load(self.env.name, &mut reader)?;
            self.accept_options(&options)?;
            table.push(Arc::new(options));
        }
        for slot in self.slots.iter() {
            let Slot { group, group_state, .. } = &mut *lock(slot);
            for env in 0..group_state.envs {
                let options = group_state.load(env, &mut reader, &table)?;
                group.adopt(env, &options);
                let mut load = Load::new(&mut reader);
                group.fields(env, &mut load);
                load.finish()?;
                group.check(env).map_err(|why| {
                    Error::Input(format!(
                        "the snapshot's state of env {} is impossible: {why}",
                        group_state.first_env + env
                    ))
                })?;
            }
        }
        if reader.left() != 0 {
            return input(format!("the snapshot has {} bytes too many", reader.left()));
        }
        self.set_weights(&weights)?;
        self.started = true;
        Ok(())
    }

    /// The fields of the env's state, `elapsed_steps` last.
    pub fn fields(&self) -> Vec<FieldSpec> {
        let mut describe = Describe::default();
        lock(&self.slots[0]).group.fields(0, &mut describe);
        describe.0.push(FieldSpec { name: ELAPSED, kind: FieldKind::I32, len: 1 });
        describe.0
    }

    /// One field of all envs, as native-endian bytes.
    pub fn get_field(&mut self, field: &FieldSpec) -> Result<Vec<u8>> {
        self.check_idle("get_state")?;
        self.check_started("get_state")?;
        let mut get = Get { name: field.name, bytes: Vec::new() };
        for slot in self.slots.iter() {
            let Slot { group, group_state, .. } = &mut *lock(slot);
            for env in 0..group_state.envs {
                if field.name == ELAPSED {
                    get.bytes.extend_from_slice(&group_state.elapsed[env].to_ne_bytes());
                } else {
                    group.fields(env, &mut get);
                }
            }
        }
        Ok(get.bytes)
    }

    /// Sets fields of some envs (`values` holds each field's native-endian bytes, env after env). Their episodes
    /// continue from there, also finished ones. An impossible state is rejected and changes nothing.
    pub fn set_fields(&mut self, values: &[(FieldSpec, Vec<u8>)], envs: &[usize]) -> Result<()> {
        self.check_idle("set_state")?;
        self.check_started("set_state")?;
        let mut named = vec![false; self.envs()];
        for env in envs {
            match named.get_mut(*env) {
                None => return input(format!("env {env} does not exist: there are {}", self.envs())),
                Some(true) => return input(format!("env {env} is named twice")),
                Some(seen) => *seen = true,
            }
        }
        let before = self.snapshot()?;
        for (position, env) in envs.iter().enumerate() {
            let (group, local) = self.locate(*env);
            let outcome = set_env(&mut lock(&self.slots[group]), local, values, position);
            if let Err(why) = outcome {
                self.read(&before).expect("a snapshot taken just now can be read");
                return input(format!("the state of env {env} is impossible: {why}"));
            }
        }
        Ok(())
    }
}

fn set_env(
    slot: &mut Slot,
    env: usize,
    values: &[(FieldSpec, Vec<u8>)],
    position: usize,
) -> std::result::Result<(), String> {
    let Slot { group, group_state, .. } = slot;
    for (field, bytes) in values {
        let width = field.len * field.kind.bytes();
        let bytes = &bytes[position * width..(position + 1) * width];
        if field.name == ELAPSED {
            let steps = i32::from_ne_bytes(bytes.try_into().map_err(|_| "elapsed_steps is not a number")?);
            group_state.elapsed[env] =
                u32::try_from(steps).ok().filter(|steps| *steps < 1 << 30).ok_or(format!("{ELAPSED} is {steps}"))?;
        } else {
            group.fields(env, &mut Set { name: field.name, bytes });
        }
    }
    if std::mem::take(&mut group_state.over[env]) != 0 {
        group_state.ended[env * group_state.seats..(env + 1) * group_state.seats].fill(false);
    }
    group.check(env)
}

struct Get {
    name: &'static str,
    bytes: Vec<u8>,
}

impl Fields for Get {
    fn field(&mut self, name: &'static str, data: FieldMut<'_>) {
        if name == self.name {
            match data {
                FieldMut::F32(x) => x.iter().for_each(|x| self.bytes.extend_from_slice(&x.to_ne_bytes())),
                FieldMut::I32(x) => x.iter().for_each(|x| self.bytes.extend_from_slice(&x.to_ne_bytes())),
                FieldMut::U8(x) => self.bytes.extend_from_slice(x),
                FieldMut::F64(x) => x.iter().for_each(|x| self.bytes.extend_from_slice(&x.to_ne_bytes())),
                FieldMut::I64(x) => x.iter().for_each(|x| self.bytes.extend_from_slice(&x.to_ne_bytes())),
            }
        }
    }
}

struct Set<'a> {
    name: &'static str,
    bytes: &'a [u8],
}

impl Fields for Set<'_> {
    fn field(&mut self, name: &'static str, data: FieldMut<'_>) {
        let (words, long_words) = (self.bytes.as_chunks::<4>().0, self.bytes.as_chunks::<8>().0);
        if name == self.name {
            match data {
                FieldMut::F32(x) => x.iter_mut().zip(words).for_each(|(x, word)| *x = f32::from_ne_bytes(*word)),
                FieldMut::I32(x) => x.iter_mut().zip(words).for_each(|(x, word)| *x = i32::from_ne_bytes(*word)),
                FieldMut::U8(x) => x.copy_from_slice(self.bytes),
                FieldMut::F64(x) => x.iter_mut().zip(long_words).for_each(|(x, word)| *x = f64::from_ne_bytes(*word)),
                FieldMut::I64(x) => x.iter_mut().zip(long_words).for_each(|(x, word)| *x = i64::from_ne_bytes(*word)),
            }
        }
    }
}
