//! Many texts: 32 of one architecture and one front are assembled together, and disassembled together, since either tool takes longer to start than to work
//! on one text.
//!
//! ```text
//! add ── waits until there are 32 ──► ptxas, once ──► one object ──► nvdisasm, once ──► operands, text by text
//!                                       └ anything to tell of one of them: each alone, so that it is told of that one
//! ```
//!
//! What stands in front of a text's kernel (its version, what it declares) ptxas takes for the texts behind it, too. So only texts whose fronts are the same are assembled together: none
//! finds there what it lacks.

use crate::assemble::{AsmReport, asks_for_following, assemble, assembled_all};
use crate::error::AsmError;
use crate::follow::follow;
use crate::nvdisasm::{disassemble_functions, functions};
use crate::ptxas::ptxas;
use crate::required::required;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// As many as make a start cheap, and keep texts and objects small.
const MANY: usize = 32;

/// Behind this stands the name of a kernel.
const ENTRY: &str = ".visible .entry ";

/// A text that is to be assembled.
struct Waiting {
    /// What its test calls it.
    name: String,
    text: String,
}

impl Waiting {
    /// The name of its kernel, and the text with another name; `None` if it does not have exactly one kernel.
    fn renamed(&self, other: impl FnOnce(&str) -> String) -> Option<(String, String)> {
        let (front, behind) = self.text.split_once(ENTRY)?;
        let (kernel, rest) = behind.split_at(behind.find('(')?);
        let name = other(kernel);
        (!behind.contains(ENTRY)).then(|| (name.clone(), format!("{front}{ENTRY}{name}{rest}")))
    }
}

/// Texts under one another's names: the first of a name keeps it, the others have a number.
fn apart(all: &[Waiting]) -> Option<Vec<(String, String)>> {
    let mut names = BTreeSet::new();
    let renamed = |(n, one): (usize, &Waiting)| {
        one.renamed(|kernel| {
            let mut name = kernel.to_owned();
            while !names.insert(name.clone()) {
                name = format!("n{n}_{name}");
            }
            name
        })
    };
    all.iter().enumerate().map(renamed).collect()
}

/// What stands in front of the kernel of a text but for comments.
fn front(text: &str) -> String {
    let front = text.split_once(ENTRY).map_or(text, |x| x.0);
    front.lines().filter(|l| !l.starts_with("//")).flat_map(|l| [l, "\n"]).collect()
}

/// Whether spills are refused besides warnings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spills {
    /// Registers in memory are as good as others.
    Allowed,
    /// Nothing may be in memory that a register could hold.
    Refused,
}

/// Texts that wait to be assembled. Threads may share it.
///
/// What is found is told by [`Batch::finish`], so each batch has to be finished. Without an assembler nothing is found, unless oracles are required.
#[must_use = "what is found is told at the end"]
pub struct Batch {
    spills: Spills,
    /// Texts that are assembled together.
    many: usize,
    /// By architecture and front.
    waiting: Mutex<BTreeMap<(String, String), Vec<Waiting>>>,
    found: Mutex<Vec<String>>,
}

impl Batch {
    /// An empty one.
    pub fn new(spills: Spills) -> Batch {
        Batch::of(spills, MANY)
    }

    /// One that assembles so many texts together.
    fn of(spills: Spills, many: usize) -> Batch {
        Batch { spills, many, waiting: Mutex::default(), found: Mutex::default() }
    }

    /// Adds a text for an architecture such as `sm_80`; what is found in it is told under a name.
    ///
    /// # Errors
    /// What keeps the tools from judging the texts that wait, of which this one may be the last: [`AsmError::Missing`] without an assembler, and
    /// [`AsmError::NoDisassembler`] without a disassembler where there is something to follow, both only if oracles are required, [`AsmError::Object`] and [`AsmError::Io`]
    /// otherwise. What is wrong with a text is no error: it is found.
    pub fn add(&self, name: &str, text: &str, arch: &str) -> Result<(), AsmError> {
        let full = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let list = waiting.entry((arch.to_owned(), front(text))).or_default();
            list.push(Waiting { name: name.to_owned(), text: text.to_owned() });
            if list.len() < self.many { Vec::new() } else { std::mem::take(list) }
        };
        self.judge(&full, arch)
    }

    /// Assembles texts together, and each alone if there is something to tell.
    fn judge(&self, all: &[Waiting], arch: &str) -> Result<(), AsmError> {
        let nobody = ptxas().is_none() && !required();
        if all.is_empty() || nobody || self.are_right(all, arch)? {
            return Ok(());
        }
        for one in all {
            let found = match assemble(&one.text, arch) {
                Ok(report) if self.is_right(&report) => continue,
                Ok(report) => format!("{report:?}"),
                Err(e @ AsmError::Refused(_)) => e.to_string(),
                Err(e) => return Err(e),
            };
            let kernel = one.renamed(str::to_owned).map_or_else(String::new, |x| format!(" @{}", x.0));
            self.found.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{}:{kernel} for {arch}: {found}", one.name));
        }
        Ok(())
    }

    fn is_right(&self, report: &AsmReport) -> bool {
        report.warnings.is_empty() && (self.spills == Spills::Allowed || report.spills == 0 && report.stack == 0)
    }

    /// True if there is nothing to tell of any text.
    fn are_right(&self, all: &[Waiting], arch: &str) -> Result<bool, AsmError> {
        let Some(texts) = apart(all) else { return Ok(false) };
        let sources: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
        match assembled_all(&sources, arch) {
            Ok((report, object)) if self.is_right(&report) => holds(&object, arch, &texts),
            Ok(_) | Err(AsmError::Refused(_)) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Assembles what waits; what has been found in all texts, an entry each.
    ///
    /// # Errors
    /// As [`Batch::add`]; what was found is lost then.
    pub fn finish(self) -> Result<Vec<String>, AsmError> {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        let judged = waiting.iter().try_for_each(|((arch, _), all)| self.judge(all, arch));
        let found = std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner));
        judged.map(|()| found)
    }
}

/// True if an object has the kernels of all texts, and the operands of their matrix instructions.
fn holds(object: &[u8], arch: &str, texts: &[(String, String)]) -> Result<bool, AsmError> {
    let made = functions(object)?;
    if !texts.iter().all(|(kernel, _)| made.contains(kernel)) {
        return Ok(false);
    }
    let followed: Vec<&(String, String)> = texts.iter().filter(|(_, text)| asks_for_following(text)).collect();
    if followed.is_empty() {
        return Ok(true);
    }
    let sass = match disassemble_functions(object, arch, |name| followed.iter().any(|(kernel, _)| kernel == name)) {
        // What can't be read together is told of each alone.
        Err(AsmError::Refused(_)) => return Ok(false),
        other => other?,
    };
    Ok(followed.iter().all(|(kernel, text)| sass.get(kernel).is_some_and(|sass| follow(text, sass).is_empty())))
}

impl Drop for Batch {
    /// A test that does not ask what was found would not fail.
    fn drop(&mut self) {
        let is_empty = self.waiting.lock().is_ok_and(|w| w.values().all(Vec::is_empty)) && self.found.lock().is_ok_and(|f| f.is_empty());
        assert!(is_empty || std::thread::panicking(), "a batch of texts was not finished");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvdisasm::nvdisasm;

    /// A kernel with so many products of a sum in a loop.
    fn text(kernel: &str, products: usize) -> String {
        let sums = (0..4).map(|i| format!("%f{i}")).collect::<Vec<_>>().join(", ");
        let product = format!("\twgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{{sums}}}, %d0, %d1, 1, 1, 1, 0, 0;\n");
        format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry {kernel}(.param .u64 p, .param .u32 n)\n{{\n\
             \t.reg .b32 %r<4>;\n\t.reg .b64 %d<4>;\n\t.reg .f32 %f<4>;\n\t.reg .pred %p;\n\
             \tld.param.u64 %d2, [p];\n\tld.param.u32 %r1, [n];\n\tmov.u32 %r0, 0;\n\tmov.u64 %d0, %d2;\n\tmov.u64 %d1, %d2;\n{}\
             AGAIN:\n\t.pragma \"nounroll\";\n\twgmma.fence.sync.aligned;\n{}\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;\n\
             \tadd.u32 %r0, %r0, 1;\n\tsetp.lt.u32 %p, %r0, %r1;\n\t@%p bra AGAIN;\n{}\tret;\n}}\n",
            (0..4).map(|i| format!("\tmov.f32 %f{i}, 0f00000000;\n")).collect::<String>(),
            product.repeat(products),
            (0..4).map(|i| format!("\tst.global.f32 [%d2+{}], %f{i};\n", 4 * i)).collect::<String>(),
        )
    }

    /// A kernel that reads shared memory, which it declares or not.
    fn shared(kernel: &str, declares: bool) -> String {
        let declared = if declares { "// shared\n.extern .shared .align 16 .b8 smem[];\n" } else { "" };
        format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n{declared}.visible .entry {kernel}(.param .u64 p)\n{{\n\
             \t.reg .b32 %r<2>;\n\t.reg .b64 %d;\n\tld.param.u64 %d, [p];\n\tmov.u32 %r0, smem;\n\tld.shared.u32 %r1, [%r0];\n\
             \tst.global.u32 [%d], %r1;\n\tret;\n}}\n"
        )
    }

    /// A kernel with bytes of its own in local memory, which count as its stack.
    fn stacked(kernel: &str) -> String {
        format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry {kernel}(.param .u64 p, .param .u32 n)\n{{\n\t.local .b8 own[64];\n\
             \t.reg .b32 %r<4>;\n\t.reg .b64 %d;\n\tld.param.u64 %d, [p];\n\tld.param.u32 %r0, [n];\n\tmov.u32 %r1, own;\n\tadd.u32 %r2, %r1, %r0;\n\
             \tst.local.u32 [%r2], %r0;\n\tld.local.u32 %r3, [%r1];\n\tst.global.u32 [%d], %r3;\n\tret;\n}}\n"
        )
    }

    fn has_tools() -> bool {
        let has = ptxas().is_some() && nvdisasm().is_some();
        assert!(has || !required(), "ptxas or nvdisasm is missing");
        has
    }

    fn found(spills: Spills, texts: &[String]) -> Vec<String> {
        let batch = Batch::of(spills, 4);
        texts.iter().enumerate().for_each(|(n, text)| batch.add(&format!("test {n}"), text, "sm_90a").unwrap());
        batch.finish().unwrap()
    }

    /// A text is compared with its own function of the common object; another text does not fit it.
    #[test]
    fn products_are_followed_in_an_object_of_many() {
        if !has_tools() {
            return;
        }
        let all: Vec<Waiting> = (0..11).map(|n| Waiting { name: String::new(), text: text("k", 1 + n % 3) }).collect();
        let texts = apart(&all).unwrap();
        assert_eq!((&*texts[0].0, &*texts[1].0, &*texts[10].0), ("k", "n1_k", "n10_k"));
        let sources: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
        let (_, object) = assembled_all(&sources, "sm_90a").unwrap();
        assert!(holds(&object, "sm_90a", &texts).unwrap());
        for n in 0..texts.len() {
            let mut other = texts.clone();
            other[n].1 = Waiting { name: String::new(), text: text("k", 2 + n % 3) }.renamed(|_| texts[n].0.clone()).unwrap().1;
            assert!(!holds(&object, "sm_90a", &other).unwrap(), "{n}");
        }
        let mut more = texts.clone();
        more.push(("other".into(), shared("other", true)));
        assert!(!holds(&object, "sm_90a", &more).unwrap());
    }

    #[test]
    fn what_is_wrong_with_one_of_many_is_told_of_that_one() {
        if !has_tools() {
            return;
        }
        // One is refused; one has products without a fence, which is told as advice.
        let texts: Vec<String> = (0..11)
            .map(|n| match n {
                3 => text("k", 1).replace("ret;", "retire;"),
                7 => text("k", 2).replace("\twgmma.fence.sync.aligned;\n", ""),
                _ => text("k", 1 + n % 3),
            })
            .collect();
        let found = found(Spills::Refused, &texts);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("test 3: @k for sm_90a: ") && found[0].contains("retire"), "{found:?}");
        assert!(found[1].starts_with("test 7: @k for sm_90a: ") && found[1].contains("(C7"), "{found:?}");
    }

    #[test]
    fn a_kernel_keeps_a_name_that_is_wrong() {
        if !has_tools() {
            return;
        }
        let found = found(Spills::Allowed, &[text("k", 1), text("WARP_SZ", 1), text("k", 2)]);
        assert!(matches!(&found[..], [one] if one.starts_with("test 1: @WARP_SZ")), "{found:?}");
    }

    #[test]
    fn no_text_finds_in_another_what_it_lacks() {
        if !has_tools() {
            return;
        }
        let old = text("k", 1).replace(".version 8.0", ".version 7.0");
        let found = found(Spills::Allowed, &[shared("a", true), shared("b", false), shared("c", true), text("k", 1), old]);
        let begin: Vec<bool> = ["test 1: @b", "test 4: @k"].iter().map(|name| found.iter().any(|f| f.starts_with(name))).collect();
        assert!(found.len() == 2 && begin == [true, true], "{found:?}");
    }

    #[test]
    fn spills_are_refused_where_they_are_not_allowed() {
        if !has_tools() {
            return;
        }
        let texts = [text("k", 1), stacked("own"), text("k", 2)];
        assert!(found(Spills::Allowed, &texts).is_empty());
        let refused = found(Spills::Refused, &texts);
        assert!(matches!(&refused[..], [one] if one.starts_with("test 1: @own")), "{refused:?}");
    }

    #[test]
    #[should_panic(expected = "was not finished")]
    fn a_batch_has_to_be_finished() {
        let batch = Batch::new(Spills::Allowed);
        batch.found.lock().unwrap().push("something".into());
    }
}
