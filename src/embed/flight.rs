//! One thread makes what several ask for; the others wait for it.

use super::error::Error;
use crate::artifact::Artifact;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// What a flight ends with.
pub(super) type FlightEnd = Result<Arc<Artifact>, Error>;

/// Something that a thread makes.
#[derive(Default, Debug)]
pub(super) struct Flight {
    made: Mutex<Option<FlightEnd>>,
    landed: Condvar,
}

impl Flight {
    /// Ends it: whoever waits has the result.
    pub(super) fn land(&self, made: FlightEnd) {
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        self.landed.notify_all();
    }

    /// Waits for the end.
    pub(super) fn wait(&self) -> FlightEnd {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*made {
                Some(made) => return made.clone(),
                None => made = self.landed.wait(made).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
