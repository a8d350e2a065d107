//! Reading files that may have no end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The bytes of a file, a device or a pipe.
///
/// # Errors
/// What the system says, or that there are more than `most` bytes.
pub(crate) fn whole(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    limited(File::open(path)?, most)
}

/// The text of a file, as [`whole`].
///
/// # Errors
/// As [`whole`], or that it is no UTF-8.
pub(crate) fn text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(whole(path, most)?).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("is not UTF-8 text: {e}")))
}

/// All that comes from a reader.
///
/// # Errors
/// As [`whole`].
pub(crate) fn limited(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("has more than {most} bytes, which is the most that is read")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::limited;
    use std::io::{ErrorKind, repeat};

    #[test]
    fn what_has_no_end_is_refused() {
        assert_eq!(limited(repeat(b'a'), 10).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(limited(&b"0123456789"[..], 10).unwrap(), b"0123456789");
        assert_eq!(limited(&b"0123456789"[..], 9).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }
}
