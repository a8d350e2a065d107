//! Artifacts as bytes.

use crate::Rng;
use tilelift::ir::text;
use tilelift::{Artifact, Compiler, Malformed, OptLevel, Options, compile, targets};
use tilelift_kernels::{Size, cases};

/// The artifacts of some of the library's kernels, for every kind of target: code objects, tensor maps, schedules.
fn some() -> Vec<Artifact> {
    let mut made = Vec::new();
    for case in cases().into_iter().filter(|c| c.size == Size::Small).step_by(7) {
        let kernel = case.build().unwrap_or_else(|e| panic!("{}: {e}", case.name));
        for name in ["sm_80", "sm_90a", "gfx942"] {
            let compiler = Compiler::new(name).unwrap_or_else(|e| panic!("{e}"));
            // What a target lacks is refused.
            made.extend(compiler.compile(&kernel).ok().map(|a| (*a).clone()));
        }
    }
    made
}

#[test]
fn what_is_written_is_read_and_damage_is_no_panic() {
    let artifacts = some();
    assert!(artifacts.len() > 20, "{}", artifacts.len());
    assert!(artifacts.iter().any(|a| !a.object.is_empty()) && artifacts.iter().any(|a| !a.schedule.is_empty()));
    let mut rng = Rng::new(19);
    let (mut right, mut wrong) = (0, 0);
    for a in &artifacts {
        let bytes = a.to_bytes();
        assert_eq!(Artifact::from_bytes(&bytes).as_ref(), Ok(a));
        // A schedule is a kernel of the language.
        assert!(a.schedule.is_empty() || text::parse(&a.schedule).is_ok(), "{}", a.schedule);
        assert!(matches!(Artifact::from_bytes(&[&bytes[..], b"x"].concat()), Err(Malformed::Rest { .. })));
        for _ in 0..200 {
            let mut damaged = bytes.clone();
            match rng.below(3) {
                0 => damaged.truncate(rng.below(bytes.len() as u64) as usize),
                1 => damaged[rng.below(bytes.len() as u64) as usize] ^= 1 << rng.below(8),
                // The part behind the texts, where the structure is.
                _ => {
                    let tail = bytes.len() - 1 - rng.below(400.min(bytes.len() as u64 - 1)) as usize;
                    damaged[tail] = rng.below(256) as u8;
                }
            }
            match Artifact::from_bytes(&damaged) {
                // A character of a text is another one: still the only bytes of what was read.
                Ok(read) => {
                    assert_eq!(read.to_bytes(), damaged);
                    right += 1;
                }
                Err(_) => wrong += 1,
            }
        }
    }
    assert!(right > 100 && wrong > 100, "{right} {wrong}");
    assert_eq!(Artifact::from_bytes(b"something else"), Err(Malformed::Magic));
    let mut newer = artifacts[0].to_bytes();
    newer[8] += 1;
    assert_eq!(Artifact::from_bytes(&newer), Err(Malformed::Version { got: 4 }));
}

/// The key is of the printed kernel, so nothing else of it may count: places in the text, numbers of values, unused parts.
#[test]
fn a_kernel_and_its_print_have_the_same_code() {
    let mut compared = 0;
    for case in cases().into_iter().filter(|c| c.size == Size::Small).step_by(3) {
        let kernel = case.build().unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let again = text::parse(&text::print(&kernel)).unwrap_or_else(|e| panic!("{e}")).kernels.remove(0);
        for (name, opt) in [("sm_80", OptLevel::Logical), ("sm_90a", OptLevel::Logical), ("gfx942", OptLevel::None)] {
            let target = targets::by_name(name).unwrap_or_else(|| panic!("{name}"));
            let options = Options { opt, ..Options::default() };
            if let (Ok(a), Ok(b)) = (compile(&kernel, &target, &options), compile(&again, &target, &options)) {
                assert!(a == b, "@{} for {name} differs from its print", kernel.name);
                compared += 1;
            }
        }
    }
    assert!(compared > 60, "{compared}");
}
