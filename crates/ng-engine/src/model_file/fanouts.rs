//! How many neighbours a model file says are sampled, on the edge types of a store.

use std::collections::BTreeMap;

use ng_sample::Fanouts;
use ng_store::Catalog;
use ng_types::EdgeTypeId;
use serde::Deserialize;
use serde_json::Number;

use crate::schema::edge_type_names;
use crate::{EngineError, ModelFile};

/// The entry of the file.
const ENTRY: &str = "fanouts";

/// Draws of one destination are counted in 32 bits.
const FANOUT_MAX: i64 = i32::MAX as i64;

/// Fanouts as JSON has them: a list for all edge types, or one by name.
#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    None,
    All(Vec<Number>),
    ByType(BTreeMap<String, Vec<Number>>),
}

impl ModelFile {
    /// The neighbours by edge type and hop that the file names, for a store with these types. A
    /// reverse that the store keeps as an index has none, unless it is named.
    ///
    /// # Errors
    /// [`EngineError::Metadata`] if the file names none, or others than the store has.
    pub fn fanouts(&self, catalog: &Catalog) -> Result<Fanouts, EngineError> {
        let wrong = |problem: String| EngineError::Metadata { entry: ENTRY.to_owned(), problem };
        let given = self.said(ENTRY).map_or(Ok(Given::None), serde_json::from_str);
        let shape = |_| wrong("expected a list of numbers, or a list per edge type".into());
        let count = catalog.edge_types.len();
        let ids = || (0..count as u16).map(EdgeTypeId);
        let mut lists: Vec<Option<Vec<i64>>> = vec![None; count];
        match given.map_err(shape)? {
            Given::None => {
                let none = "the entry is missing; give the number of neighbours per hop";
                return Err(wrong(none.to_owned()));
            }
            Given::All(list) => {
                let list = counts(&list).map_err(wrong)?;
                for id in ids().filter(|id| !catalog.is_reverse_index(*id)) {
                    lists[usize::from(id.0)] = Some(list.clone());
                }
            }
            Given::ByType(by_name) => {
                for (name, list) in by_name {
                    let id = find(catalog, &name).map_err(wrong)?;
                    let list = counts(&list).map_err(wrong)?;
                    if lists[usize::from(id.0)].replace(list).is_some() {
                        return Err(wrong(format!("edge type {name:?} occurs twice")));
                    }
                }
            }
        }
        let missing =
            |id: &EdgeTypeId| lists[usize::from(id.0)].is_none() && !catalog.is_reverse_index(*id);
        if let Some(id) = ids().find(missing) {
            let name = edge_type_names(catalog, id).join("__");
            return Err(wrong(format!("edge type {name:?} is missing")));
        }
        let hops = lists.iter().flatten().next().map_or(0, Vec::len);
        let lists = lists.into_iter().map(|list| list.unwrap_or_else(|| vec![0; hops]));
        Fanouts::new(lists.collect()).map_err(|error| wrong(error.to_string()))
    }
}

/// Fanouts that can be drawn.
fn counts(all: &[Number]) -> Result<Vec<i64>, String> {
    let count = |number: &Number| {
        let whole = |number: &f64| number.fract() == 0.0 && number.abs() <= FANOUT_MAX as f64;
        let known = number.as_i64();
        let known = known.or_else(|| number.as_f64().filter(whole).map(|number| number as i64));
        let count = known.filter(|count| (-1..=FANOUT_MAX).contains(count));
        count.ok_or_else(|| {
            format!("fanout {number} is not valid: expected -1 (all) or a count up to {FANOUT_MAX}")
        })
    };
    all.iter().map(count).collect()
}

/// The edge type of a name: a triple, a pair of node types, or the relation alone. A reverse that
/// is kept is found where no other type has the name.
fn find(catalog: &Catalog, name: &str) -> Result<EdgeTypeId, String> {
    let ids = || (0..catalog.edge_types.len() as u16).map(EdgeTypeId);
    let parts: Vec<&str> = name.split("__").collect();
    let fits = |id: &EdgeTypeId| {
        let [source, relation, destination] = edge_type_names(catalog, *id);
        match parts[..] {
            [a, b, c] => [a, b, c] == [source, relation, destination],
            [a, b] => [a, b] == [source, destination],
            [a] => a == relation,
            _ => false,
        }
    };
    let is_whole = |id: &EdgeTypeId| edge_type_names(catalog, *id).join("__") == name;
    let of = |is_reverse: bool| {
        let some = || ids().filter(|id| catalog.is_reverse_index(*id) == is_reverse);
        let found: Vec<EdgeTypeId> = some().filter(&fits).collect();
        if found.is_empty() { some().filter(is_whole).collect() } else { found }
    };
    let mut found = of(false);
    if found.is_empty() {
        found = of(true);
    }
    match found[..] {
        [id] => Ok(id),
        _ => {
            let known = ids().filter(|id| !catalog.is_reverse_index(*id));
            let known = known.map(|id| edge_type_names(catalog, id).join("__"));
            let known = known.collect::<Vec<_>>().join(", ");
            Err(format!(
                "{name:?} matches {} edge types, expected one; the store has the edge types \
                 {known}",
                found.len()
            ))
        }
    }
}
