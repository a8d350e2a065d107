//! What the assembler says of texts: nothing. It neither spills nor complains, and registers of matrix instructions are what the text says.
//!
//! A disassembler starts for a fifth of a second, so a test of many texts has them judged together, at its end: its first line is `let _texts = together();`.

use std::cell::RefCell;
use tilelift_oracle::{AsmError, Batch, Spills, assemble, required};

thread_local! {
    /// Texts of the test that runs in this thread, if it has them judged together.
    static WAITING: RefCell<Option<Batch>> = const { RefCell::new(None) };
}

/// As long as it lives, texts of this thread wait for its end, where they are judged.
#[must_use = "texts are judged where this ends"]
pub struct Together(());

/// Has the texts of a test judged together.
pub fn together() -> Together {
    let before = WAITING.replace(Some(Batch::new(Spills::Refused)));
    assert!(before.is_none(), "texts of this test are judged together already");
    Together(())
}

impl Drop for Together {
    fn drop(&mut self) {
        let batch = WAITING.take().expect("nobody else takes it");
        // A test that has failed says why.
        if !std::thread::panicking() {
            let found = batch.finish().unwrap_or_else(|e| panic!("{e}"));
            assert!(found.is_empty(), "{}", found.join("\n"));
        }
    }
}

/// Has the assembler judge a text for an architecture: now, or at the end of a test whose texts are judged together.
pub fn nothing_to_say(name: &str, text: &str, arch: &str) {
    let waits = WAITING.with_borrow(|batch| batch.as_ref().map(|b| b.add(name, text, arch)));
    if let Some(added) = waits {
        return added.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    match assemble(text, arch) {
        Ok(r) => assert!(r.spills == 0 && r.stack == 0 && r.warnings.is_empty(), "{name}: {r:?}"),
        Err(AsmError::Missing) => assert!(!required(), "ptxas is missing"),
        Err(e) => panic!("{name}: {e}\n{text}"),
    }
}
