//! A store in a folder.
//!
//! ```text
//! FOLDER/ab/ab12….tile-artifact      an entry
//! FOLDER/ab/.new-PID-N-TIME          one that is being written: renamed when it is whole, so that readers see all of it or nothing
//! ```
//!
//! Several processes may share a folder. Nothing is locked: writers of one key write the same bytes.

use super::store::{Store, StoreError};
use crate::key::Key;
use std::fs::{self, File, FileTimes};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Bytes of entries, unless another limit is given.
const LIMIT: u64 = 2 << 30;
/// The largest entry.
const LARGEST: u64 = 256 << 20;
/// Saves after which the folder is looked through again: others write to it, too.
const LOOK: u64 = 256;
/// After so long, what was never finished is garbage.
const ABANDONED: Duration = Duration::from_secs(3600);
const SUFFIX: &str = "tile-artifact";
const NEW: &str = ".new-";

/// Keeps entries as files of a folder, up to a number of bytes in all (2 GiB); what was not used for longest goes first. The folder is made when
/// something is kept. A folder that can't be read or written is an empty one.
///
/// Who may write to the folder may put code into the process: it should be the user's own. It is made so (mode 700) where the system has modes.
#[derive(Debug)]
pub struct DirectoryStore {
    folder: PathBuf,
    limit: u64,
    /// Bytes of the entries when it was last looked, and those written since.
    bytes: Mutex<Option<u64>>,
    saves: AtomicU64,
}

/// An entry in the folder.
struct Entry {
    used: SystemTime,
    bytes: u64,
    path: PathBuf,
}

impl DirectoryStore {
    /// A store in a folder, which need not exist.
    pub fn new(folder: impl Into<PathBuf>) -> DirectoryStore {
        DirectoryStore { folder: folder.into(), limit: LIMIT, bytes: Mutex::new(None), saves: AtomicU64::new(0) }
    }

    /// With another limit, in bytes.
    pub fn limit(mut self, bytes: u64) -> DirectoryStore {
        self.limit = bytes;
        self
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a key's entry is.
    pub fn path(&self, key: &Key) -> PathBuf {
        let name = key.to_string();
        self.folder.join(&name[..2]).join(format!("{name}.{SUFFIX}"))
    }

    fn write(&self, key: &Key, bytes: &[u8]) -> std::io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let path = self.path(key);
        let folder = path.parent().unwrap_or(&self.folder);
        make_private(folder)?;
        // Machines that share a folder have processes of one number.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        let new = folder.join(format!("{NEW}{}-{}-{now}", std::process::id(), NUMBER.fetch_add(1, Relaxed)));
        let written = write_new(&new, bytes).and_then(|()| fs::rename(&new, &path));
        if written.is_err() {
            // What is not whole is in nobody's way, but takes room.
            let _ = fs::remove_file(&new);
        }
        written
    }

    /// Counts what was written, and makes room if it is too much.
    fn account(&self, written: u64) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let look = self.saves.fetch_add(1, Relaxed).is_multiple_of(LOOK);
        let known = match *bytes {
            Some(n) if !look => n + written,
            Some(_) | None => self.entries().iter().map(|e| e.bytes).sum(),
        };
        *bytes = Some(if known > self.limit { self.shrink() } else { known });
    }

    /// Removes what was not used for longest until a fifth is free; the bytes that stay.
    fn shrink(&self) -> u64 {
        let mut entries = self.entries();
        entries.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
        let mut bytes: u64 = entries.iter().map(|e| e.bytes).sum();
        for e in entries {
            if bytes <= self.limit / 5 * 4 {
                break;
            }
            if fs::remove_file(&e.path).is_ok() {
                bytes -= e.bytes;
            }
        }
        bytes
    }

    /// All entries; what was abandoned half-written is removed.
    fn entries(&self) -> Vec<Entry> {
        let mut found = Vec::new();
        let now = SystemTime::now();
        for folder in files(&self.folder) {
            for path in files(&folder) {
                let Ok(meta) = fs::symlink_metadata(&path) else { continue };
                let (Ok(used), true) = (meta.modified(), meta.is_file()) else { continue };
                let new = path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(NEW));
                if new && now.duration_since(used).is_ok_and(|age| age > ABANDONED) {
                    let _ = fs::remove_file(&path);
                } else if !new && path.extension().is_some_and(|e| e == SUFFIX) {
                    found.push(Entry { used, bytes: meta.len(), path });
                }
            }
        }
        found
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).map(|d| d.filter_map(|e| Some(e.ok()?.path())).collect()).unwrap_or_default()
}

/// Makes a folder, and those around it, for the user alone.
fn make_private(folder: &Path) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(folder)
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)
}

impl Store for DirectoryStore {
    fn load(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.path(key);
        // Opening a pipe would wait for somebody to write.
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let file = File::open(&path).ok()?;
        let len = file.metadata().ok()?.len();
        if len > LARGEST {
            return None;
        }
        let mut bytes = Vec::with_capacity(len as usize);
        (&file).take(LARGEST).read_to_end(&mut bytes).ok()?;
        // It was used now; where that can't be written down, it may go early.
        let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
        Some(bytes)
    }

    fn save(&self, key: &Key, bytes: &[u8]) -> Result<(), StoreError> {
        let len = bytes.len() as u64;
        if len > LARGEST.min(self.limit) {
            return Err(StoreError::new(format!("an entry of {len} bytes is larger than the store takes")));
        }
        self.write(key, bytes).map_err(|e| StoreError::new(format!("{}: {e}", self.path(key).display())))?;
        self.account(len);
        Ok(())
    }

    fn remove(&self, key: &Key) {
        let _ = fs::remove_file(self.path(key));
    }
}
