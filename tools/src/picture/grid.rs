//! Tiles on paper: elements of any shape as rows and columns, and the part of them that is drawn.

use std::fmt;
use std::ops::Range;

/// Elements of a tile that a picture looks at, at most.
pub(crate) const MOST_ELEMENTS: u64 = 1 << 22;

/// Cells that are drawn unless a window says otherwise.
pub(crate) const USUAL_CELLS: usize = 4096;

/// Why a picture can't be drawn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PictureError {
    /// The tile has too many elements.
    TooLarge {
        /// How many.
        elements: u64,
    },
    /// The window shows nothing of the tile.
    Empty {
        /// What was asked for: `rows` or `columns`.
        what: &'static str,
        /// Which.
        asked: Range<u32>,
        /// How many there are.
        have: u32,
    },
    /// An access over another shape than the memory's.
    Access {
        /// The memory's.
        memory: Vec<u32>,
        /// The access's.
        access: Vec<u32>,
    },
}

impl fmt::Display for PictureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PictureError::TooLarge { elements } => {
                write!(
                    f,
                    "a tile of {elements} elements can't be drawn; at most {MOST_ELEMENTS} can: draw a smaller one with the same layout"
                )
            }
            PictureError::Empty { what, asked, have } => {
                let Range { start, end } = asked;
                write!(f, "--{what} {start}..{end} shows nothing of a tile of {have} {what}; choose some from 0..{have}")
            }
            PictureError::Access { memory, access } => {
                write!(f, "the access is of a tile of {access:?} and the memory holds {memory:?}; write a layout of that shape")
            }
        }
    }
}

impl std::error::Error for PictureError {}

/// What of a tile is drawn; absent: all, or as much as is clear.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Window {
    /// Rows: all dimensions but the last, counted in row-major order.
    pub(crate) rows: Option<Range<u32>>,
    /// Columns: the last dimension.
    pub(crate) columns: Option<Range<u32>>,
}

/// A tile as rows and columns.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub(crate) shape: Vec<u32>,
    pub(crate) rows: u32,
    pub(crate) columns: u32,
}

impl Grid {
    /// A tile of a shape.
    ///
    /// # Errors
    /// It is too large.
    pub(crate) fn of(shape: &[u32]) -> Result<Grid, PictureError> {
        let elements = shape.iter().fold(1u64, |n, &e| n.saturating_mul(u64::from(e)));
        if elements > MOST_ELEMENTS {
            return Err(PictureError::TooLarge { elements });
        }
        let columns = shape.last().copied().unwrap_or(1).max(1);
        Ok(Grid { shape: shape.to_vec(), rows: (elements / u64::from(columns)) as u32, columns })
    }

    /// The element in a row and a column.
    pub(crate) fn coord(&self, row: u32, column: u32) -> Vec<u32> {
        let mut rest = row;
        let lead = &self.shape[..self.shape.len().saturating_sub(1)];
        let mut coord: Vec<u32> = lead.iter().rev().map(|&e| (rest % e, rest /= e).0).collect();
        coord.reverse();
        coord.extend((!self.shape.is_empty()).then_some(column));
        coord
    }

    /// The number of an element in row-major order.
    pub(crate) fn index(&self, coord: &[u32]) -> usize {
        coord.iter().zip(&self.shape).fold(0, |n, (&c, &e)| n * e as usize + c as usize)
    }

    /// The first column's element, as a row is called.
    pub(crate) fn row_name(&self, row: u32) -> String {
        let coord = self.coord(row, 0);
        let lead: Vec<String> = coord[..coord.len().saturating_sub(1)].iter().map(u32::to_string).collect();
        lead.join(",")
    }

    /// The rows and columns that are drawn, where `cells` says how many cells a row of so many columns takes, about.
    ///
    /// # Errors
    /// The window shows nothing.
    pub(crate) fn part(&self, window: &Window, cells: impl Fn(u32) -> usize) -> Result<[Range<u32>; 2], PictureError> {
        let columns = clipped(window.columns.clone(), self.columns, "columns")?;
        let usual = || {
            let each = cells(columns.end - columns.start).max(1);
            0..self.rows.min((USUAL_CELLS / each).max(1) as u32)
        };
        let rows = match &window.rows {
            Some(rows) => clipped(Some(rows.clone()), self.rows, "rows")?,
            None => usual(),
        };
        Ok([rows, columns])
    }

    /// What is left out, for the caption.
    pub(crate) fn left_out(&self, [rows, columns]: &[Range<u32>; 2]) -> Option<String> {
        let whole = rows.len() as u32 == self.rows && columns.len() as u32 == self.columns;
        (!whole).then(|| {
            format!(
                "shown: rows {}..{} of {}, columns {}..{} of {}",
                rows.start, rows.end, self.rows, columns.start, columns.end, self.columns
            )
        })
    }
}

fn clipped(asked: Option<Range<u32>>, have: u32, what: &'static str) -> Result<Range<u32>, PictureError> {
    let asked = asked.unwrap_or(0..have);
    if asked.start >= asked.end.min(have) {
        return Err(PictureError::Empty { what, asked, have });
    }
    Ok(asked.start..asked.end.min(have))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_a_row_and_a_column_and_windows_are_clipped() {
        let g = Grid::of(&[2, 3, 4]).unwrap();
        assert_eq!((g.rows, g.columns, g.coord(5, 2), g.index(&[1, 2, 2]), g.row_name(4)), (6, 4, vec![1, 2, 2], 22, "1,1".to_owned()));
        assert_eq!(Grid::of(&[]).unwrap().coord(0, 0), Vec::<u32>::new());
        let part = |rows, columns| g.part(&Window { rows, columns }, |c| c as usize);
        assert_eq!(part(Some(4..9), None), Ok([4..6, 0..4]));
        assert_eq!(part(None, None), Ok([0..6, 0..4]));
        let e = part(None, Some(4..5)).unwrap_err();
        assert!(e.to_string().contains("--columns 4..5") && e.to_string().contains("0..4"), "{e}");
        assert!(matches!(Grid::of(&[1 << 12, 1 << 12]), Err(PictureError::TooLarge { .. })));
    }
}
