//! How memory for a batch is asked for, whoever gives it.

use ng_types::Reservation;

use crate::SampleError;

/// How memory for a batch is obtained: bytes wanted to a reservation.
pub(crate) type Admit<'a> = dyn Fn(Stage, u64) -> Result<Reservation, SampleError> + 'a;

/// What the memory is for. A pipeline admits columns in batch order, topology as it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Topology,
    Columns,
}

/// A reservation that grows by further reservations, because a grown one might have to wait.
#[derive(Default)]
pub(crate) struct Growing {
    parts: Option<Reservation>,
}

impl Growing {
    /// Bytes that are held.
    pub fn bytes(&self) -> u64 {
        self.parts.as_ref().map_or(0, Reservation::bytes)
    }

    pub fn grow(&mut self, bytes: u64, admit: &Admit<'_>) -> Result<(), SampleError> {
        let have = self.bytes();
        if bytes > have {
            let more = admit(Stage::Topology, bytes - have)?;
            match &mut self.parts {
                Some(parts) => parts.merge(more),
                None => self.parts = Some(more),
            }
        }
        Ok(())
    }

    /// Gives back what is above `bytes`.
    pub fn shrink(&mut self, bytes: u64) {
        if let Some(parts) = &mut self.parts {
            // A shrinking reservation always succeeds.
            let _ = parts.resize(bytes.min(parts.bytes()));
        }
    }
}
