//! Which launches of an author's kernels are benched: `; run:` lines of the kernels' file, lines of a file of launches, or of the command line.
//!
//! ```text
//! # a comment, as is a line that begins with `;` and is no `; run:` line
//! prefill: @k(grid=[64, 32, 1], v0=rand:1[4096x8192], out v1=[4096])     of prefill.tile, where a file holds launches of several
//! @k(grid=4, v0=file:x.bin[4096], out v1=[4096]) ~= v1 file:y.bin tol rel=1e-2
//! ```

use crate::filetest::runline::{self, ArgSpec, RunLine};
use tilelift_ir::{Extent, Kernel, Type, ViewType};

/// The most elements of a tensor: what an index of 32 bits can reach.
const MOST: i64 = i32::MAX as i64;
/// The sign of a launch in a `.tile` text.
const RUN: &str = "; run:";

/// A launch that is asked for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Asked {
    /// The file that it is for, without its ending; any file if it names none.
    pub(crate) name: Option<String>,
    /// The launch.
    pub(crate) run: RunLine,
}

/// One launch, as on the command line.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn one(line: u32, text: &str) -> Result<Asked, String> {
    let (name, launch) = match text.split_once('@').map(|(front, _)| (front.trim(), &text[front.len()..])) {
        Some(("", launch)) => (None, launch),
        Some((front, launch)) => match front.strip_suffix(':') {
            Some(name) if !name.contains(|c: char| c.is_whitespace() || c == ':') => (Some(name.to_owned()), launch),
            Some(_) | None => {
                return Err(format!("`{front}` stands in front of the launch; write `NAME: @kernel(grid=…, …)` or leave it out"));
            }
        },
        None => return Err("there is no launch; write `@kernel(grid=[4, 1], v0=rand:1[64x128], out v1=[64])`".to_owned()),
    };
    Ok(Asked { name, run: runline::parse_within(line, launch, MOST).map_err(|e| e.to_string())? })
}

/// The launches of a file of launches.
///
/// # Errors
/// Lines, and what is wrong with each.
pub(crate) fn listed(text: &str) -> Result<Vec<Asked>, Vec<(u32, String)>> {
    let lines = (1..).zip(text.lines()).filter_map(|(n, line)| {
        let line = line.trim();
        match line.strip_prefix(RUN) {
            Some(run) => Some((n, run)),
            None if line.is_empty() || line.starts_with(['#', ';']) => None,
            None => Some((n, line)),
        }
    });
    all(lines)
}

/// The launches of a `.tile` text; those that must be refused are left out.
///
/// # Errors
/// As [`listed`].
pub(crate) fn in_tile(text: &str) -> Result<Vec<Asked>, Vec<(u32, String)>> {
    let lines = (1..).zip(text.lines()).filter_map(|(n, line)| Some((n, line.trim().strip_prefix(RUN)?)));
    all(lines).map(|mut list| {
        list.retain(|a| a.run.fails.is_none());
        list
    })
}

fn all<'t>(lines: impl Iterator<Item = (u32, &'t str)>) -> Result<Vec<Asked>, Vec<(u32, String)>> {
    let (mut list, mut wrong) = (Vec::new(), Vec::new());
    for (n, line) in lines {
        match one(n, line) {
            Ok(asked) => list.push(asked),
            Err(e) => wrong.push((n, e)),
        }
    }
    if wrong.is_empty() { Ok(list) } else { Err(wrong) }
}

/// Those for a file of that name, without its ending.
///
/// # Errors
/// There is none; names that there are.
pub(crate) fn of_file(list: Vec<Asked>, stem: &str) -> Result<Vec<Asked>, String> {
    let names: Vec<String> = list.iter().filter_map(|a| a.name.clone()).collect();
    let own: Vec<Asked> = list.into_iter().filter(|a| a.name.as_deref().is_none_or(|n| n == stem)).collect();
    match own.is_empty() {
        false => Ok(own),
        true if names.is_empty() => Err("there is no launch in it".to_owned()),
        true => Err(format!("no launch is for `{stem}`; there are some for {}", names.join(", "))),
    }
}

/// A launch whose dense tensors have as many extents as the kernel's views: where they differ, extents are joined and split as the fixed ones of the view
/// ask for. What does not come out even stays, and is refused as any wrong shape.
pub(crate) fn regrouped(mut run: RunLine, kernel: &Kernel) -> RunLine {
    for (spec, &param) in run.args.iter_mut().zip(&kernel.params) {
        if let (ArgSpec::Tensor(t), Type::View(view)) = (spec, kernel.ty(param))
            && t.strides.is_none()
            && t.shape.len() != view.rank()
            && let Some(shape) = as_view(&t.shape, view)
        {
            t.shape = shape;
        }
    }
    run
}

/// Extents of a dense tensor as those of a view, from the innermost on; none if they do not come out even.
fn as_view(shape: &[i64], view: &ViewType) -> Option<Vec<i64>> {
    let mut left = shape.iter().rev();
    let mut rest = 1;
    let mut out = Vec::new();
    for dim in view.dims.iter().rev() {
        match *dim {
            Extent::Fixed(n) => {
                let n = i64::from(n);
                while n > 0 && (rest < n || rest % n != 0) {
                    rest *= left.next()?;
                }
                out.push(n);
                rest = rest.checked_div(n)?;
            }
            Extent::Dynamic(_) => {
                let whole = if rest == 1 { *left.next()? } else { rest };
                out.push(whole);
                rest = 1;
            }
        }
    }
    out.reverse();
    (rest == 1 && left.all(|&e| e == 1)).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# what was timed\n\nprefill: @w4(grid=[64, 32, 1], v0=rand:1[4096x8192], out v1=[4096x8192])\n; prose\n\
                        decode: @w4(grid=1, v0=rand:1[16x8192], out v1=[16x8192])\n; run: @both(grid=2)\n";

    #[test]
    fn lines_are_for_the_file_that_they_name_or_for_any() {
        let list = listed(LIST).unwrap();
        assert_eq!(list.iter().map(|a| a.run.line).collect::<Vec<_>>(), [3, 5, 6]);
        let own = of_file(list.clone(), "decode").unwrap();
        assert_eq!(own.iter().map(|a| a.run.kernel.as_str()).collect::<Vec<_>>(), ["w4", "both"]);
        let named: Vec<Asked> = list.into_iter().filter(|a| a.name.is_some()).collect();
        assert!(of_file(named, "conv").unwrap_err().contains("prefill, decode"));
        assert!(of_file(Vec::new(), "conv").unwrap_err().contains("no launch"));
    }

    #[test]
    fn tensors_beyond_those_of_file_tests_are_taken() {
        let paged = one(1, "@k(grid=[4, 8, 64], v0=rand:2[8192x64x8x128], v1=0.0883883461)").unwrap();
        assert_eq!(paged.run.args.len(), 2);
        assert!(one(1, "@k(grid=1, v0=zeros[65536x65536])").unwrap_err().contains("may ask for 2147483647"));
    }

    #[test]
    fn mistakes_have_their_lines_and_remedies() {
        let wrong = listed("@a(grid=1)\nx y: @a(grid=1)\nhello\n@a(v0=1)\n").unwrap_err();
        assert_eq!(wrong.iter().map(|w| w.0).collect::<Vec<_>>(), [2, 3, 4]);
        assert!(
            wrong[0].1.contains("NAME: @kernel") && wrong[1].1.contains("write `@kernel") && wrong[2].1.contains("`grid`"),
            "{wrong:?}"
        );
        let tile = "; prose\n; run: @a(grid=1)\nkernel @a() {\n}\n; run: @a(grid=2) fails: no\n";
        assert_eq!(in_tile(tile).unwrap().len(), 1);
    }

    #[test]
    fn extents_are_joined_and_split_as_the_view_asks() {
        let view = |dims: &[Extent]| ViewType::dense(tilelift_ir::Scalar::BF16, dims);
        let (any, fixed) = (Extent::Dynamic(1), Extent::Fixed);
        let heads = view(&[any, fixed(8), fixed(4), fixed(128)]);
        assert_eq!(as_view(&[64, 32, 128], &heads), Some(vec![64, 8, 4, 128]));
        assert_eq!(as_view(&[64, 4, 32], &view(&[any, any, fixed(8), fixed(4)])), Some(vec![64, 4, 8, 4]));
        assert_eq!(as_view(&[6, 4, 16], &view(&[any, fixed(64)])), Some(vec![6, 64]));
        assert_eq!(as_view(&[1, 6, 64], &view(&[any, fixed(64)])), Some(vec![6, 64]));
        assert_eq!(as_view(&[3, 30, 128], &heads), None);
        assert_eq!(as_view(&[2, 3, 64], &view(&[fixed(64)])), None);
        let kernel = "kernel @k(v0: view<f32, [?, 2, 3]>, v1: f32) {\n}";
        let kernel = tilelift_ir::text::parse(kernel).unwrap().kernels.remove(0);
        let run = regrouped(one(1, "@k(grid=1, v0=ones[5x6], v1=1.0)").unwrap().run, &kernel);
        assert!(matches!(&run.args[0], ArgSpec::Tensor(t) if t.shape == [5, 2, 3]));
    }
}
