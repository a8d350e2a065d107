//! Little-endian bytes.

/// Bytes that grow.
#[derive(Default)]
pub(super) struct Bytes(pub Vec<u8>);

impl Bytes {
    pub(super) fn u16(&mut self, values: &[u16]) -> &mut Bytes {
        self.0.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        self
    }

    pub(super) fn u32(&mut self, values: &[u32]) -> &mut Bytes {
        self.0.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        self
    }

    pub(super) fn u64(&mut self, values: &[u64]) -> &mut Bytes {
        self.0.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        self
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Bytes {
        self.0.extend(bytes);
        self
    }

    /// Zeros up to a place that is not before the end.
    pub(super) fn zeros_to(&mut self, end: u64) -> &mut Bytes {
        // A code object is in memory: its sizes are those of vectors.
        let end = (end as usize).max(self.0.len());
        self.0.resize(end, 0);
        self
    }
}
