//! An env's options: declared once with name, default, allowed values and a sentence; checked here for every env.

use std::sync::Arc;

use crate::codec::{Reader, Writer, checksum};
use crate::error::{Result, input};

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A word or a text.
    Text(String),
    /// Several whole numbers.
    Ints(Vec<i64>),
}

/// Values that an option takes, beyond having the type of its default.
#[derive(Clone, Debug, PartialEq)]
pub enum Allowed {
    /// Any value of the type.
    Any,
    /// Numbers (or every entry of a list) from the first to the second, both included.
    Range(f64, f64),
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// One option of an env.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionSpec {
    /// The name people write.
    pub name: &'static str,
    /// A sentence for `hotloop envs`.
    pub about: &'static str,
    /// The default value.
    pub default: Value,
    /// The valid values.
    pub allowed: Allowed,
    /// Whether it fixes the spaces or the number of seats, and so cannot change while the runner lives.
    pub fixed: bool,
}

impl OptionSpec {
    /// A number within bounds.
    pub const fn float(name: &'static str, default: f64, low: f64, high: f64, about: &'static str) -> Self {
        Self { name, about, default: Value::Float(default), allowed: Allowed::Range(low, high), fixed: false }
    }

    /// A whole number within bounds.
    pub const fn int(name: &'static str, default: i64, low: i64, high: i64, about: &'static str) -> Self {
        Self {
            name,
            about,
            default: Value::Int(default),
            allowed: Allowed::Range(low as f64, high as f64),
            fixed: false,
        }
    }

    /// Yes or no.
    pub const fn bool(name: &'static str, default: bool, about: &'static str) -> Self {
        Self { name, about, default: Value::Bool(default), allowed: Allowed::Any, fixed: false }
    }

    /// One of several words; the first is the default.
    pub fn choice(name: &'static str, words: &'static [&'static str], about: &'static str) -> Self {
        Self { name, about, default: Value::Text(words[0].into()), allowed: Allowed::Choice(words), fixed: false }
    }

    /// Marks the option as one that fixes the spaces.
    #[must_use]
    pub fn fixed(mut self) -> Self {
        self.fixed = true;
        self
    }

    fn accept(&self, value: &Value) -> std::result::Result<Value, String> {
        let value = match (&self.default, value) {
            (Value::Float(_), Value::Int(x)) => Value::Float(*x as f64),
            (Value::Ints(_), Value::Int(x)) => Value::Ints(vec![*x]),
            (default, value) if std::mem::discriminant(default) == std::mem::discriminant(value) => value.clone(),
            (default, _) => return Err(format!("expected {}", kind(default))),
        };
        let numbers: Vec<f64> = match &value {
            Value::Int(x) => vec![*x as f64],
            Value::Float(x) => vec![*x],
            Value::Ints(xs) if xs.is_empty() => return Err("expected at least one number".into()),
            Value::Ints(xs) => xs.iter().map(|x| *x as f64).collect(),
            _ => Vec::new(),
        };
        match &self.allowed {
            Allowed::Range(low, high) if numbers.iter().any(|x| !(low..=high).contains(&x)) => {
                return Err(format!("expected {low} to {high}"));
            }
            Allowed::Choice(words) if !matches!(&value, Value::Text(x) if words.contains(&x.as_str())) => {
                return Err(format!("expected one of {}", words.join(", ")));
            }
            _ => {}
        }
        Ok(value)
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "true or false",
        Value::Int(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Text(_) => "a text",
        Value::Ints(_) => "a list of whole numbers",
    }
}

/// An env's options, all of them, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    specs: Arc<[OptionSpec]>,
    values: Vec<Value>,
}

impl Options {
    /// The defaults.
    pub fn defaults(specs: Arc<[OptionSpec]>) -> Self {
        let values = specs.iter().map(|spec| spec.default.clone()).collect();
        Self { specs, values }
    }

    /// These options with some changed; an unknown name or a value out of bounds is an error that says what is allowed.
    pub fn with(&self, env: &str, changes: &[(String, Value)]) -> Result<Self> {
        let mut changed = self.clone();
        for (name, value) in changes {
            let Some(index) = self.specs.iter().position(|spec| spec.name == name) else {
                let names: Vec<&str> = self.specs.iter().map(|spec| spec.name).collect();
                let near = names.iter().min_by_key(|known| distance(known, name)).filter(|n| distance(n, name) <= 3);
                let hint = near.map(|n| format!("; did you mean {n:?}?")).unwrap_or_default();
                return input(format!("{env} has no option {name:?}{hint} It has: {}", names.join(", ")));
            };
            match self.specs[index].accept(value) {
                Ok(value) => changed.values[index] = value,
                Err(why) => return input(format!("option {name:?} of {env} is {}: {why}", show(value))),
            }
        }
        Ok(changed)
    }

    /// Each option's declaration and value.
    pub fn iter(&self) -> impl Iterator<Item = (&OptionSpec, &Value)> {
        self.specs.iter().zip(&self.values)
    }

    fn get(&self, name: &str) -> &Value {
        let index = self.specs.iter().position(|spec| spec.name == name);
        &self.values[index.unwrap_or_else(|| panic!("option {name} was not declared"))]
    }

    /// The value of a declared whole-number option.
    pub fn int(&self, name: &str) -> i64 {
        match self.get(name) {
            Value::Int(x) => *x,
            other => panic!("option {name} is {other:?}"),
        }
    }

    /// The value of a declared number option.
    pub fn float(&self, name: &str) -> f32 {
        match self.get(name) {
            Value::Float(x) => *x as f32,
            other => panic!("option {name} is {other:?}"),
        }
    }

    /// The value of a declared yes-or-no option.
    pub fn bool(&self, name: &str) -> bool {
        match self.get(name) {
            Value::Bool(x) => *x,
            other => panic!("option {name} is {other:?}"),
        }
    }

    /// The value of a declared text option.
    pub fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Value::Text(x) => x,
            other => panic!("option {name} is {other:?}"),
        }
    }

    /// The value of a declared list option.
    pub fn ints(&self, name: &str) -> &[i64] {
        match self.get(name) {
            Value::Ints(x) => x,
            other => panic!("option {name} is {other:?}"),
        }
    }

    /// The first option that fixes the spaces and differs between the two.
    pub fn fixed_difference(&self, other: &Self) -> Option<&'static str> {
        self.iter().zip(other.iter()).find(|(a, b)| a.0.fixed && a.1 != b.1).map(|(a, _)| a.0.name)
    }

    /// A hash of the options that fix the spaces.
    pub fn fixed_hash(&self) -> u64 {
        let mut writer = Writer::default();
        for (spec, value) in self.iter().filter(|(spec, _)| spec.fixed) {
            writer.text(spec.name);
            write_value(&mut writer, value);
        }
        checksum(writer.bytes())
    }

    /// Writes all values.
    pub fn save(&self, writer: &mut Writer) {
        for value in &self.values {
            write_value(writer, value);
        }
    }

    /// Reads all values; the declarations must be those of `self`.
    pub fn load(&self, env: &str, reader: &mut Reader) -> Result<Self> {
        let mut changes = Vec::with_capacity(self.values.len());
        for spec in self.specs.iter() {
            changes.push((spec.name.to_string(), read_value(reader)?));
        }
        self.with(env, &changes)
    }
}

fn write_value(writer: &mut Writer, value: &Value) {
    match value {
        Value::Bool(x) => {
            writer.u8(0);
            writer.u8(u8::from(*x));
        }
        Value::Int(x) => {
            writer.u8(1);
            writer.u64(*x as u64);
        }
        Value::Float(x) => {
            writer.u8(2);
            writer.u64(x.to_bits());
        }
        Value::Text(x) => {
            writer.u8(3);
            writer.text(x);
        }
        Value::Ints(xs) => {
            writer.u8(4);
            writer.u32(xs.len() as u32);
            xs.iter().for_each(|x| writer.u64(*x as u64));
        }
    }
}

fn read_value(reader: &mut Reader) -> Result<Value> {
    Ok(match reader.u8()? {
        0 => Value::Bool(reader.u8()? != 0),
        1 => Value::Int(reader.u64()? as i64),
        2 => Value::Float(f64::from_bits(reader.u64()?)),
        3 => Value::Text(reader.text()?),
        4 => {
            let count = reader.u32()?;
            Value::Ints((0..count).map(|_| reader.u64().map(|x| x as i64)).collect::<Result<_>>()?)
        }
        other => return input(format!("damaged snapshot: an option has the unknown kind {other}")),
    })
}

fn show(value: &Value) -> String {
    match value {
        Value::Bool(x) => x.to_string(),
        Value::Int(x) => x.to_string(),
        Value::Float(x) => x.to_string(),
        Value::Text(x) => format!("{x:?}"),
        Value::Ints(xs) => format!("{xs:?}"),
    }
}

/// Edits (insert, delete, replace) from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
