//! Many texts: 32 of an architecture are assembled together, and disassembled together, since either tool takes longer to start than for a text.
//!
//! ```text
//! add ── waits until there are 32 ──► ptxas, once ──► one object ──► nvdisasm, once ──► operands, text by text
//!                                       └ anything to tell of one of them: each alone, so that it is told of that one
//! ```

use crate::assemble::{AsmReport, asks_for_following, assemble, assembled_all};
use crate::error::AsmError;
use crate::follow::follow;
use crate::nvdisasm::disassemble_functions;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// As many as make a start cheap, and keep texts and objects small.
const MANY: usize = 32;

/// In front of the name of a kernel, which several texts may have, stands a number.
const ENTRY: &str = ".visible .entry ";

/// A text that is to be assembled.
struct Waiting {
    /// What its test calls it.
    name: String,
    text: String,
}

impl Waiting {
    /// The text, its kernel with a number in front of its name; `None` if it has not one kernel.
    fn numbered(&self, number: usize) -> Option<(String, String)> {
        let (front, behind) = self.text.split_once(ENTRY)?;
        let kernel = format!("n{number}_{}", behind.split('(').next()?.trim());
        (!behind.contains(ENTRY)).then(|| (kernel, format!("{front}{ENTRY}n{number}_{behind}")))
    }
}

/// What a text must not have besides warnings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spills {
    /// Registers in memory are as good as others.
    Allowed,
    /// Nothing may be in memory that a register could hold.
    Refused,
}

/// Texts that wait to be assembled. Threads may share it.
///
/// What is found is told by [`Batch::finish`], so each batch has to be finished.
#[must_use = "what is found is told at the end"]
pub struct Batch {
    spills: Spills,
    /// Texts that are assembled together.
    many: usize,
    /// By architecture.
    waiting: Mutex<BTreeMap<String, Vec<Waiting>>>,
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
    /// [`AsmError::Missing`] without an assembler, [`AsmError::NoDisassembler`] if there is something to follow without a disassembler although
    /// oracles are required, [`AsmError::Io`] otherwise. What is wrong with a text is no error: it is found.
    pub fn add(&self, name: &str, text: &str, arch: &str) -> Result<(), AsmError> {
        let full = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let list = waiting.entry(arch.to_owned()).or_default();
            list.push(Waiting { name: name.to_owned(), text: text.to_owned() });
            if list.len() < self.many { Vec::new() } else { std::mem::take(list) }
        };
        self.judge(&full, arch)
    }

    /// Assembles texts together, and each alone if there is something to tell.
    fn judge(&self, all: &[Waiting], arch: &str) -> Result<(), AsmError> {
        if all.is_empty() || self.are_right(all, arch)? {
            return Ok(());
        }
        for one in all {
            let found = match assemble(&one.text, arch) {
                Ok(report) if self.is_right(&report) => continue,
                Ok(report) => format!("{report:?}"),
                Err(AsmError::Refused(log)) => AsmError::Refused(log).to_string(),
                Err(e) => return Err(e),
            };
            self.found.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{}: {arch}: {found}", one.name));
        }
        Ok(())
    }

    fn is_right(&self, report: &AsmReport) -> bool {
        report.warnings.is_empty() && (self.spills == Spills::Allowed || report.spills == 0 && report.stack == 0)
    }

    /// True if nothing is to tell of any of the texts.
    fn are_right(&self, all: &[Waiting], arch: &str) -> Result<bool, AsmError> {
        let Some(numbered) = all.iter().enumerate().map(|(n, one)| one.numbered(n)).collect::<Option<Vec<_>>>() else { return Ok(false) };
        let texts: Vec<&str> = numbered.iter().map(|(_, text)| text.as_str()).collect();
        let object = match assembled_all(&texts, arch) {
            Ok((report, object)) if self.is_right(&report) => object,
            Ok(_) | Err(AsmError::Refused(_)) => return Ok(false),
            Err(e) => return Err(e),
        };
        let followed: Vec<&(String, String)> = numbered.iter().filter(|(_, text)| asks_for_following(text)).collect();
        if followed.is_empty() {
            return Ok(true);
        }
        let functions = disassemble_functions(&object, arch, |name| followed.iter().any(|(kernel, _)| kernel == name))?;
        Ok(followed.iter().all(|(kernel, text)| functions.get(kernel).is_some_and(|sass| follow(text, sass).is_empty())))
    }

    /// Assembles what waits; what has been found in all texts, a line each.
    ///
    /// # Errors
    /// As [`Batch::add`].
    pub fn finish(self) -> Result<Vec<String>, AsmError> {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.iter().try_for_each(|(arch, all)| self.judge(all, arch))?;
        Ok(std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner)))
    }
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
    use crate::ptxas::ptxas;
    use crate::required::required;

    /// A kernel with so many products of a sum in a loop, and between them as many places in memory as that takes.
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

    fn has_tools() -> bool {
        let has = ptxas().is_some() && nvdisasm().is_some();
        assert!(has || !required(), "ptxas or nvdisasm is missing");
        has
    }

    /// Texts in whose place others were assembled are not theirs: the same comparison of text and object that is made of each.
    #[test]
    fn products_are_followed_in_an_object_of_many() {
        if !has_tools() {
            return;
        }
        let all: Vec<Waiting> = (0..11).map(|n| Waiting { name: String::new(), text: text("k", 1 + n % 3) }).collect();
        let batch = Batch::of(Spills::Refused, 4);
        assert!(batch.are_right(&all, "sm_90a").unwrap());
        let numbered: Vec<(String, String)> = all.iter().enumerate().map(|(n, one)| one.numbered(n).unwrap()).collect();
        let texts: Vec<&str> = numbered.iter().map(|(_, text)| text.as_str()).collect();
        let (_, object) = assembled_all(&texts, "sm_90a").unwrap();
        let functions = disassemble_functions(&object, "sm_90a", |_| true).unwrap();
        assert_eq!(functions.len(), 11);
        for (n, (kernel, own)) in numbered.iter().enumerate() {
            assert!(follow(own, &functions[kernel]).is_empty(), "{kernel}");
            let (_, other) = Waiting { name: String::new(), text: text("k", 2 + n % 3) }.numbered(n).unwrap();
            let found: Vec<String> = follow(&other, &functions[kernel]).iter().map(ToString::to_string).collect();
            let wanted = format!("{} matrix instructions in the text, {} in the object", 2 + n % 3, 1 + n % 3);
            assert!(matches!(&found[..], [one] if one.contains(&wanted)), "{kernel}: {found:?}");
        }
        assert!(batch.finish().unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_with_one_of_many_is_told_of_that_one() {
        if !has_tools() {
            return;
        }
        let batch = Batch::of(Spills::Refused, 4);
        for n in 0..11 {
            // One is refused, one has a product that waits for nobody, which is told as advice.
            let text = match n {
                3 => text("k", 1).replace("ret;", "retire;"),
                7 => text("k", 2).replace("\twgmma.fence.sync.aligned;\n", ""),
                _ => text("k", 1 + n % 3),
            };
            batch.add(&format!("test {n}"), &text, "sm_90a").unwrap();
        }
        let found = batch.finish().unwrap();
        let begins: Vec<&str> = found.iter().map(|f| f.split(" or ").next().unwrap_or(f).split('{').next().unwrap_or(f).trim()).collect();
        assert_eq!(begins, ["test 3: sm_90a: ptxas", "test 7: sm_90a: AsmReport"], "{found:?}");
    }

    #[test]
    #[should_panic(expected = "was not finished")]
    fn a_batch_has_to_be_finished() {
        let batch = Batch::new(Spills::Allowed);
        batch.found.lock().unwrap().push("something".into());
    }
}
