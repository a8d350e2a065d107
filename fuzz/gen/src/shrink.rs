//! Shrinking by regeneration: shorter and smaller byte strings make smaller cases.

use crate::case::Case;
use crate::config::Config;
use crate::kernel::generate;
use crate::source::Source;

/// Tries at most this many byte strings.
const TRIES: usize = 1500;

/// The smallest case found that still fails, with the bytes it comes from. `fails` says whether a case shows the bug.
pub fn shrink(bytes: &[u8], cfg: &Config, fails: &dyn Fn(&Case) -> bool) -> Option<(Vec<u8>, Case)> {
    shrink_as(bytes, &|bytes: &[u8]| {
        let mut src = Source::from_bytes(bytes);
        generate(&mut src, cfg).ok().filter(|c| fails(c))
    })
}

/// The same of anything that is made of bytes: `make` gives what they make, if it shows the bug.
///
/// ```text
/// cut the tail ─ cut blocks of 64, 16, 4, 1 bytes ─ zero blocks ─ halve bytes, again while anything helps
/// ```
pub fn shrink_as<T>(bytes: &[u8], make: &dyn Fn(&[u8]) -> Option<T>) -> Option<(Vec<u8>, T)> {
    let mut best = (bytes.to_vec(), make(bytes)?);
    let mut tries = 0;
    let mut attempt = |candidate: Vec<u8>, best: &mut (Vec<u8>, T)| {
        tries += 1;
        let smaller = (candidate.len(), &candidate) < (best.0.len(), &best.0);
        if tries > TRIES || !smaller {
            return false;
        }
        match make(&candidate) {
            Some(case) => {
                *best = (candidate, case);
                true
            }
            None => false,
        }
    };
    loop {
        let before = best.0.clone();
        for part in [2, 4, 8] {
            let keep = best.0.len() - best.0.len() / part;
            attempt(best.0[..keep].to_vec(), &mut best);
        }
        for block in [64, 16, 8, 4, 2, 1] {
            let mut at = 0;
            while at < best.0.len() {
                let end = (at + block).min(best.0.len());
                let cut = [&best.0[..at], &best.0[end..]].concat();
                let mut zeroed = best.0.clone();
                zeroed[at..end].fill(0);
                if !attempt(cut, &mut best) {
                    attempt(zeroed, &mut best);
                    at = end;
                }
            }
        }
        for at in 0..best.0.len() {
            if let Some(&x) = best.0.get(at) {
                for less in [x / 2, x.saturating_sub(1)] {
                    let mut halved = best.0.clone();
                    halved[at] = less;
                    attempt(halved, &mut best);
                }
            }
        }
        if best.0 == before {
            return Some(best);
        }
    }
}
