//! The text form: what is written is read again, and what is wrong is named with its line.

use std::collections::BTreeMap;

use ng_infer::dfg::{Attribute, Dfg, DfgError, NamedNode, Op};
use ng_testing::Random;
use ng_types::Dtype;

fn refused(text: &str, words: &str) {
    let error = Dfg::from_text(text).expect_err("is wrong").to_string();
    assert!(error.contains(words), "{text:?}: {error}");
}

#[test]
fn attributes_and_names_are_kept() {
    let mut dfg = Dfg::default();
    let build = |dfg: &mut Dfg| -> Result<(), DfgError> {
        let x = dfg.create_in("x", None)?;
        let shape = dfg.create_op(Op::Shape { start: 0, end: Some(-1) }, &[x])?;
        let filled = Op::ConstantOfShape { value: 0.5, dtype: Dtype::F32 };
        let filled = dfg.create_op(filled, &shape)?;
        let both = dfg.create_op(Op::Concat { axis: -1 }, &[filled[0], x])?;
        let turned = dfg.create_op(Op::Transpose { perm: Some(vec![1, 0]) }, &both)?;
        let leaky = dfg.create_op(Op::LeakyRelu { alpha: 1.0 }, &turned)?;
        dfg.create_out("first", leaky[0])?;
        dfg.create_out("second", both[0])
    };
    build(&mut dfg).expect("builds");
    let text = dfg.text();
    assert!(text.contains("  with={\"alpha\"=\"1.0\"}\n"), "{text}");
    assert!(text.ends_with("out={\"first\"=\"5_0\", \"second\"=\"3_0\"}\n"), "{text}");
    assert_eq!(Dfg::from_text(&text), Ok(dfg));
}

#[test]
fn nodes_may_come_in_any_order() {
    let text =
        "2: \"Relu\"\n in={\"1_0\"}\n out={\"2_0\"}\n1: \"Exp\"\n in={\"x\"}\n out={\"1_0\"}";
    let dfg = Dfg::from_text(text).expect("can be sorted");
    let ops: Vec<String> = dfg.nodes().iter().map(|node| node.op.name()).collect();
    assert_eq!(ops, ["Exp", "Relu"]);
}

#[test]
fn what_is_wrong_is_named() {
    refused("", "the graph has no output");
    refused("hello", "line 1: expected NUMBER");
    refused("1: \"Relu\"\n in={\"x\"\n", "line 2: expected {...}");
    refused("1: \"Relu\"\n in={x}\n", "line 2: expected a name in quotes");
    refused("1: \"Relu\"\n in={\"x\" \"y\"}\n", "line 2: expected a comma");
    refused("1: \"Relu\"\n in={\"x\",}\n", "line 2: expected a comma and a name");
    refused("1: \"Relu\" here\n", "line 1: unexpected \"here\" after the operation");
    refused("1: \"Relu\"\n1: \"Relu\"\n", "line 2: node 1 occurs twice");
    refused("1: \"Relu\"\n in={\"x\"}\n in={\"y\"}\n", "line 3: in= occurs twice");
    refused("out={\"x\"}\n", "line 1: out= must follow the line of a node");
    refused(
        "1: \"Relu\"\n in={\"x\"=\"y\"}\n",
        "line 2: \"x\" cannot have a value here, found \"y\"",
    );
    refused("1: \"Rely\"\n in={\"x\"}\n out={\"1_0\"}", "node 1: unknown operation \"Rely\"");
    refused(
        "1: \"Relu\"\n in={\"x\"}\n out={\"a\", \"b\"}",
        "node 1: Relu returns 1 values, got names for 2",
    );
    refused("1: \"Add\"\n in={\"x\"}\n out={\"1_0\"}", "node 1: Add takes 2 values, got 1");
    refused("1: \"Relu\"\n in={\"x\"}\n out={\"x\"}\n", "these nodes form a cycle: node 1");
    let leaky = "1: \"LeakyRelu\"\n in={\"x\"}\n out={\"1_0\"}\n with={\"alpha\"=\"much\"}";
    refused(leaky, "attribute \"alpha\" of LeakyRelu: expected a finite number, found much");
    refused(
        "in={\"x\"}\n1: \"Relu\"\n in={\"y\"}\n out={\"1_0\"}",
        "node 1: value \"y\" is not defined",
    );
    let twice = "1: \"Relu\"\n in={\"x\"}\n out={\"a\"}\n2: \"Relu\"\n in={\"x\"}\n out={\"a\"}";
    refused(twice, "\"a\" is defined twice");
    let cycle = "1: \"Relu\"\n in={\"2_0\"}\n out={\"1_0\"}\n2: \"Add\"\n in={\"1_0\", \"3_0\"}\n \
                 out={\"2_0\"}\n3: \"Exp\"\n in={\"2_0\"}\n out={\"3_0\"}";
    refused(cycle, "these nodes form a cycle: node 2, node 1");
}

#[test]
fn no_text_makes_the_reader_panic() {
    let seed = 17;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let pieces = [
        "1", "2", ":", "\"", "\"Relu\"", "\"Add\"", "in", "out", "with", "=", "{", "}", ",", "\n",
        " ", "\"x\"", "\"1_0\"", "\"axis\"", "[1", "]", "é", "\\", "\u{0}",
    ];
    for _ in 0..20_000 {
        let count = random.below(40);
        let mut piece = || pieces[random.below(pieces.len() as u64) as usize];
        let text: String = (0..count).map(|_| piece()).collect();
        let _ = Dfg::from_text(&text);
    }
}

#[test]
fn a_long_chain_in_reverse_is_sorted_and_a_long_cycle_is_named() {
    let chain = |is_cycle: bool| {
        let count = 50_000;
        let node = |at: usize| NamedNode {
            name: format!("n{at}"),
            op: "Relu".to_owned(),
            inputs: vec![if at == 0 && is_cycle {
                format!("v{}", count - 1)
            } else {
                format!("v{}", at.wrapping_sub(1))
            }],
            outputs: vec![format!("v{at}")],
            attributes: BTreeMap::<String, Attribute>::new(),
        };
        (0..count).rev().map(node).collect::<Vec<_>>()
    };
    let mut dfg = Dfg::default();
    dfg.create_in(&format!("v{}", 0_usize.wrapping_sub(1)), None).expect("new");
    dfg.create_nodes(chain(false)).expect("sorted");
    assert_eq!(dfg.nodes().len(), 50_000);
    let Err(DfgError::Cycle { nodes }) = Dfg::default().create_nodes(chain(true)) else {
        panic!("a cycle")
    };
    assert_eq!(nodes.len(), 50_000);
}

#[test]
fn names_of_any_characters_are_read_as_they_were() {
    let seed = 20;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let letters = [
        '"', '\\', '\'', '\n', '\r', '\t', '\0', '\u{7f}', '\u{2028}', ' ', ',', '=', '{', '}',
        'n', 'u', 'é', '字', '\u{301}',
    ];
    for _ in 0..500 {
        let mut name = |at: u64| -> String {
            let length = 1 + random.below(12);
            let letter = |_| letters[random.below(letters.len() as u64) as usize];
            (0..length).map(letter).chain(at.to_string().chars()).collect()
        };
        let mut dfg = Dfg::default();
        let build = |dfg: &mut Dfg, names: [String; 4]| -> Result<(), DfgError> {
            let [input, other, out, alias] = names;
            dfg.create_in(&input, None)?;
            dfg.create_in(&other, None)?;
            let node = NamedNode {
                name: "node 1".to_owned(),
                op: "Add".to_owned(),
                inputs: vec![input, other],
                outputs: vec![out.clone()],
                attributes: BTreeMap::new(),
            };
            dfg.create_nodes(vec![node])?;
            let value = dfg.value(&out).expect("was added");
            dfg.create_out(&alias, value)
        };
        let names = [name(0), name(1), name(2), name(3)];
        build(&mut dfg, names).expect("builds");
        assert_eq!(Dfg::from_text(&dfg.text()), Ok(dfg.clone()), "{}", dfg.text());
    }
}

#[test]
fn a_backslash_that_escapes_nothing_is_refused() {
    for name in ["\\q", "\\u{110000}", "\\u{}", "\\u0041", "\\u{0000041}"] {
        refused(&format!("1: \"Relu\"\n in={{\"{name}\"}}"), "line 2: a backslash");
    }
    refused("1: \"Relu\"\n in={\"x\\\"}", "line 2: expected a name in quotes");
    refused("1: \"Relu\"\n in={\"\"}", "line 2: a name is empty");
}
