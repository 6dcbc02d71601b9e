//! Weights in files beside the model.
//!
//! What lives here: the checks of names and ranges, and [`ExternalFiles`], which reads them. What
//! must not: opening files; that is the caller's, who must not follow symbolic links. The
//! invariant: no byte is asked for outside a file that lies in the model's own directory, and no
//! two tensors share a byte.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

use ng_types::Dtype;
use ng_types::canary::planted;

use super::error::{OnnxError, quoted};
use super::model::{Attribute, AttributeValue, Data, Model, Node, Range, Tensor};
use super::names::check_unique;
use super::proto::StringStringEntryProto;
use super::tensors::{check_raw_bools, tensor_place};

/// Bytes of a file name, the bound of Linux.
const NAME_BYTES_MAX: usize = 255;

/// Reads where the data of a tensor is; `bytes` are those of its shape.
pub(super) fn read_range(
    entries: Vec<StringStringEntryProto>,
    bytes: u64,
    place: &dyn Fn() -> String,
) -> Result<Range, OnnxError> {
    let refuse = |reason: String| Err(OnnxError::ExternalRange { place: place(), reason });
    let entries: Vec<(String, String)> = entries
        .into_iter()
        .map(|entry| (entry.key.unwrap_or_default(), entry.value.unwrap_or_default()))
        .collect();
    check_unique(entries.iter().map(|(key, _)| key.as_str()), "the key", place)?;
    let known = ["location", "offset", "length", "checksum"];
    if let Some((key, _)) = entries.iter().find(|(key, _)| !known.contains(&key.as_str())) {
        return refuse(format!("unknown key {}", quoted(key)));
    }
    let text = |wanted: &str| entries.iter().find(|(key, _)| key == wanted).map(|(_, text)| text);
    let number = |wanted: &'static str| {
        let Some(text) = text(wanted) else {
            return Err(OnnxError::Missing { place: place(), what: wanted });
        };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten().ok_or_else(|| {
            let reason = format!("{wanted} {} is not a 64-bit number", quoted(text));
            OnnxError::ExternalRange { place: place(), reason }
        })
    };
    let Some(file) = text("location") else {
        return Err(OnnxError::Missing { place: place(), what: "location" });
    };
    if !is_plain_name(file) {
        return Err(OnnxError::ExternalName { place: place(), file: quoted(file) });
    }
    let (offset, length) = (number("offset")?, number("length")?);
    if offset.checked_add(length).is_none_or(|end| i64::try_from(end).is_err()) {
        return refuse(format!("offset {offset} and length {length} end past 2^63"));
    }
    if length != bytes {
        return refuse(format!("length {length} differs from the {bytes} bytes of its shape"));
    }
    Ok(Range { file: file.clone(), offset, length })
}

/// Whether a name can only be that of a file in the directory it is looked up in.
fn is_plain_name(name: &str) -> bool {
    let special = name.is_empty() || name == "." || name.contains("..");
    let odd = |c: char| c == '/' || c == '\\' || c.is_control();
    !special && name.len() <= NAME_BYTES_MAX && !name.contains(odd)
}

fn attributes_of(nodes: &[Node]) -> impl Iterator<Item = &[Attribute]> {
    nodes.iter().map(|node| node.attributes.as_slice())
}

/// Every tensor of the model, with the name of its place.
fn tensors(model: &Model) -> impl Iterator<Item = (String, &Tensor)> {
    let bodies = model
        .functions
        .iter()
        .flat_map(|function| attributes_of(&function.nodes).chain([function.defaults.as_slice()]));
    let attributes = attributes_of(&model.graph.nodes).chain(bodies).flatten();
    let constants = attributes.filter_map(|attribute| match &attribute.value {
        AttributeValue::Tensor(tensor) => {
            Some((format!("attribute {}", quoted(&attribute.name)), tensor))
        }
        _ => None,
    });
    let weights = model.graph.initializers.iter();
    weights.map(|tensor| (tensor_place(&tensor.name), tensor)).chain(constants)
}

/// Refuses two ranges of one file that share a byte.
pub(super) fn check_overlaps(model: &Model) -> Result<(), OnnxError> {
    if planted("weights_may_overlap") {
        return Ok(());
    }
    let mut ranges: Vec<(&Range, String)> = tensors(model)
        .filter_map(|(place, tensor)| match &tensor.data {
            Data::External(range) if range.length > 0 => Some((range, place)),
            Data::External(_) | Data::Inline(_) => None,
        })
        .collect();
    ranges.sort_by(|(a, _), (b, _)| (&a.file, a.offset).cmp(&(&b.file, b.offset)));
    for pair in ranges.windows(2) {
        if let [(a, first), (b, second)] = pair
            && a.file == b.file
            && b.offset < a.offset + a.length
        {
            let (first, second) = (first.clone(), second.clone());
            return Err(OnnxError::Overlap { first, second, file: quoted(&a.file) });
        }
    }
    Ok(())
}

/// The files beside a model, read through a closure.
///
/// ```
/// # use ng_infer::onnx::{ExternalFiles, Model, OnnxError};
/// fn weights(model: &Model, file: &[u8]) -> Result<Vec<Vec<u8>>, OnnxError> {
///     let mut files = ExternalFiles::new(
///         model,
///         |_name| Ok(file.len() as u64),
///         |range, into| {
///             into.copy_from_slice(&file[range.offset as usize..][..into.len()]);
///             Ok(())
///         },
///     )?;
///     let weights = model.graph.initializers.iter();
///     weights.map(|tensor| Ok(files.bytes(tensor)?.into_owned())).collect()
/// }
/// ```
#[derive(Debug)]
pub struct ExternalFiles<R> {
    lens: BTreeMap<String, u64>,
    read: R,
}

impl<R: FnMut(&Range, &mut [u8]) -> io::Result<()>> ExternalFiles<R> {
    /// Asks `len` for the bytes of each file that `model` names, once, and checks that every range
    /// lies inside. `read` fills its slice with the bytes of a range. Both must open names in the
    /// model's directory without following symbolic links.
    ///
    /// # Errors
    /// [`OnnxError::Read`] for what `len` returns, [`OnnxError::OutsideFile`].
    pub fn new(
        model: &Model,
        mut len: impl FnMut(&str) -> io::Result<u64>,
        read: R,
    ) -> Result<Self, OnnxError> {
        let mut lens = BTreeMap::new();
        for (place, tensor) in tensors(model) {
            let Data::External(range) = &tensor.data else { continue };
            if !lens.contains_key(&range.file) {
                let found = len(&range.file).map_err(|source| {
                    let file = quoted(&range.file);
                    OnnxError::Read { place: place.clone(), file, source }
                })?;
                lens.insert(range.file.clone(), found);
            }
            check_inside(range, &lens, || place)?;
        }
        Ok(Self { lens, read })
    }

    /// The elements of a tensor of the model, little-endian, read if they are in another file.
    ///
    /// # Errors
    /// [`OnnxError::OutsideFile`] for a tensor of another model, [`OnnxError::Read`],
    /// [`OnnxError::NotFinite`] and [`OnnxError::Element`] for what was read.
    pub fn bytes<'a>(&mut self, tensor: &'a Tensor) -> Result<Cow<'a, [u8]>, OnnxError> {
        let range = match &tensor.data {
            Data::Inline(bytes) => return Ok(Cow::Borrowed(bytes)),
            Data::External(range) => range,
        };
        check_inside(range, &self.lens, || tensor_place(&tensor.name))?;
        let mut bytes = vec![0; range.length as usize];
        (self.read)(range, &mut bytes).map_err(|source| {
            let (place, file) = (tensor_place(&tensor.name), quoted(&range.file));
            OnnxError::Read { place, file, source }
        })?;
        let place = || tensor_place(&tensor.name);
        check_raw_bools(&bytes, tensor.dtype, &place)?;
        check_finite(&bytes, tensor.dtype, &place)?;
        Ok(Cow::Owned(bytes))
    }
}

fn check_inside(
    range: &Range,
    lens: &BTreeMap<String, u64>,
    place: impl FnOnce() -> String,
) -> Result<(), OnnxError> {
    let len = lens.get(&range.file).copied().unwrap_or(0);
    match range.offset.checked_add(range.length) {
        Some(end) if end <= len => Ok(()),
        end => {
            let (place, end) = (place(), end.unwrap_or(u64::MAX));
            Err(OnnxError::OutsideFile { place, file: quoted(&range.file), end, len })
        }
    }
}

/// Refuses NaN and infinity in the elements of a tensor of floats.
pub(super) fn check_finite(
    bytes: &[u8],
    dtype: Dtype,
    place: &dyn Fn() -> String,
) -> Result<(), OnnxError> {
    if planted("weights_may_be_nan") {
        return Ok(());
    }
    // All bits of the exponent are set in NaN and in infinity, and in nothing else.
    let (exponent, mantissa_bits): (u64, u32) = match dtype {
        Dtype::F16 => (0x7C00, 10),
        Dtype::Bf16 => (0x7F80, 7),
        Dtype::F32 => (0x7F80_0000, 23),
        Dtype::F64 => (0x7FF0_0000_0000_0000, 52),
        Dtype::I8 | Dtype::U8 | Dtype::I16 | Dtype::I32 | Dtype::I64 | Dtype::Bool => return Ok(()),
    };
    let size = dtype.size_bytes();
    for (index, element) in bytes.chunks_exact(size).enumerate() {
        let mut wide = [0; 8];
        wide[..size].copy_from_slice(element);
        let bits = u64::from_le_bytes(wide);
        if bits & exponent == exponent {
            let fraction = bits & ((1 << mantissa_bits) - 1);
            let negative = bits >> (8 * size - 1) == 1;
            let value = match (fraction, negative) {
                (0, false) => f64::INFINITY,
                (0, true) => f64::NEG_INFINITY,
                _ => f64::NAN,
            };
            return Err(OnnxError::NotFinite { place: place(), index: index as u64, value });
        }
    }
    Ok(())
}
