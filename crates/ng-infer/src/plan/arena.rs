//! Memory of a run, which is kept for the next one.
//!
//! What lives here: slots, where tensors are, and views of them. What must not: which tensor has
//! which slot. The invariant: a slot only grows, so a run of a size that was there before allocates
//! no tensors.

use std::collections::HashMap;

use ng_types::Dtype;

use super::bind::Home;
use crate::dfg::{Constant, Elements};
use crate::kernel::{Context, Data, KernelError, View};

/// Where the elements of a tensor are, and its shape.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub home: Home,
    /// The first element.
    pub start: usize,
    pub dims: Vec<usize>,
}

impl Tensor {
    fn len(&self) -> usize {
        self.dims.iter().product()
    }
}

/// The memory of one run.
#[derive(Debug)]
pub(super) struct Arena {
    pub slots: Vec<Elements>,
    /// By value.
    pub tensors: Vec<Tensor>,
    /// How many nodes there are up to each hop.
    pub counts: Vec<i64>,
    /// Rows of tables, for kernels that do not read them there; by value.
    copies: HashMap<usize, (Vec<f32>, bool)>,
    /// How often a slot grew.
    pub growths: usize,
}

/// The tensors that a run reads and does not own.
#[derive(Clone, Copy)]
pub(super) struct Lent<'a> {
    pub inputs: &'a [View<'a>],
    pub constants: &'a [Constant],
}

impl Arena {
    pub fn new(slots: usize, homes: &[Home], counts: usize) -> Self {
        let tensor = |home: &Home| Tensor { home: *home, start: 0, dims: Vec::new() };
        Self {
            slots: (0..slots).map(|_| Elements::F32(Vec::new())).collect(),
            tensors: homes.iter().map(tensor).collect(),
            counts: vec![0; counts],
            copies: HashMap::new(),
            growths: 0,
        }
    }

    /// Bytes of the memory that is kept.
    pub fn bytes(&self) -> usize {
        let slots = self.slots.iter().map(Elements::bytes).sum::<usize>();
        slots + self.copies.values().map(|(copy, _)| copy.capacity() * 4).sum::<usize>()
    }

    /// Forgets the copies of the run before.
    pub fn begin(&mut self) {
        self.copies.values_mut().for_each(|(_, is_filled)| *is_filled = false);
    }

    /// Takes a slot out, with room for `len` elements of a type; `None` if memory is not there.
    pub fn take(&mut self, slot: usize, dtype: Dtype, len: usize) -> Option<Elements> {
        let mut taken = std::mem::replace(&mut self.slots[slot], Elements::F32(Vec::new()));
        if taken.dtype() != dtype {
            taken = Elements::zeros(dtype, 0)?;
        }
        if taken.grow(len)? {
            self.growths += 1;
        }
        Some(taken)
    }

    /// A value as kernels see it; rows of a table as a copy, if there is one.
    pub fn view<'a>(&'a self, value: usize, lent: Lent<'a>, takes_rows: bool) -> View<'a> {
        let tensor = &self.tensors[value];
        let start = tensor.start;
        let data = match tensor.home {
            Home::Slot(slot) => View::new(&[], &self.slots[slot]).data,
            Home::Constant(at) => View::new(&[], lent.constants[at].elements()).data,
            Home::Count(at) => Data::I64(&self.counts[at..=at]),
            Home::Input(at) => match (lent.inputs[at].data, self.copies.get(&value)) {
                (Data::Rows(_), Some((copy, true))) if !takes_rows => {
                    return View {
                        dims: &tensor.dims,
                        data: Data::F32(copy).part(0, &tensor.dims),
                    };
                }
                (data, _) => data,
            },
            Home::Copy(of) => Data::F32(self.copies.get(&of).map_or(&[], |(copy, _)| copy)),
            Home::View => Data::F32(&[]),
        };
        View { dims: &tensor.dims, data: data.part(start, &tensor.dims) }
    }

    /// Copies the rows that a value is of a table, if it is such and there is no copy yet.
    pub fn copy_rows(
        &mut self,
        value: usize,
        lent: Lent<'_>,
        context: &Context,
    ) -> Result<(), KernelError> {
        let Home::Input(at) = self.tensors[value].home else { return Ok(()) };
        if !matches!(lent.inputs[at].data, Data::Rows(_)) {
            return Ok(());
        }
        let (mut copy, is_filled) = self.copies.remove(&value).unwrap_or_default();
        if !is_filled {
            let tensor = &self.tensors[value];
            let (len, width) = (tensor.len(), tensor.dims[1..].iter().product());
            if copy.len() < len {
                self.growths += usize::from(copy.capacity() < len);
                copy.resize(len, 0.0);
            }
            if let Data::Rows(rows) = lent.inputs[at].data.part(tensor.start, &tensor.dims) {
                rows.copy_to(width, &mut copy[..len], context)?;
            }
        }
        self.copies.insert(value, (copy, true));
        Ok(())
    }
}
