//! Real edge lists against a plain parse. Needs `NEARGRAPH_DATA`; skipped where it is not set.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::common::{open, stored, verify};
use ng_import::{Column, EdgeTypeSpec, IdSlice, ImportOptions, Importer, TextOptions};

fn data(name: &str) -> Option<PathBuf> {
    let Ok(root) = std::env::var("NEARGRAPH_DATA") else {
        println!("skipped: NEARGRAPH_DATA is not set");
        return None;
    };
    let path = Path::new(&root).join(name);
    if !path.exists() {
        println!("skipped: {} does not exist", path.display());
        return None;
    }
    Some(path)
}

fn text_of(path: &Path) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

/// Destination -> (time, source), in list order.
type Adjacency = BTreeMap<u64, Vec<(i64, u64)>>;

fn adjacency(edges: impl Iterator<Item = (u64, u64, i64)>, undirected: bool) -> Adjacency {
    let mut lists = Adjacency::new();
    for (source, destination, time) in edges {
        lists.entry(destination).or_default().push((time, source));
        if undirected && source != destination {
            lists.entry(source).or_default().push((time, destination));
        }
    }
    lists.values_mut().for_each(|list| list.sort_unstable());
    lists
}

fn check(path: &Path, spec: &EdgeTypeSpec, text: &TextOptions, expected: &Adjacency) {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("store.ng");
    let options = ImportOptions { memory: Some(16 << 20), ..ImportOptions::default() };
    let mut import = Importer::new(&place, options).unwrap();
    import.node_type(&spec.source, None, false).unwrap();
    if spec.destination != spec.source {
        import.node_type(&spec.destination, None, false).unwrap();
    }
    let edges = import.edge_type(spec.clone()).unwrap();
    import.read_text(edges, path, text, &mut |_| true).unwrap();
    import.finish(&mut |_| true).unwrap();
    verify(&place);
    let found: Adjacency = stored(&open(&place), edges)
        .into_iter()
        .map(|(node, list)| (node, list.iter().map(|entry| (entry.time, entry.source)).collect()))
        .collect();
    assert!(found == *expected, "{}", path.display());
}

fn numbers(line: &str, separators: &[char]) -> Vec<u64> {
    let fields = line.split(separators).filter(|field| !field.is_empty());
    fields.map(|field| field.parse().unwrap()).collect()
}

#[test]
fn musae_pages_are_comma_separated_with_a_header() {
    for name in ["musae/chameleon_edges.csv.gz", "musae/squirrel_edges.csv.gz"] {
        let Some(path) = data(name) else { return };
        let text = text_of(&path);
        let rows = text.lines().skip(1).map(|line| numbers(line, &[',']));
        let expected = adjacency(rows.map(|row| (row[0], row[1], 0)), true);
        let spec =
            EdgeTypeSpec { undirected: true, ..EdgeTypeSpec::between("page", "links", "page") };
        let options = TextOptions { header: true, ..TextOptions::default() };
        check(&path, &spec, &options, &expected);
    }
}

#[test]
fn tudataset_graphs_are_comma_and_space_separated() {
    for name in ["ENZYMES", "MUTAG", "PROTEINS"] {
        let Some(path) = data(&format!("tudataset/{name}/{name}_A.txt.gz")) else {
            return;
        };
        let text = text_of(&path);
        let rows = text.lines().map(|line| numbers(line, &[',', ' ']));
        let expected = adjacency(rows.map(|row| (row[0], row[1], 0)), false);
        let spec = EdgeTypeSpec::between("atom", "bond", "atom");
        check(&path, &spec, &TextOptions::default(), &expected);
    }
}

#[test]
fn gowalla_users_are_followed_by_their_places() {
    for name in ["gowalla_train.txt.gz", "gowalla_test.txt.gz"] {
        let Some(path) = data(&format!("gowalla_checkins/{name}")) else {
            return;
        };
        let text = text_of(&path);
        let rows = text.lines().map(|line| numbers(line, &[' ']));
        let edges = rows.flat_map(|row| {
            let user = row.first().copied();
            let edge = move |place| user.map(|user| (user, place, 0));
            row.into_iter().skip(1).filter_map(edge).collect::<Vec<_>>()
        });
        let expected = adjacency(edges, false);
        let spec = EdgeTypeSpec::between("user", "visits", "place");
        let options = TextOptions { adjacency: true, ..TextOptions::default() };
        check(&path, &spec, &options, &expected);
    }
}

#[test]
fn dblp_coauthors_have_fractional_times() {
    let Some(path) = data("dblp_coauthor_temporal/dblp.txt.gz") else {
        return;
    };
    let text = text_of(&path);
    let rows = text.lines().map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let time: f64 = fields[2].parse().unwrap();
        (fields[0].parse().unwrap(), fields[1].parse().unwrap(), (time * 26.0).round() as i64)
    });
    let expected = adjacency(rows, true);
    assert_eq!(expected.values().flatten().map(|entry| entry.0).max(), Some(24));
    let spec = EdgeTypeSpec {
        undirected: true,
        time: true,
        ..EdgeTypeSpec::between("author", "writes_with", "author")
    };
    let options = TextOptions {
        time_column: Some(Column::Index(2)),
        time_scale: Some(26.0),
        ..TextOptions::default()
    };
    check(&path, &spec, &options, &expected);
}

/// The integers of a member of an uncompressed or deflated `.npz`, by its name.
fn npz_member(path: &Path, name: &str) -> Vec<i64> {
    let bytes = std::fs::read(path).unwrap();
    let u16_at = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let end =
        (0..bytes.len() - 4).rev().find(|at| bytes[*at..].starts_with(b"PK\x05\x06")).unwrap();
    let mut entry = u32_at(end + 16);
    loop {
        assert!(bytes[entry..].starts_with(b"PK\x01\x02"), "no member {name}");
        let (name_len, skipped) = (u16_at(entry + 28), u16_at(entry + 30) + u16_at(entry + 32));
        let found = &bytes[entry + 46..entry + 46 + name_len] == format!("{name}.npy").as_bytes();
        if found {
            break;
        }
        entry += 46 + name_len + skipped;
    }
    let (method, packed_len, local) = (u16_at(entry + 10), u32_at(entry + 20), u32_at(entry + 42));
    let start = local + 30 + u16_at(local + 26) + u16_at(local + 28);
    let packed = &bytes[start..start + packed_len];
    let mut npy = Vec::new();
    match method {
        0 => npy.extend_from_slice(packed),
        _ => {
            flate2::read::DeflateDecoder::new(packed).read_to_end(&mut npy).unwrap();
        }
    }
    let data = 10 + usize::from(u16::from_le_bytes([npy[8], npy[9]]));
    let header = String::from_utf8_lossy(&npy[10..data]).into_owned();
    match header.contains("<i4") {
        true => npy[data..]
            .chunks_exact(4)
            .map(|b| i64::from(i32::from_le_bytes(b.try_into().unwrap())))
            .collect(),
        false => {
            npy[data..].chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect()
        }
    }
}

#[test]
fn the_web_graph_cnr_2000_is_a_csr_matrix() {
    let Some(path) = data("cnr-2000/cnr-2000_csr.npz") else {
        return;
    };
    let (indptr, indices) = (npz_member(&path, "indptr"), npz_member(&path, "indices"));
    assert_eq!((indptr.len(), indices.len()), (325_558, 3_216_152));
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("store.ng");
    let options = ImportOptions { memory: Some(16 << 20), ..ImportOptions::default() };
    let mut import = Importer::new(&place, options).unwrap();
    import.node_type("page", Some(325_557), false).unwrap();
    let edges = import.edge_type(EdgeTypeSpec::between("page", "links", "page")).unwrap();
    let rows = indptr.windows(2).enumerate();
    let sources: Vec<i64> =
        rows.flat_map(|(source, range)| (range[0]..range[1]).map(move |_| source as i64)).collect();
    let (from, to) = (IdSlice::I64(&sources), IdSlice::I64(&indices));
    import.push_edges(edges, from, to, None, None, None).unwrap();
    import.finish(&mut |_| true).unwrap();
    verify(&place);
    let rows = indptr.windows(2).enumerate().flat_map(|(source, range)| {
        let row = &indices[range[0] as usize..range[1] as usize];
        row.iter().map(move |destination| (source as u64, *destination as u64, 0))
    });
    let expected = adjacency(rows, false);
    let found: Adjacency = stored(&open(&place), edges)
        .into_iter()
        .map(|(node, list)| (node, list.iter().map(|entry| (0, entry.source)).collect()))
        .collect();
    assert!(found == expected);
}
