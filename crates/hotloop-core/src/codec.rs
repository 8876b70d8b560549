//! Plain little-endian bytes for snapshots, read back with every length checked.

use crate::error::{Result, input};

/// Appends values to a growing buffer.
#[derive(Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// The bytes written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The buffer itself.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// One byte.
    pub fn u8(&mut self, x: u8) {
        self.bytes.push(x);
    }

    /// Four bytes.
    pub fn u32(&mut self, x: u32) {
        self.raw(&x.to_le_bytes());
    }

    /// Eight bytes.
    pub fn u64(&mut self, x: u64) {
        self.raw(&x.to_le_bytes());
    }

    /// The bits of a number.
    pub fn f32(&mut self, x: f32) {
        self.u32(x.to_bits());
    }

    /// Bytes as they are, without their length.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A text with its length.
    pub fn text(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.raw(text.as_bytes());
    }
}

/// Takes values off the front of a buffer.
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Number of bytes left.
    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    /// The next `len` bytes.
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some((head, tail)) = self.bytes.split_at_checked(len) else {
            return input(format!("truncated snapshot: {len} more bytes expected, {} left", self.bytes.len()));
        };
        self.bytes = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.raw(N)?);
        Ok(array)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// The bits of a number.
    pub fn f32(&mut self) -> Result<f32> {
        Ok(f32::from_bits(self.u32()?))
    }

    /// A text with its length.
    pub fn text(&mut self) -> Result<String> {
        let len = self.u32()? as usize;
        match std::str::from_utf8(self.raw(len)?) {
            Ok(text) => Ok(text.to_string()),
            Err(_) => input("damaged snapshot: a name is not text"),
        }
    }
}

/// A 64-bit hash that notices damage (FNV-1a over 8-byte words, then the rest byte by byte).
pub fn checksum(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01B3;
    let mut hash = 0xCBF2_9CE4_8422_2325_u64 ^ bytes.len() as u64;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut array = [0; 8];
        array.copy_from_slice(word);
        // The rotation carries damage in a word's high bits down, where the multiplication can spread it.
        hash = (hash ^ u64::from_le_bytes(array)).wrapping_mul(PRIME).rotate_left(29);
    }
    for byte in words.remainder() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    }
    hash
}
