//! Stores that are damaged in every way: no wrong load, no error.

use crate::{Folder, Rng, kernels};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tilelift::{Artifact, Compiler, DirectoryStore, Key, Store};

const KERNELS: usize = 10;

struct Kept {
    folder: Folder,
    kernels: Vec<tilelift::ir::Kernel>,
    right: Vec<Artifact>,
    paths: Vec<PathBuf>,
}

fn compiler(store: Arc<dyn Store>) -> Compiler {
    Compiler::builder("sm_80").store(store).build().unwrap_or_else(|e| panic!("{e}"))
}

fn kept() -> Kept {
    let (folder, kernels) = (Folder::new("damage"), kernels(KERNELS));
    let store = Arc::new(DirectoryStore::new(&folder.0));
    let first = compiler(store.clone());
    let right: Vec<Artifact> = kernels.iter().map(|k| (*first.compile(k).unwrap_or_else(|e| panic!("{e}"))).clone()).collect();
    let paths = right.iter().map(|a| store.path(&a.key.expect("a compiler made it"))).collect();
    Kept { folder, kernels, right, paths }
}

/// 10,000 files, each damaged in one way, then asked for.
#[test]
fn damaged_files_are_compiled_anew() {
    let kept = kept();
    let whole: Vec<Vec<u8>> = kept.paths.iter().map(|p| fs::read(p).unwrap_or_else(|e| panic!("{}: {e}", p.display()))).collect();
    let mut rng = Rng::new(7);
    let mut ways = [0u32; 9];
    // The contents are the same whatever is compiled, so most rounds ask the store alone: a compile each would take minutes.
    let reader = compiler(Arc::new(DirectoryStore::new(&kept.folder.0)));
    let mut discarded = 0;
    for round in 0..10_000 {
        let n = rng.below(KERNELS as u64) as usize;
        let (path, bytes) = (&kept.paths[n], &whole[n]);
        let at = |rng: &mut Rng| rng.below(bytes.len() as u64) as usize;
        let mut damaged = bytes.clone();
        let way = rng.below(9) as usize;
        match way {
            0 => damaged.truncate(at(&mut rng)),
            1 => damaged[at(&mut rng)] ^= 1 << rng.below(8),
            // Another's entry.
            2 => damaged.clone_from(&whole[(n + 1 + rng.below(KERNELS as u64 - 1) as usize) % KERNELS]),
            // An older or newer version of the envelope.
            3 => damaged[8] = damaged[8].wrapping_add(1 + rng.below(255) as u8),
            4 => damaged.extend((0..1 + rng.below(64)).map(|_| rng.below(256) as u8)),
            // A hole of zeros, as some file systems leave behind when power fails.
            5 => {
                let (a, b) = (at(&mut rng), at(&mut rng));
                damaged[a.min(b)..=a.max(b)].fill(0);
            }
            6 => damaged.fill_with(|| rng.below(256) as u8),
            // Two halves of different entries.
            7 => {
                let other = &whole[(n + 1) % KERNELS];
                let cut = at(&mut rng).min(other.len());
                damaged.splice(cut.., other[cut..].iter().copied());
            }
            _ => damaged.clear(),
        }
        ways[way] += 1;
        let right = damaged == *bytes;
        fs::write(path, &damaged).unwrap_or_else(|e| panic!("{e}"));
        let key = kept.right[n].key.expect("it has one");
        reader.clear_memory();
        let got = reader.get(&key);
        assert_eq!(got.as_deref(), right.then_some(&kept.right[n]), "round {round}, way {way}");
        discarded += u64::from(!right);
        if round % 50 == 0 {
            let made = reader.compile(&kept.kernels[n]);
            assert_eq!(made.as_deref(), Ok(&kept.right[n]), "round {round}, way {way}");
            // It is whole again.
            assert_eq!(fs::read(path).ok().as_ref(), Some(bytes));
        }
    }
    assert!(ways.iter().all(|&n| n > 500), "{ways:?}");
    let stats = reader.stats();
    assert_eq!((stats.discarded, stats.failures, stats.store_errors), (discarded, 0, 0), "{stats:?}");
}

/// What is no file, can't be read or can't be written.
#[test]
fn odd_folders_are_empty_stores() {
    let kept = kept();
    let ask = |store: DirectoryStore, n: usize| {
        let c = compiler(Arc::new(store));
        assert_eq!(c.compile(&kept.kernels[n]).as_deref(), Ok(&kept.right[n]));
        c.stats()
    };
    // A folder in the place of an entry: neither read nor replaced.
    fs::remove_file(&kept.paths[0]).unwrap_or_else(|e| panic!("{e}"));
    fs::create_dir_all(kept.paths[0].join("x")).unwrap_or_else(|e| panic!("{e}"));
    let stats = ask(DirectoryStore::new(&kept.folder.0), 0);
    assert_eq!((stats.compiles, stats.store_errors), (1, 1));
    // A file in the place of the store, and a folder that nobody can make.
    let file = kept.folder.0.join("file");
    fs::write(&file, "x").unwrap_or_else(|e| panic!("{e}"));
    for folder in [file.clone(), file.join("below"), PathBuf::from("/proc/tilelift/none")] {
        let stats = ask(DirectoryStore::new(folder), 1);
        assert_eq!((stats.compiles, stats.store_errors, stats.store_hits), (1, 1, 0));
    }
    // An entry that is larger than the store.
    let stats = ask(DirectoryStore::new(kept.folder.0.join("small")).limit(100), 2);
    assert_eq!((stats.compiles, stats.store_errors), (1, 1));
    #[cfg(unix)]
    {
        use std::os::unix::fs::{PermissionsExt, symlink};
        // A link that leads to itself, and one to a device that never ends.
        for to in [kept.paths[3].clone(), PathBuf::from("/dev/zero")] {
            let _ = fs::remove_file(&kept.paths[3]);
            symlink(&to, &kept.paths[3]).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(ask(DirectoryStore::new(&kept.folder.0), 3).compiles, 1);
        }
        // A folder that may only be read (not by root, who may all): what is there is found, what is not is compiled.
        let folder = kept.paths[4].parent().expect("it is in one").to_path_buf();
        let mode = |m| fs::set_permissions(&folder, fs::Permissions::from_mode(m)).unwrap_or_else(|e| panic!("{e}"));
        mode(0o500);
        assert_eq!(ask(DirectoryStore::new(&kept.folder.0), 4).store_hits, 1);
        fs::remove_file(&kept.paths[4]).ok();
        let stats = ask(DirectoryStore::new(&kept.folder.0), 4);
        assert_eq!(stats.compiles + stats.store_hits, 1);
        mode(0o700);
    }
}

#[test]
fn a_store_keeps_to_its_limit_and_the_last_used_stay() {
    let folder = Folder::new("limit");
    let store = DirectoryStore::new(&folder.0).limit(10_000);
    let key = |n: u64| Key::from_bytes([n as u8; 32]);
    for n in 0..10 {
        store.save(&key(n), &[n as u8; 1000]).unwrap_or_else(|e| panic!("{e}"));
        std::thread::sleep(std::time::Duration::from_millis(15));
    }
    assert!((0..10).all(|n| store.load(&key(n)).is_some_and(|b| b == [n as u8; 1000])));
    std::thread::sleep(std::time::Duration::from_millis(15));
    assert!(store.load(&key(0)).is_some());
    store.save(&key(10), &[10; 1000]).unwrap_or_else(|e| panic!("{e}"));
    let left: Vec<u64> = (0..=10).filter(|&n| store.path(&key(n)).exists()).collect();
    assert_eq!(left, [0, 4, 5, 6, 7, 8, 9, 10]);
    // What somebody left half-written goes when it is old; what is new is somebody's at work.
    let (old, new) = (folder.0.join("00/.new-1-1"), folder.0.join("00/.new-1-2"));
    for path in [&old, &new] {
        fs::write(path, [0; 100]).unwrap_or_else(|e| panic!("{e}"));
    }
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    fs::File::options().write(true).open(&old).and_then(|f| f.set_modified(long_ago)).unwrap_or_else(|e| panic!("{e}"));
    DirectoryStore::new(&folder.0).limit(10_000).save(&key(11), &[11; 10]).unwrap_or_else(|e| panic!("{e}"));
    assert!(!old.exists() && new.exists());
}
