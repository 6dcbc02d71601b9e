//! HolisticGNN's markup file (Figure 10c): a number, an operation, what it takes and gives.
//!
//! ```text
//! in={"Batch", "Weight"}
//! 1: "BatchPre"
//!   in={"Batch"}
//!   out={"1_0", "1_1"}
//! 2: "SpMM_Mean"
//!   in={"1_0", "1_1"}
//!   out={"2_0"}
//! out={"Result"="2_0"}
//! ```
//!
//! Three things are ours. Names may hold any character: quotes, backslashes and control characters
//! are escaped as in Rust (`\"`, `\\`, `\n`, `\u{1f}`). A line `with={"alpha"="0.2"}` after `out`
//! holds attributes. The lines at the edge name the inputs and outputs of the graph; without the
//! first, names that nothing gives are inputs, and without the last, values that nothing takes are
//! outputs. Weights have no place in this form: they become inputs.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::str::Chars;

use super::attributes::Attribute;
use super::error::DfgError;
use super::graph::{Dfg, Source, Value};
use super::order::NamedNode;

impl Dfg {
    /// The graph in HolisticGNN's text form.
    pub fn text(&self) -> String {
        let name = |value: &Value| format!("{:?}", self.name(*value));
        let list = |values: &[Value]| values.iter().map(name).collect::<Vec<_>>().join(", ");
        let given = |value: &Value| !matches!(self.source(*value), Source::Node { .. });
        let inputs: Vec<Value> = self.values().filter(given).collect();
        let line = |key: &str, list: String| format!("{key}={{{list}}}\n");
        let mut text = line("in", list(&inputs));
        for (at, node) in self.nodes().iter().enumerate() {
            // Writing to a text does not fail.
            let _ = writeln!(text, "{}: {:?}", at + 1, node.op.name());
            text += &line("  in", list(&node.inputs));
            text += &line("  out", list(&node.outputs));
            let attributes = node.op.attributes();
            if !attributes.is_empty() {
                let pair = |(name, value): (&String, &Attribute)| {
                    format!("{name:?}={:?}", value.to_string())
                };
                let pairs: Vec<String> = attributes.iter().map(pair).collect();
                text += &line("  with", pairs.join(", "));
            }
        }
        let output = |(name, value): &(String, Value)| format!("{name:?}={:?}", self.name(*value));
        let outputs: Vec<String> = self.outputs().iter().map(output).collect();
        text + &line("out", outputs.join(", "))
    }

    /// Reads the text form.
    ///
    /// # Errors
    ///
    /// A line has another form, or the graph is none: see [`Dfg::create_nodes`].
    pub fn from_text(text: &str) -> Result<Self, DfgError> {
        let mut parsed = Parsed::default();
        for (at, line) in text.lines().enumerate() {
            let wrong = |problem| DfgError::Text { line: at + 1, problem };
            parsed.line(line.trim()).map_err(wrong)?;
        }
        parsed.build()
    }
}

/// A name alone, or with what it stands for.
type Item = (String, Option<String>);

#[derive(Default)]
struct Parsed {
    inputs: Option<Vec<Item>>,
    nodes: Vec<NamedNode>,
    outputs: Option<Vec<Item>>,
    /// Lines that the last node has already.
    seen: HashSet<String>,
}

impl Parsed {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() {
            return Ok(());
        }
        if let Some((number, op)) = line.split_once(':')
            && number.chars().all(|c| c.is_ascii_digit())
            && !number.is_empty()
        {
            let name = format!("node {number}");
            if self.nodes.iter().any(|node| node.name == name) {
                return Err(format!("{name} occurs twice"));
            }
            let (op, rest) = quoted(op)?;
            if !rest.is_empty() {
                return Err(format!("unexpected {rest:?} after the operation"));
            }
            self.seen.clear();
            self.nodes.push(NamedNode { name, op, ..NamedNode::default() });
            return Ok(());
        }
        let form = "expected NUMBER: \"OPERATION\", or a line of in, out or with, followed by = \
                    and a list in braces";
        let (key, list) = line.split_once('=').ok_or(form)?;
        let (key, items) = (key.trim(), items(list.trim())?);
        // Behind a node that has all it needs, `out` is that of the graph.
        let is_new = self.seen.insert(key.to_owned());
        match (key, self.nodes.last_mut()) {
            ("in", None) if is_new => self.inputs = Some(items),
            ("out", Some(_)) if !is_new && self.outputs.is_none() => self.outputs = Some(items),
            ("in", Some(node)) if is_new => node.inputs = names(items)?,
            ("out", Some(node)) if is_new => node.outputs = names(items)?,
            ("with", Some(node)) if is_new => node.attributes = attributes(items)?,
            ("in" | "out" | "with", _) if !is_new => return Err(format!("{key}= occurs twice")),
            ("out" | "with", None) => {
                return Err(format!("{key}= must follow the line of a node"));
            }
            _ => return Err(form.to_owned()),
        }
        Ok(())
    }

    fn build(self) -> Result<Dfg, DfgError> {
        let mut dfg = Dfg::default();
        let made: HashSet<&String> = self.nodes.iter().flat_map(|node| &node.outputs).collect();
        let taken: HashSet<&String> = self.nodes.iter().flat_map(|node| &node.inputs).collect();
        if let Some(inputs) = self.inputs {
            for (name, _) in &inputs {
                dfg.create_in(name, None)?;
            }
        } else {
            let all = self.nodes.iter().flat_map(|node| &node.inputs);
            for name in all.filter(|name| !made.contains(name)) {
                if dfg.value(name).is_none() {
                    dfg.create_in(name, None)?;
                }
            }
        }
        let left = |name: &&String| !taken.contains(name);
        let left = self.nodes.iter().flat_map(|node| &node.outputs).filter(left).cloned();
        let outputs = self.outputs.unwrap_or_else(|| left.map(|name| (name, None)).collect());
        dfg.create_nodes(self.nodes.clone())?;
        if outputs.is_empty() {
            return Err(DfgError::NoOutput);
        }
        for (name, value) in outputs {
            let value = value.unwrap_or_else(|| name.clone());
            let found = dfg.value(&value);
            let node = format!("output {name:?}");
            let found = found.ok_or(DfgError::Undefined { node, value })?;
            dfg.create_out(&name, found)?;
        }
        Ok(dfg)
    }
}

/// What is between the quotes that a text begins with, and what follows them.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let wrong = || format!("expected a name in quotes, found {text:?}");
    let text = text.trim();
    let inner = text.strip_prefix('"').ok_or_else(wrong)?;
    let mut name = String::new();
    let mut rest = inner.chars();
    loop {
        match rest.next().ok_or_else(wrong)? {
            '"' => break,
            '\\' => name.push(escaped(&mut rest)?),
            plain => name.push(plain),
        }
    }
    if name.is_empty() {
        return Err("a name is empty".to_owned());
    }
    Ok((name, rest.as_str().trim()))
}

/// The character behind a backslash.
fn escaped(rest: &mut Chars<'_>) -> Result<char, String> {
    let wrong = || "a backslash must be followed by one of \" \\ ' n r t 0 u{...}".to_owned();
    Ok(match rest.next().ok_or_else(wrong)? {
        same @ ('"' | '\\' | '\'') => same,
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        '0' => '\0',
        'u' => {
            let (digits, behind) = rest
                .as_str()
                .strip_prefix('{')
                .and_then(|rest| rest.split_once('}'))
                .ok_or_else(wrong)?;
            *rest = behind.chars();
            let code = u32::from_str_radix(digits, 16).ok().filter(|_| digits.len() <= 6);
            code.and_then(char::from_u32).ok_or_else(wrong)?
        }
        _ => return Err(wrong()),
    })
}

/// `{"a", "b"="c"}`.
fn items(list: &str) -> Result<Vec<Item>, String> {
    let inner = list.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let mut rest = inner.ok_or_else(|| format!("expected {{...}}, found {list:?}"))?.trim();
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (name, behind) = quoted(rest)?;
        let (value, behind) = match behind.strip_prefix('=') {
            Some(value) => quoted(value).map(|(value, behind)| (Some(value), behind))?,
            None => (None, behind),
        };
        items.push((name, value));
        rest = match (behind, behind.strip_prefix(',')) {
            ("", _) => "",
            (_, Some(next)) if !next.trim().is_empty() => next.trim(),
            _ => return Err(format!("expected a comma and a name, found {behind:?}")),
        };
    }
    Ok(items)
}

fn names(items: Vec<Item>) -> Result<Vec<String>, String> {
    let name = |(name, value): Item| match value {
        None => Ok(name),
        Some(value) => Err(format!("{name:?} cannot have a value here, found {value:?}")),
    };
    items.into_iter().map(name).collect()
}

fn attributes(items: Vec<Item>) -> Result<BTreeMap<String, Attribute>, String> {
    let mut all = BTreeMap::new();
    for (name, value) in items {
        let value = value.ok_or_else(|| format!("attribute {name:?} has no value"))?;
        if all.insert(name.clone(), attribute(&value)).is_some() {
            return Err(format!("attribute {name:?} occurs twice"));
        }
    }
    Ok(all)
}

/// Numbers are numbers; what is nothing else is a text.
fn attribute(text: &str) -> Attribute {
    if let Ok(number) = text.parse() {
        return Attribute::Int(number);
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let numbers = inner.split(',').filter(|part| !part.trim().is_empty());
        if let Ok(numbers) = numbers.map(|part| part.trim().parse()).collect() {
            return Attribute::Ints(numbers);
        }
    }
    match text.parse() {
        Ok(number) => Attribute::Float(number),
        Err(_) => Attribute::Text(text.to_owned()),
    }
}
