//! An env's state as named fields. One method on the env names them for a visitor: describing, reading, writing,
//! saving and loading all use the same declaration.

use crate::codec::{Reader, Writer};
use crate::error::{Error, Result};

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Real numbers.
    F32,
    /// Whole numbers.
    I32,
    /// Bytes, flags as 0 and 1.
    U8,
    /// Real numbers of twice the width.
    F64,
    /// Whole numbers of twice the width.
    I64,
}

impl FieldKind {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }
}

/// The elements of one field.
pub enum FieldMut<'a> {
    /// Real numbers.
    F32(&'a mut [f32]),
    /// Whole numbers.
    I32(&'a mut [i32]),
    /// Bytes, flags as 0 and 1.
    U8(&'a mut [u8]),
    /// Real numbers of twice the width.
    F64(&'a mut [f64]),
    /// Whole numbers of twice the width.
    I64(&'a mut [i64]),
}

impl FieldMut<'_> {
    /// Its type.
    pub fn kind(&self) -> FieldKind {
        match self {
            Self::F32(_) => FieldKind::F32,
            Self::I32(_) => FieldKind::I32,
            Self::U8(_) => FieldKind::U8,
            Self::F64(_) => FieldKind::F64,
            Self::I64(_) => FieldKind::I64,
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(x) => x.len(),
            Self::I32(x) => x.len(),
            Self::U8(x) => x.len(),
            Self::F64(x) => x.len(),
            Self::I64(x) => x.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A visitor that reads or changes each field in turn. The fields of an env, their order and lengths depend only on
/// the options that fix its spaces.
pub trait Fields {
    /// The next field.
    fn field(&mut self, name: &'static str, data: FieldMut<'_>);

    /// The next field is these numbers.
    fn f32s(&mut self, name: &'static str, data: &mut [f32]) {
        self.field(name, FieldMut::F32(data));
    }
    /// The next field is this number.
    fn f32(&mut self, name: &'static str, data: &mut f32) {
        self.field(name, FieldMut::F32(std::slice::from_mut(data)));
    }
    /// The next field is these whole numbers.
    fn i32s(&mut self, name: &'static str, data: &mut [i32]) {
        self.field(name, FieldMut::I32(data));
    }
    /// The next field is this whole number.
    fn i32(&mut self, name: &'static str, data: &mut i32) {
        self.field(name, FieldMut::I32(std::slice::from_mut(data)));
    }
    /// The next field is these bytes.
    fn u8s(&mut self, name: &'static str, data: &mut [u8]) {
        self.field(name, FieldMut::U8(data));
    }
    /// The next field is this byte.
    fn u8(&mut self, name: &'static str, data: &mut u8) {
        self.field(name, FieldMut::U8(std::slice::from_mut(data)));
    }
}

/// A field's name, type and length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSpec {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: FieldKind,
    /// Number of elements.
    pub len: usize,
}

/// Collects the declarations.
#[derive(Default)]
pub struct Describe(pub Vec<FieldSpec>);

impl Fields for Describe {
    fn field(&mut self, name: &'static str, data: FieldMut<'_>) {
        self.0.push(FieldSpec { name, kind: data.kind(), len: data.len() });
    }
}

/// Appends every field's bytes.
pub struct Save<'a>(pub &'a mut Writer);

impl Fields for Save<'_> {
    fn field(&mut self, _name: &'static str, data: FieldMut<'_>) {
        match data {
            FieldMut::F32(x) => x.iter().for_each(|x| self.0.f32(*x)),
            FieldMut::I32(x) => x.iter().for_each(|x| self.0.u32(*x as u32)),
            FieldMut::U8(x) => self.0.raw(x),
            FieldMut::F64(x) => x.iter().for_each(|x| self.0.u64(x.to_bits())),
            FieldMut::I64(x) => x.iter().for_each(|x| self.0.u64(*x as u64)),
        }
    }
}

/// Overwrites every field from bytes; the first error is kept.
pub struct Load<'a, 'b> {
    reader: &'a mut Reader<'b>,
    error: Option<Error>,
}

impl<'a, 'b> Load<'a, 'b> {
    /// Reads from there.
    pub fn new(reader: &'a mut Reader<'b>) -> Self {
        Self { reader, error: None }
    }

    /// Whether everything could be read.
    pub fn finish(self) -> Result<()> {
        self.error.map_or(Ok(()), Err)
    }

    fn read(&mut self, data: FieldMut<'_>) -> Result<()> {
        match data {
            FieldMut::F32(x) => x.iter_mut().try_for_each(|x| self.reader.f32().map(|y| *x = y)),
            FieldMut::I32(x) => x.iter_mut().try_for_each(|x| self.reader.u32().map(|y| *x = y as i32)),
            FieldMut::U8(x) => self.reader.raw(x.len()).map(|y| x.copy_from_slice(y)),
            FieldMut::F64(x) => x.iter_mut().try_for_each(|x| self.reader.u64().map(|y| *x = f64::from_bits(y))),
            FieldMut::I64(x) => x.iter_mut().try_for_each(|x| self.reader.u64().map(|y| *x = y as i64)),
        }
    }
}

impl Fields for Load<'_, '_> {
    fn field(&mut self, _name: &'static str, data: FieldMut<'_>) {
        if self.error.is_none() {
            self.error = self.read(data).err();
        }
    }
}
