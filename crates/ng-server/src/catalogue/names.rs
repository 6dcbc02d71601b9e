//! Names of graphs, models and aliases.

use ng_rpc::Problem;

/// Bytes of a name.
const NAME_BYTES_MAX: usize = 128;

/// An error unless a graph, a model or an alias may be called so.
///
/// # Errors
/// It has letters that have a meaning elsewhere.
pub fn check(name: &str, field: &str) -> Result<(), Problem> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.starts_with('.');
    if is_name {
        return Ok(());
    }
    let remedy = format!(
        "use 1 to {NAME_BYTES_MAX} of the characters a to z, A to Z, 0 to 9, _, - and ., \
         without a . at the start"
    );
    Err(Problem::argument(field, format!("{name:?} is not a valid name")).remedy(remedy))
}

/// Name and version of "name@version".
pub fn split(text: &str) -> Option<(String, u32)> {
    let (name, version) = text.split_once('@')?;
    Some((name.to_owned(), version.parse().ok()?))
}
