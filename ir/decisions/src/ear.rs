//! What is decided while somebody listens.

use crate::list::Decision;
use std::cell::RefCell;
use std::fmt;
use std::panic::Location;

/// What was decided, in words, and what stood against it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// What was chosen.
    pub what: String,
    /// What it costs, in the unit of [`crate::Entry::price`].
    pub price: Option<u64>,
    /// What would have come next, with its price.
    pub runner_up: Option<(String, Option<u64>)>,
}

impl Told {
    /// A choice that no price decides.
    pub fn of(what: impl fmt::Display) -> Told {
        Told { what: what.to_string(), price: None, runner_up: None }
    }

    /// A choice with its price.
    pub fn at(what: impl fmt::Display, price: u64) -> Told {
        Told { price: Some(price), ..Told::of(what) }
    }

    /// What would have come next, at its price.
    #[must_use]
    pub fn before(self, what: impl fmt::Display, price: Option<u64>) -> Told {
        Told { runner_up: Some((what.to_string(), price)), ..self }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(price) = self.price {
            write!(f, " at {price}")?;
        }
        match &self.runner_up {
            Some((what, Some(price))) => write!(f, "; next {what} at {price}"),
            Some((what, None)) => write!(f, "; next {what}"),
            None => Ok(()),
        }
    }
}

/// A decision that was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Which.
    pub decision: Decision,
    /// What was decided.
    pub told: Told,
    /// The file in which it was taken.
    pub file: &'static str,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.decision.name(), self.told)
    }
}

thread_local! {
    /// What was heard on this thread since somebody began to listen.
    static HEARD: RefCell<Option<Vec<Taken>>> = const { RefCell::new(None) };
}

/// True while somebody on this thread listens: what is found out for words alone is found out only then.
pub fn listened_to() -> bool {
    HEARD.with_borrow(Option::is_some)
}

/// Says that a decision was taken here. Words are made only where somebody listens.
#[track_caller]
pub fn taken(decision: Decision, told: impl FnOnce() -> Told) {
    if !listened_to() {
        return;
    }
    let file = Location::caller().file();
    // Words may be made by what takes decisions itself.
    let told = told();
    HEARD.with_borrow_mut(|all| all.iter_mut().for_each(|all| all.push(Taken { decision, told: told.clone(), file })));
}

/// Gives what was there before back, whatever happens.
struct Restored(Option<Vec<Taken>>);

impl Drop for Restored {
    fn drop(&mut self) {
        HEARD.set(self.0.take());
    }
}

/// Runs something and gives what was decided meanwhile on this thread, in order. Who listened before hears nothing of it.
pub fn heard<T>(run: impl FnOnce() -> T) -> (T, Vec<Taken>) {
    let restored = Restored(HEARD.replace(Some(Vec::new())));
    let out = run();
    let all = HEARD.take().unwrap_or_default();
    drop(restored);
    (out, all)
}

/// Runs something of which nobody hears what was decided: it is asked what would be, and not done.
pub fn unheard<T>(run: impl FnOnce() -> T) -> T {
    let _restored = Restored(HEARD.replace(None));
    run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_decided_is_heard_where_somebody_listens() {
        let mut made = 0;
        let mut say = |what: &str| {
            taken(Decision::Algebra, || {
                made += 1;
                Told::at(what, 3).before("the other", Some(4))
            });
        };
        say("nobody");
        let ((), all) = heard(|| {
            say("one");
            let ((), inner) = heard(|| say("inside"));
            assert_eq!(inner.len(), 1);
            unheard(|| say("only asked"));
            say("two");
        });
        say("nobody");
        assert_eq!(made, 3, "words are made for those who listen");
        let words: Vec<String> = all.iter().map(Taken::to_string).collect();
        assert_eq!(words, ["algebra: one at 3; next the other at 4", "algebra: two at 3; next the other at 4"]);
        assert!(all.iter().all(|t| t.file.ends_with("ear.rs")), "{all:?}");
    }

    #[test]
    fn who_fails_while_listening_leaves_nobody_behind() {
        let failed = std::panic::catch_unwind(|| heard(|| panic!("on purpose")));
        assert!(failed.is_err() && !HEARD.with_borrow(Option::is_some));
    }
}
