//! Hash tables of symbol names: the loader finds a kernel by one of them.

use super::bytes::Bytes;

/// The table of the System V interface: buckets and chains, as many as symbols, the nameless first one included.
pub(super) fn sysv(names: &[&str]) -> Vec<u8> {
    let count = names.len() + 1;
    let mut buckets = vec![0u32; count];
    let mut chains = vec![0u32; count];
    for (name, symbol) in names.iter().zip(1u32..) {
        let bucket = &mut buckets[sysv_hash(name) as usize % count];
        chains[symbol as usize] = *bucket;
        *bucket = symbol;
    }
    let mut out = Bytes::default();
    out.u32(&[count as u32; 2]).u32(&buckets).u32(&chains);
    out.0
}

fn sysv_hash(name: &str) -> u32 {
    name.bytes().fold(0u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let top = hash & 0xf000_0000;
        (hash ^ top >> 24) & !top
    })
}

/// Bits by which the second filter bit is moved.
const SHIFT: u32 = 26;

/// GNU's table, of one bucket and one filter word: enough for a kernel and its descriptor.
pub(super) fn gnu(names: &[&str]) -> Vec<u8> {
    let hashes: Vec<u32> = names.iter().map(|name| gnu_hash(name)).collect();
    let filter = hashes.iter().fold(0u64, |filter, hash| filter | 1 << (hash % 64) | 1 << ((hash >> SHIFT) % 64));
    let mut out = Bytes::default();
    // Buckets, first symbol, words of the filter, shift; the filter; the bucket's first symbol.
    out.u32(&[1, 1, 1, SHIFT]).u64(&[filter]).u32(&[1]);
    for (at, hash) in hashes.iter().enumerate() {
        // The lowest bit ends a chain.
        out.u32(&[hash & !1 | u32::from(at + 1 == hashes.len())]);
    }
    out.0
}

fn gnu_hash(name: &str) -> u32 {
    name.bytes().fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_hashes() {
        assert_eq!(sysv_hash("printf"), 0x0779_05a6);
        assert_eq!(sysv_hash("syscall"), 0x0b09_985c);
        assert_eq!(gnu_hash("printf"), 0x156b_2bb8);
        assert_eq!(gnu_hash("syscall"), 0xbac2_12a0);
        assert_eq!(gnu_hash(""), 5381);
    }
}
