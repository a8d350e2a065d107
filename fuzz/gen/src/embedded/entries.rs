//! Entries of a store.

use super::subjects::subjects;
use crate::source::Source;
use std::sync::{Arc, LazyLock};
use tilelift::ir::Kernel;
use tilelift::{Artifact, Compiler, Key, MemoryStore, Store, launch};

/// Bytes as an artifact, a damaged artifact, or a damaged entry of a store; true if something was read of them.
///
/// # Panics
/// If an artifact that is read is written down in another way, or a store's damaged entry is taken for a whole one: bugs of the format.
pub fn any_entry(bytes: &[u8]) -> bool {
    let Some((&way, rest)) = bytes.split_first() else { return false };
    match way % 3 {
        0 => used(rest),
        1 => {
            let mut src = Source::from_bytes(rest);
            let mut made = pick(&mut src).to_bytes();
            damage(&mut src, &mut made);
            used(&made)
        }
        _ => stored(&mut Source::from_bytes(rest)),
    }
}

fn pick(src: &mut Source) -> &'static Artifact {
    let all = subjects();
    &all[src.below(all.len() as u32) as usize]
}

/// What is read of bytes does for everything that an engine asks of an artifact.
fn used(bytes: &[u8]) -> bool {
    let Ok(artifact) = Artifact::from_bytes(bytes) else { return false };
    let again = artifact.to_bytes();
    assert_eq!(Artifact::from_bytes(&again).as_ref(), Ok(&artifact), "what is written down is read as something else");
    let _ = launch::document(&[launch::describe(&artifact)]);
    let rule = artifact.grid_rule();
    for grid in [[0, 1, 1], [1, 1, 1], [u32::MAX; 3]] {
        let _ = (rule.check(grid), rule.blocks(grid, 132));
    }
    super::launches::plain(&Arc::new(artifact));
    true
}

/// One to four changes.
fn damage(src: &mut Source, bytes: &mut Vec<u8>) {
    for _ in 0..=src.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = src.below(bytes.len() as u32) as usize;
        match src.below(6) {
            0 => bytes[at] ^= 1 << src.below(8),
            1 => bytes[at] = src.below(256) as u8,
            // Where it is a length or a count, a large one.
            2 => {
                let n = [0u64, 1, 0x7f, 0xffff, 0x7fff_ffff, u64::MAX, u64::MAX / 2 + 1][src.below(7) as usize];
                let end = bytes.len().min(at + 8);
                bytes[at..end].copy_from_slice(&n.to_le_bytes()[..end - at]);
            }
            3 => bytes.truncate(at),
            4 => {
                let end = bytes.len().min(at + 1 + src.below(64) as usize);
                bytes.drain(at..end);
            }
            _ => {
                let from = src.below(bytes.len() as u32) as usize;
                let piece = bytes[from..bytes.len().min(from + 64)].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

/// A store with one entry.
struct Kept {
    store: Arc<MemoryStore>,
    compiler: Compiler,
    kernel: Kernel,
    artifact: Arc<Artifact>,
    key: Key,
    entry: Vec<u8>,
}

static KEPT: LazyLock<Kept> = LazyLock::new(|| {
    let text = "kernel @one(v0: view<f32, [?]>) {\n    v1 = splat 1.0 : tile<32xf32>\n    store v0[0], v1\n}\n";
    let kernel = tilelift::ir::text::parse(text).unwrap_or_else(|e| panic!("{e}")).kernels.remove(0);
    let store = Arc::new(MemoryStore::new());
    let compiler = Compiler::builder("sm_80").store(store.clone()).build().unwrap_or_else(|e| panic!("{e}"));
    let artifact = compiler.compile(&kernel).unwrap_or_else(|e| panic!("{e}"));
    let key = artifact.key.unwrap_or_else(|| panic!("a compiler gives keys"));
    let entry = store.load(&key).unwrap_or_else(|| panic!("it is kept"));
    Kept { store, compiler, kernel, artifact, key, entry }
});

/// An entry of a store, damaged, is a miss, and is made anew where somebody asks for its kernel.
fn stored(src: &mut Source) -> bool {
    let kept = &*KEPT;
    let mut entry = kept.entry.clone();
    damage(src, &mut entry);
    let whole = entry == kept.entry;
    kept.compiler.clear_memory();
    assert!(kept.store.save(&kept.key, &entry).is_ok());
    let found = kept.compiler.get(&kept.key);
    assert_eq!(found.as_deref(), whole.then_some(&*kept.artifact), "a damaged entry is no miss");
    if src.chance(8) {
        let made = kept.compiler.compile(&kept.kernel).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(made, kept.artifact);
        assert_eq!(kept.store.load(&kept.key).as_ref(), Some(&kept.entry));
    }
    whole
}
