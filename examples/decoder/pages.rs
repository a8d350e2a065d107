//! Pages of the cache, and which sequence has which.

/// Pages that nobody has, and the tables of sequences.
pub(crate) struct Pages {
    free: Vec<u32>,
    /// Tokens of a page.
    size: u32,
    /// Most pages of a sequence.
    most: usize,
    pub tables: Vec<Vec<u32>>,
}

impl Pages {
    /// So many pages, which are given out in no order that a kernel could rely on.
    pub fn new(count: u32, size: u32, most: usize, sequences: usize) -> Pages {
        // A step that has no divisor in common with the number of pages visits all of them.
        let step = (1..).map(|n| 7 * n + 4).find(|&s| gcd(s, count.max(1)) == 1).unwrap_or(1);
        let free = (0..count).map(|n| (u64::from(n) * u64::from(step) % u64::from(count)) as u32).collect();
        Pages { free, size, most, tables: vec![Vec::new(); sequences] }
    }

    /// Sees to it that a sequence has room for so many tokens.
    pub fn reserve(&mut self, sequence: usize, tokens: u32) -> Result<(), String> {
        let want = tokens.div_ceil(self.size) as usize;
        if want > self.most {
            return Err(format!("sequence {sequence} wants {want} pages; a table has {}", self.most));
        }
        while self.tables[sequence].len() < want {
            let page = self.free.pop().ok_or("all pages of the cache are taken")?;
            self.tables[sequence].push(page);
        }
        Ok(())
    }

    /// A sequence has ended: others may have its pages.
    pub fn release(&mut self, sequence: usize) {
        self.free.append(&mut self.tables[sequence]);
    }

    /// All tables as one matrix; what no sequence has is page 0, which nobody reads there.
    pub fn matrix(&self) -> Vec<i32> {
        let of = |table: &Vec<u32>| {
            let mut row: Vec<i32> = table.iter().map(|&p| p as i32).collect();
            row.resize(self.most, 0);
            row
        };
        self.tables.iter().flat_map(of).collect()
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
