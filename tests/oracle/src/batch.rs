//! Many texts: each is assembled at once, and operands are followed in 32 of them together, since the disassembler takes longer to start than for a text.

use crate::assemble::{AsmReport, asks_for_following, assembled};
use crate::error::AsmError;
use crate::follow::follow;
use crate::nvdisasm::disassemble_all;
use std::sync::{Mutex, PoisonError};

/// As many as make a start cheap, and keep texts and objects small.
const MANY: usize = 32;

/// A text whose operands are to be followed.
struct Waiting {
    /// What its test calls it.
    name: String,
    text: String,
    arch: String,
    object: Vec<u8>,
}

/// Texts that are assembled, of which some wait to be followed. Threads may share it.
///
/// What is found is told by [`Batch::finish`], so each batch has to be finished.
#[must_use = "what is found is told at the end"]
pub struct Batch {
    /// Objects that are disassembled together.
    many: usize,
    waiting: Mutex<Vec<Waiting>>,
    found: Mutex<Vec<String>>,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::of(MANY)
    }
}

impl Batch {
    /// One that disassembles so many objects together.
    fn of(many: usize) -> Batch {
        Batch { many, waiting: Mutex::default(), found: Mutex::default() }
    }

    /// As [`assemble`](crate::assemble()), but for operands, which are followed later; findings are told under a name.
    ///
    /// # Errors
    /// As [`assemble`](crate::assemble()).
    pub fn assemble(&self, name: &str, text: &str, arch: &str) -> Result<AsmReport, AsmError> {
        let (report, object) = assembled(text, arch)?;
        if asks_for_following(text) {
            self.wait(Waiting { name: name.to_owned(), text: text.to_owned(), arch: arch.to_owned(), object })?;
        }
        Ok(report)
    }

    fn wait(&self, one: Waiting) -> Result<(), AsmError> {
        let full = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push(one);
            if waiting.len() < self.many { Vec::new() } else { std::mem::take(&mut *waiting) }
        };
        self.follow(&full)
    }

    fn follow(&self, mut all: &[Waiting]) -> Result<(), AsmError> {
        while let Some(first) = all.first() {
            let (same, rest) = all.split_at(all.iter().take_while(|w| w.arch == first.arch).count());
            let objects: Vec<&[u8]> = same.iter().map(|w| &w.object[..]).collect();
            let found = same.iter().zip(disassemble_all(&objects, &first.arch)?).flat_map(|(w, sass)| {
                let all = follow(&w.text, &sass);
                all.into_iter().map(|finding| format!("{}: {finding}", w.name)).collect::<Vec<_>>()
            });
            self.found.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
            all = rest;
        }
        Ok(())
    }

    /// Follows what waits; what has been found in all texts, a line each.
    ///
    /// # Errors
    /// As [`disassemble_all`].
    pub fn finish(self) -> Result<Vec<String>, AsmError> {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.follow(&waiting)?;
        Ok(std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Drop for Batch {
    /// A test that does not ask what was found would not fail.
    fn drop(&mut self) {
        let is_empty = self.waiting.lock().is_ok_and(|w| w.is_empty()) && self.found.lock().is_ok_and(|f| f.is_empty());
        assert!(is_empty || std::thread::panicking(), "a batch of texts was not finished");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvdisasm::nvdisasm;
    use crate::required::required;

    /// Entries of one kind, each with so many products of a sum in a loop of so many iterations.
    fn text(entry: &str, products: usize) -> String {
        let sums = (0..4).map(|i| format!("%f{i}")).collect::<Vec<_>>().join(", ");
        let product = format!("\twgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{{sums}}}, %d0, %d1, 1, 1, 1, 0, 0;\n");
        format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry {entry}(.param .u64 p, .param .u32 n)\n{{\n\
             \t.reg .b32 %r<4>;\n\t.reg .b64 %d<4>;\n\t.reg .f32 %f<4>;\n\t.reg .pred %p;\n\
             \tld.param.u64 %d2, [p];\n\tld.param.u32 %r1, [n];\n\tmov.u32 %r0, 0;\n\tmov.u64 %d0, %d2;\n\tmov.u64 %d1, %d2;\n{}\
             AGAIN:\n\t.pragma \"nounroll\";\n\twgmma.fence.sync.aligned;\n{}\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;\n\
             \tadd.u32 %r0, %r0, 1;\n\tsetp.lt.u32 %p, %r0, %r1;\n\t@%p bra AGAIN;\n{}\tret;\n}}\n",
            (0..4).map(|i| format!("\tmov.f32 %f{i}, 0f00000000;\n")).collect::<String>(),
            product.repeat(products),
            (0..4).map(|i| format!("\tst.global.f32 [%d2+{}], %f{i};\n", 4 * i)).collect::<String>(),
        )
    }

    #[test]
    fn what_is_wrong_with_one_of_many_is_told_of_that_one() {
        let batch = Batch::of(4);
        let all: Vec<(String, usize)> = (0..11).map(|n| (format!("k{n}"), 1 + n % 3)).collect();
        for (entry, products) in &all {
            let text = text(entry, *products);
            let object = match assembled(&text, "sm_90a") {
                Ok((report, object)) if nvdisasm().is_some() => {
                    assert!(report.warnings.is_empty(), "{entry}: {report:?}");
                    object
                }
                Ok(_) | Err(AsmError::Missing) => return assert!(!required(), "ptxas or nvdisasm is missing"),
                Err(e) => panic!("{e}"),
            };
            // One object is another text's.
            let text = if entry == "k7" { self::text(entry, products + 1) } else { text };
            batch.wait(Waiting { name: format!("test of {entry}"), text, arch: "sm_90a".into(), object }).unwrap();
        }
        let found = batch.finish().unwrap();
        assert_eq!(found, ["test of k7: k7: 3 matrix instructions in the text, 2 in the object, unlike from number 2 on"]);
    }

    #[test]
    #[should_panic(expected = "was not finished")]
    fn a_batch_has_to_be_finished() {
        let batch = Batch::default();
        batch.found.lock().unwrap().push("something".into());
    }
}
