//! The chips.

use std::fmt;

/// A chip of the CDNA family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Chip {
    /// CDNA2: MI210, MI250, MI250X.
    Gfx90a,
    /// CDNA3: MI300A, MI300X, MI325X.
    Gfx942,
    /// CDNA4: MI350X, MI355X.
    Gfx950,
}

impl Chip {
    /// All of them.
    pub const ALL: [Chip; 3] = [Chip::Gfx90a, Chip::Gfx942, Chip::Gfx950];

    /// Its name, as assemblers have it.
    pub const fn name(self) -> &'static str {
        match self {
            Chip::Gfx90a => "gfx90a",
            Chip::Gfx942 => "gfx942",
            Chip::Gfx950 => "gfx950",
        }
    }

    /// The chip of that name.
    pub fn by_name(name: &str) -> Option<Chip> {
        Chip::ALL.into_iter().find(|c| c.name() == name)
    }
}

impl fmt::Display for Chip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
