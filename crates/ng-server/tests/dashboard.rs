//! The page of the side port and what it asks for: what browsers may do with it, what it is told,
//! and how much at most.
#![allow(clippy::expect_used)]

mod help;

use std::io::{Read, Write};
use std::net::TcpStream;

use help::{client, folder, register, run, started};
use serde_json::Value;

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

fn ask(address: &str, method: &str, path: &str, host: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("connected");
    let request = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    let (head, body) = text.split_once("\r\n\r\n").expect("head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

#[test]
fn the_page_is_its_own_files_alone_and_nothing_in_them_makes_html_of_text() {
    let folder = folder(50);
    let serving = started(folder.path(), |config| config);
    let at = serving.side_address();
    let page = ask(at, "GET", "/", at);
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let links = ["href=\"/page/", "src=\"/page/"]
        .iter()
        .flat_map(|start| page.body.split(start).skip(1).filter_map(|rest| rest.split('"').next()));
    let mut files: Vec<String> = links.map(|name| format!("/page/{name}")).collect();
    assert_eq!(files.len(), 3, "{files:?}");
    files.extend(["metrics", "chart", "hops"].map(|name| format!("/page/{name}.js")));
    files.push("/".into());
    for path in &files {
        let file = ask(at, "GET", path, at);
        assert_eq!(file.status, 200, "{path}");
        let policy = file.header("content-security-policy").expect("policy");
        for rule in ["default-src 'none'", "script-src 'self';", "frame-ancestors 'none'"] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{path}: {policy}");
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(file.header("referrer-policy"), Some("no-referrer"), "{path}");
        let text = file.body.replace("http://www.w3.org/2000/svg", "");
        let forbidden = ["http:", "https:", "innerHTML", "outerHTML", "insertAdjacent", "eval("];
        let handlers = [" onclick=", " onload=", " style=", "<script>", "document.write"];
        for word in forbidden.iter().chain(&handlers) {
            assert!(!text.contains(word), "{path} has {word:?}");
        }
    }
    assert_eq!(ask(at, "GET", "/page/../Cargo.toml", at).status, 404);
    assert_eq!(ask(at, "POST", "/", at).status, 405);
}

#[test]
fn what_the_page_asks_for_is_what_clients_are_told() {
    let folder = folder(300);
    let serving = started(folder.path(), |config| config);
    let (at, tcp) = (serving.side_address(), client(&serving, 0));
    register(&tcp);
    let get = |path: &str| {
        let answer = ask(at, "GET", path, at);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        answer.json()
    };

    assert_eq!(get("/api/info")["version"], env!("CARGO_PKG_VERSION"));
    let graphs = get("/api/graphs");
    assert_eq!(graphs[0]["name"], "small");
    assert_eq!(graphs[0]["node_types"][0]["nodes"], 300);
    assert_eq!(graphs[0]["edge_types"][0]["name"], "to");
    assert!(graphs[0]["edge_types"][0]["edges"].as_u64().is_some_and(|edges| edges > 3_000));
    let models = get("/api/models");
    assert_eq!((&models[0]["name"], &models[0]["version"]), (&"mean".into(), &1.into()));

    let lists = get("/api/neighbors?graph=small&ids=7,8&limit=64");
    let (hub, other) = (&lists["lists"][0], &lists["lists"][1]);
    assert_eq!((&hub["id"], &hub["degree"]), (&7.into(), &3_000.into()));
    assert_eq!(hub["neighbors"].as_array().map(Vec::len), Some(64));
    let degree = other["degree"].as_u64().expect("degree") as usize;
    assert!((5..25).contains(&degree));
    assert_eq!(other["neighbors"].as_array().map(Vec::len), Some(degree));
    assert_eq!(get("/api/neighbors?ids=8&limit=0")["lists"][0]["degree"], degree);

    let scores = get("/api/scores?graph=small&model=mean&ids=5,9");
    let rows = tcp.run(run(&[5, 9])).expect("answer").rows.expect("rows");
    let numbers = rows
        .data
        .chunks_exact(4)
        .map(|four| f64::from(f32::from_le_bytes(four.try_into().expect("four bytes"))));
    let shown = scores["rows"].as_array().expect("rows").iter().flat_map(|row| {
        row.as_array().expect("row").iter().map(|number| number.as_f64().expect("number"))
    });
    assert!(numbers.zip(shown).all(|(a, b)| (a - b).abs() <= a.abs() * 1e-6));
    assert_eq!((&scores["columns"], &scores["model"]), (&3.into(), &"mean@1".into()));
}

#[test]
fn too_much_and_nonsense_are_refused_with_what_is_wrong() {
    let folder = folder(50);
    let serving = started(folder.path(), |config| config);
    let at = serving.side_address();
    register(&client(&serving, 0));
    let many = vec!["1"; 257].join(",");
    let cases = [
        (format!("neighbors?ids={many}"), 400, "give at most 256"),
        (format!("scores?model=mean&ids={many}"), 400, "give at most 256"),
        ("neighbors?ids=1&limit=65".into(), 400, "request at most 64"),
        ("neighbors?ids=".into(), 400, "is not a node id"),
        ("neighbors?ids=%3Cscript%3E".into(), 400, "is not a node id"),
        ("neighbors?ids=50".into(), 400, "50"),
        ("neighbors?ids=1&edge_type=9".into(), 404, "no edge type 9"),
        ("neighbors?ids=1&graph=other".into(), 404, "graphs of the server: small"),
        ("neighbors?limit=3".into(), 400, "ids"),
        ("neighbors?ids=1&what=3".into(), 400, "what"),
        ("scores?ids=1&model=none".into(), 404, "models of the graph: mean"),
        ("scores?ids=50&model=mean".into(), 400, "50"),
    ];
    for (path, status, says) in cases {
        let answer = ask(at, "GET", &format!("/api/{path}"), at);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert_eq!(answer.header("content-type"), Some("application/json"), "{path}");
        let said = answer.json()["error"].as_str().expect("error").to_owned();
        assert!(said.contains(says), "{path}: {said}");
    }
    assert_eq!(ask(at, "POST", "/api/graphs", at).status, 405);
    for host in ["evil.example:7401", "evil.example\r\nauthorization: Bearer anything"] {
        let foreign = ask(at, "GET", "/api/graphs", host);
        assert_eq!((foreign.status, &foreign.json()["reason"]), (403, &"FOREIGN_NAME".into()));
    }
    assert_eq!(ask(at, "GET", "/api/graphs", "localhost:7401").status, 200);
}
