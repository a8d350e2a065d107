//! SHA-256 (FIPS 180-4): names of what is cached, and sums that tell damaged bytes.

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
const K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// The first 32 bits of the fractional parts of the square roots of the first 8 primes.
const START: [u32; 8] = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

/// The sum of parts, one behind the other.
pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let (mut state, mut block, mut len) = (START, [0u8; 64], 0usize);
    let mut push = |bytes: &[u8], block: &mut [u8; 64], len: &mut usize| {
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = *len % 64;
            let n = rest.len().min(64 - at);
            block[at..at + n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            *len += n;
            if len.is_multiple_of(64) {
                state = compressed(state, block);
            }
        }
    };
    for part in parts {
        push(part, &mut block, &mut len);
    }
    let bits = (len as u64).wrapping_mul(8).to_be_bytes();
    push(&[0x80], &mut block, &mut len);
    // Zeros up to the place of the length.
    let zeros = (56 + 64 - len % 64) % 64;
    push(&[0; 64][..zeros], &mut block, &mut len);
    push(&bits, &mut block, &mut len);
    let mut out = [0; 32];
    for (bytes, word) in out.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    out
}

fn compressed(state: [u32; 8], block: &[u8; 64]) -> [u32; 8] {
    let mut w = [0u32; 64];
    for (word, bytes) in w.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |n, &b| n << 8 | u32::from(b));
    }
    for i in 16..64 {
        let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
        let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
    for (k, w) in K.iter().zip(w) {
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let t1 = h.wrapping_add(s1).wrapping_add((e & f) ^ (!e & g)).wrapping_add(*k).wrapping_add(w);
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let t2 = s0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(t1), c, b, a, t1.wrapping_add(t2));
    }
    let mut next = state;
    for (n, x) in next.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *n = n.wrapping_add(x);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::sha256;

    fn hex(parts: &[&[u8]]) -> String {
        sha256(parts).iter().map(|b| format!("{b:02x}")).collect()
    }

    /// The examples of the standard.
    #[test]
    fn sums_are_those_of_the_standard() {
        assert_eq!(hex(&[]), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(hex(&[b"abc"]), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let two = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(&[two]), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        let million = vec![b'a'; 1_000_000];
        assert_eq!(hex(&[&million]), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }

    #[test]
    fn parts_are_one_text() {
        let text: Vec<u8> = (0..=255).collect();
        for n in 0..text.len() {
            assert_eq!(sha256(&[&text[..n], &text[n..]]), sha256(&[&text]));
        }
    }
}
