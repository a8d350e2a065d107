//! Numbers, strings and lists as bytes, little-endian, each list behind its length.

use std::fmt;

/// Bytes that are no artifact.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Malformed {
    /// They do not begin as one.
    Magic,
    /// They are of another version of the format.
    Version {
        /// The version.
        got: u32,
    },
    /// They end early, or hold what can't be.
    Contents {
        /// Where.
        at: usize,
    },
    /// Something follows the end.
    Rest {
        /// Where.
        at: usize,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Magic => f.write_str("the bytes are no artifact of tilelift"),
            Malformed::Version { got } => {
                write!(f, "the artifact has version {got} of the format, which is not read here; compile it anew")
            }
            Malformed::Contents { at } => write!(f, "the artifact is damaged at byte {at}; compile it anew"),
            Malformed::Rest { at } => write!(f, "something follows the artifact at byte {at}"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Writes.
#[derive(Default)]
pub(super) struct ByteWriter(pub(super) Vec<u8>);

impl ByteWriter {
    pub(super) fn u8(&mut self, n: u8) {
        self.0.push(n);
    }
    pub(super) fn u32(&mut self, n: u32) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }
    pub(super) fn bool(&mut self, b: bool) {
        self.u8(u8::from(b));
    }
    pub(super) fn bytes(&mut self, b: &[u8]) {
        self.0.extend_from_slice(&(b.len() as u64).to_le_bytes());
        self.0.extend_from_slice(b);
    }
    pub(super) fn list<T>(&mut self, list: &[T], mut one: impl FnMut(&mut ByteWriter, &T)) {
        self.u32(list.len() as u32);
        for x in list {
            one(self, x);
        }
    }
}

/// Reads; never beyond the end, and never makes room for more than there can be.
pub(super) struct Reader<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(all: &'a [u8]) -> Reader<'a> {
        Reader { all, at: 0 }
    }
    /// The error of what stands here.
    pub(super) fn wrong(&self) -> Malformed {
        Malformed::Contents { at: self.at }
    }
    pub(super) fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(n).ok_or(self.wrong())?;
        let taken = self.all.get(self.at..end).ok_or(self.wrong())?;
        self.at = end;
        Ok(taken)
    }
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let wrong = self.wrong();
        self.take(N)?.try_into().map_err(|_| wrong)
    }
    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }
    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }
    pub(super) fn bool(&mut self) -> Result<bool, Malformed> {
        let wrong = self.wrong();
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(wrong),
        }
    }
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let wrong = self.wrong();
        let len = usize::try_from(u64::from_le_bytes(self.array()?)).map_err(|_| wrong)?;
        self.take(len)
    }
    pub(super) fn string(&mut self) -> Result<String, Malformed> {
        let wrong = self.wrong();
        std::str::from_utf8(self.bytes()?).map(str::to_owned).map_err(|_| wrong)
    }
    pub(super) fn list<T>(&mut self, mut one: impl FnMut(&mut Reader<'a>) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
        let len = self.u32()?;
        // An element takes a byte at least, so a length that lies ends early; no room is made in advance.
        (0..len).map(|_| one(self)).collect()
    }
    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.at == self.all.len() { Ok(()) } else { Err(Malformed::Rest { at: self.at }) }
    }
}
