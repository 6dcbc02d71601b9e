//! Attributes of nodes, and default attributes of functions.
//!
//! What lives here: from the message to [`AttributeValue`]. What must not: which attributes an
//! operator has. The invariant: the value is the one that the type of the attribute names; graphs
//! are refused whatever the type says.

use super::error::{OnnxError, quoted};
use super::model::{Attribute, AttributeValue};
use super::names::{check_unique, required};
use super::proto::AttributeProto;
use super::tensors::read_tensor;

/// Reads the attributes of the node or function at `place`.
pub(super) fn read_attributes(
    attributes: Vec<AttributeProto>,
    place: &dyn Fn() -> String,
) -> Result<Vec<Attribute>, OnnxError> {
    let attributes = attributes.into_iter().map(|attribute| read_attribute(attribute, place));
    let attributes = attributes.collect::<Result<Vec<_>, _>>()?;
    let names = attributes.iter().map(|attribute| attribute.name.as_str());
    check_unique(names, "the attribute", place)?;
    Ok(attributes)
}

fn read_attribute(
    mut attribute: AttributeProto,
    place: &dyn Fn() -> String,
) -> Result<Attribute, OnnxError> {
    let name = attribute.name.take();
    let name = required(name, "name of an attribute", place)?;
    if attribute.g.is_some() || !attribute.graphs.is_empty() {
        let what = format!("a graph in its attribute {}", quoted(&name));
        return Err(OnnxError::ControlFlow { place: place(), what });
    }
    if attribute.sparse_tensor.is_some() || !attribute.sparse_tensors.is_empty() {
        let what = format!("a sparse tensor in its attribute {}", quoted(&name));
        return Err(OnnxError::Unsupported { place: place(), what });
    }
    let value = match attribute.ref_attr_name.take() {
        Some(of) if !of.is_empty() => AttributeValue::Reference(of),
        Some(_) | None => read_value(attribute, &name, place)?,
    };
    Ok(Attribute { name, value })
}

/// Reads the field that the type names. A number of zero and an empty text may be left out.
fn read_value(
    attribute: AttributeProto,
    name: &str,
    place: &dyn Fn() -> String,
) -> Result<AttributeValue, OnnxError> {
    let refuse =
        |reason: String| OnnxError::Attribute { place: place(), name: quoted(name), reason };
    let text = |bytes: Vec<u8>| {
        String::from_utf8(bytes).map_err(|_| refuse("with a string that is not UTF-8".to_owned()))
    };
    let unsupported = |what: &str| {
        let what = format!("{what} in its attribute {}", quoted(name));
        Err(OnnxError::Unsupported { place: place(), what })
    };
    Ok(match attribute.r#type.unwrap_or(0) {
        1 => AttributeValue::Float(attribute.f.unwrap_or(0.0)),
        2 => AttributeValue::Int(attribute.i.unwrap_or(0)),
        3 => AttributeValue::Str(text(attribute.s.unwrap_or_default())?),
        4 => {
            let tensor = attribute.t.ok_or_else(|| refuse("without a tensor".to_owned()))?;
            let inside = || format!("the tensor in attribute {} of {}", quoted(name), place());
            AttributeValue::Tensor(read_tensor(*tensor, &inside)?)
        }
        6 => AttributeValue::Floats(attribute.floats),
        7 => AttributeValue::Ints(attribute.ints),
        8 => {
            let texts = attribute.strings.into_iter().map(text);
            AttributeValue::Strs(texts.collect::<Result<_, _>>()?)
        }
        5 | 10 => {
            let what = format!("a graph in its attribute {}", quoted(name));
            return Err(OnnxError::ControlFlow { place: place(), what });
        }
        9 => return unsupported("a list of tensors"),
        11 | 12 => return unsupported("a sparse tensor"),
        13 | 14 => return unsupported("a type"),
        0 => return Err(refuse("without a type".to_owned())),
        other => return Err(refuse(format!("of the unknown type {other}"))),
    })
}
