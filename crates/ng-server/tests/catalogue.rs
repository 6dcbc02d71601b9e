//! What is registered, under attack: kills at each step of writing it, full disks, folders that
//! cannot be written, links, stores that vanish, two servers of one folder. Nothing that was
//! acknowledged is lost, and what is refused says why.
#![allow(clippy::expect_used)]

mod help;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use help::common::build;
use help::process::Process;
use help::{client, files, folder, register, run, started};
use ng_client::Client;
use ng_rpc::{Code, Problem, Status, problem_told, v1};
use ng_server::{Address, Config, ServeError, Serving, serve};
use ng_testing::Random;

const OWN: &str = ".neargraph/catalogue";

fn told<T>(answer: Result<T, Status>) -> Problem {
    problem_told(&answer.map(drop).expect_err("refused"))
}

fn set_alias(client: &Client, alias: &str, model: &str) -> Result<(), Status> {
    let (graph, alias, model) = ("small".into(), alias.into(), model.into());
    client.set_alias(v1::SetAliasRequest { graph, alias, model }).map(drop)
}

fn add_graph(client: &Client, name: &str, path: &str) -> Result<(), Status> {
    let (graph, path) = (name.into(), path.into());
    let request = v1::GraphRegisterRequest { graph, path, ..Default::default() };
    client.graph_register(request).map(drop)
}

fn remove_graph(client: &Client, name: &str) -> Result<(), Status> {
    client.graph_unregister(v1::GraphUnregisterRequest { graph: name.into() }).map(drop)
}

/// A server beside others of the same folder, in which `name` is its socket.
fn beside(folder: &Path, name: &str) -> Serving {
    let socket = Address::Unix(folder.join(name));
    let listen = vec!["127.0.0.1:0".parse().expect("address"), socket];
    started(folder, |config| Config { listen, ..config })
}

/// A change of what is served.
type Change = fn(&Client) -> Result<(), Status>;

/// Changes of what is served, one after the other.
const CHANGES: [Change; 9] = [
    |client| register_mean(client),
    |client| set_alias(client, "prod", "mean@1"),
    |client| register_mean(client),
    |client| set_alias(client, "prod", "mean@2"),
    |client| add_graph(client, "again", "other/store.ng"),
    |client| {
        let (graph, model) = ("small".into(), "mean@1".into());
        client.model_unregister(v1::ModelUnregisterRequest { graph, model }).map(drop)
    },
    |client| client.program(v1::ProgramRequest { bundle: "hetero".into() }).map(drop),
    |client| set_alias(client, "prod", ""),
    |client| remove_graph(client, "again"),
];

fn register_mean(client: &Client) -> Result<(), Status> {
    let request = v1::ModelRegisterRequest {
        model: "mean".into(),
        graph: "small".into(),
        source: Some(v1::model_register_request::Source::Files(files())),
        fanouts: vec![25, 10],
        ..Default::default()
    };
    client.model_register(request).map(drop)
}

/// What is served, as text.
fn state(client: &Client) -> BTreeSet<String> {
    let models = client.list_models(v1::ListModelsRequest::default()).expect("models").models;
    let graphs = client.list_graphs(v1::ListGraphsRequest {}).expect("graphs").graphs;
    let devices = client.list_devices(v1::ListDevicesRequest {}).expect("devices");
    let model = |m: &v1::ModelInfo| {
        format!("{}@{} {:?} {:?}", m.name, m.version, m.aliases, m.ready_problem)
    };
    let all = models.iter().map(model);
    let all = all.chain(graphs.iter().map(|graph| format!("{} {:?}", graph.name, graph.problem)));
    all.chain([devices.bundle]).collect()
}

fn two_stores() -> tempfile::TempDir {
    let folder = folder(60);
    fs::create_dir_all(folder.path().join("other/store.ng")).expect("folder");
    build(&folder.path().join("other/store.ng"), 20, 3);
    folder
}

/// The state after each number of changes.
fn states() -> Vec<BTreeSet<String>> {
    let folder = two_stores();
    let serving = started(folder.path(), |config| config);
    let client = client(&serving, 0);
    let mut all = vec![state(&client)];
    for change in CHANGES {
        change(&client).expect("changed");
        all.push(state(&client));
    }
    all
}

/// Makes all changes with a server that `program` or a thread kills; how many were acknowledged,
/// and whether it came to that.
fn killed(
    program: &[String],
    after: Option<Duration>,
    states: &[BTreeSet<String>],
) -> (usize, bool) {
    let folder = two_stores();
    let mut process = Process::start(program, folder.path(), &[]);
    let mut acknowledged = 0;
    if process.answers() {
        let client = process.client();
        let killer = after.map(|after| {
            let pid = process.child.id().to_string();
            std::thread::spawn(move || {
                std::thread::sleep(after);
                let killed = Command::new("kill").args(["-9", &pid]).stderr(Stdio::null()).status();
                killed.expect("a command");
            })
        });
        let made = CHANGES.iter().take_while(|change| change(&client).is_ok());
        acknowledged = made.count();
        if let Some(killer) = killer {
            killer.join().expect("killed");
        }
    }
    drop(process);
    let serving = started(folder.path(), |config| config);
    let found = state(&client(&serving, 0));
    let fits = states.iter().skip(acknowledged).take(2).any(|state| *state == found);
    assert!(fits, "{program:?} {after:?}: after {acknowledged} changes {found:?}");
    // What a kill has left is in nobody's way.
    let direct = client(&serving, 0);
    register_mean(&direct).expect("registered");
    set_alias(&direct, "last", "mean").expect("an alias");
    (acknowledged, acknowledged < CHANGES.len())
}

/// A program that kills the server as a thread enters a call of `calls` for the `when`th time.
fn tracer(calls: &str, when: u32) -> Vec<String> {
    let inject = format!("inject={calls}:signal=KILL:when={when}");
    let trace = format!("trace={calls}");
    let all = ["strace", "-f", "-qqq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    all.map(str::to_owned).to_vec()
}

#[test]
fn a_kill_at_any_step_of_a_change_loses_nothing_that_was_acknowledged() {
    let states = states();
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("clock");
    let seed = clock.subsec_nanos().into();
    println!("seed {seed}");
    let mut random = Random::new(seed);
    for _ in 0..3 {
        killed(&[], Some(Duration::from_millis(random.below(400))), &states);
    }
    let probe = [&tracer("?fsync", 1000)[..], &["true".to_owned()]].concat();
    let traced = Command::new(&probe[0]).args(&probe[1..]).stderr(Stdio::null()).status();
    if !traced.is_ok_and(|status| status.success()) {
        return println!("left out: no program here that kills at a system call");
    }
    // Each step of making, filling, syncing, renaming and removing files.
    let steps = [
        "?rename,?renameat,?renameat2",
        "?fsync,?fdatasync",
        "?mkdir,?mkdirat",
        "?unlinkat,?rmdir",
    ];
    let is_long = std::env::var_os("NEARGRAPH_ALL_KILLS").is_some();
    for calls in steps {
        let mut when = if is_long { 1 } else { 1 + random.below(8) as u32 };
        loop {
            let (acknowledged, was_killed) = killed(&tracer(calls, when), None, &states);
            println!("{calls} {when}: {acknowledged} changes, killed: {was_killed}");
            if !is_long || !was_killed {
                break;
            }
            when += 1;
        }
    }
}

#[test]
fn a_change_on_a_full_disk_or_in_a_folder_that_cannot_be_written_is_refused_and_changes_nothing() {
    let folder = two_stores();
    let serving = started(folder.path(), |config| config);
    let client = client(&serving, 0);
    // A folder of the server's own cannot be made.
    fs::write(folder.path().join(".neargraph"), "").expect("written");
    let before = state(&client);
    for refused in
        [told(register_mean(&client)), told(add_graph(&client, "again", "other/store.ng"))]
    {
        assert_eq!(refused.reason, "CATALOGUE_NOT_WRITTEN", "{refused:?}");
        assert!(refused.remedy.contains("writable"), "{refused:?}");
    }
    assert_eq!(state(&client), before);
    fs::remove_file(folder.path().join(".neargraph")).expect("removed");
    register_mean(&client).expect("registered");
    let before = state(&client);
    // Every write to this file fails as on a full disk.
    let next = folder.path().join(".neargraph/catalogue.next");
    symlink("/dev/full", &next).expect("linked");
    for change in [CHANGES[1], CHANGES[2], CHANGES[4]] {
        let refused = told(change(&client));
        assert_eq!(refused.reason, "CATALOGUE_NOT_WRITTEN", "{refused:?}");
        assert!(refused.message.contains("No space left"), "{refused:?}");
    }
    let refused = told(CHANGES[6](&client));
    assert!(refused.message.contains("No space left"), "{refused:?}");
    assert_eq!(state(&client), before);
    assert!(client.run(run(&[1, 2])).is_ok());
    fs::remove_file(&next).expect("removed");
    set_alias(&client, "prod", "mean").expect("there is room again");
    let after = state(&client);
    serving.end();
    let serving = started(folder.path(), |config| config);
    assert_eq!(state(&help::client(&serving, 0)), after);
}

#[test]
fn a_damaged_catalogue_stops_the_start_and_says_what_to_do() {
    let folder = two_stores();
    let serving = started(folder.path(), |config| config);
    register(&client(&serving, 0));
    serving.end();
    let path = folder.path().join(OWN);
    let bytes = fs::read(&path).expect("there");
    let starts = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("written");
        let listen = vec![Address::Unix(folder.path().join("socket"))];
        let config = Config { folder: folder.path().to_owned(), listen, ..Config::default() };
        let side = Some("127.0.0.1:0".parse().expect("address"));
        serve(Config { side, memory: Some(64 << 20), ..config })
    };
    let mut damaged: Vec<Vec<u8>> =
        (0..bytes.len()).step_by(29).map(|at| bytes[..at].to_vec()).collect();
    damaged.extend((0..bytes.len()).step_by(23).map(|at| {
        let mut flipped = bytes.clone();
        flipped[at] ^= 4;
        flipped
    }));
    for bytes in damaged {
        let refused = starts(&bytes).map(drop).expect_err("damaged");
        assert!(matches!(refused, ServeError::Catalogue(_)), "{refused}");
        let text = refused.to_string();
        let says = text.contains("restore it from a copy") || text.contains("use a later release");
        assert!(text.contains(OWN) && says, "{text}");
    }
    let serving = starts(&bytes).expect("as it was");
    assert!(client(&serving, 0).run(run(&[1])).is_ok());
}

#[test]
fn one_server_of_a_folder_changes_what_is_served_and_the_others_say_so() {
    let folder = two_stores();
    let first = started(folder.path(), |config| config);
    register(&client(&first, 0));
    let second = beside(folder.path(), "second");
    let of_second = client(&second, 0);
    for change in [CHANGES[1], CHANGES[4], CHANGES[6]] {
        let refused = told(change(&of_second));
        assert_eq!(refused.reason, "CATALOGUE_TAKEN", "{refused:?}");
    }
    assert!(of_second.run(run(&[1])).is_ok());
    set_alias(&client(&first, 0), "prod", "mean").expect("it may");
}

#[test]
fn a_store_has_one_name_whatever_links_lead_to_it() {
    let (folder, elsewhere) = (folder(40), tempfile::tempdir().expect("folder"));
    let store = elsewhere.path().join("far.ng");
    fs::create_dir(&store).expect("folder");
    build(&store, 30, 5);
    symlink(&store, folder.path().join("far.ng")).expect("linked");
    let serving = started(folder.path(), |config| config);
    let of = client(&serving, 0);
    let names = |client: &Client| {
        let graphs = client.list_graphs(v1::ListGraphsRequest {}).expect("graphs").graphs;
        let shown = graphs.into_iter().map(|graph| (graph.name, graph.problem));
        shown.collect::<Vec<(String, String)>>()
    };
    assert_eq!(names(&of), [("far".into(), String::new()), ("small".into(), String::new())]);
    symlink(&store, folder.path().join("near.ng")).expect("linked");
    let refused = told(add_graph(&of, "near", ""));
    assert_eq!((refused.code, refused.reason.as_str()), (Code::AlreadyExists, "GRAPH_EXISTS"));
    assert!(refused.message.contains("\"far\""), "{refused:?}");
    serving.end();
    // At a start both are found.
    let serving = started(folder.path(), |config| config);
    let all = names(&client(&serving, 0));
    assert_eq!(all.len(), 3);
    assert!(all[1].0 == "near" && all[1].1.contains("served as graph \"far\""), "{all:?}");
}

#[test]
fn a_store_that_is_removed_while_it_is_served_takes_no_more_changes() {
    let folder = two_stores();
    let serving = started(folder.path(), |config| config);
    let client = client(&serving, 0);
    register(&client);
    let add = || {
        let vertex = Some(v1::AddVertex::default());
        client.add_vertex(v1::AddVertexRequest {
            graph: "small".into(),
            vertex,
            ..Default::default()
        })
    };
    add().expect("added");
    let path = folder.path().join("small.ng");
    fs::rename(&path, folder.path().join("away")).expect("renamed");
    let refused = told(add());
    assert_eq!(
        (refused.code, refused.reason.as_str()),
        (Code::FailedPrecondition, "GRAPH_REPLACED")
    );
    fs::rename(folder.path().join("away"), &path).expect("renamed");
    add().expect("it is there again");
    fs::remove_dir_all(&path).expect("removed");
    assert_eq!(told(add()).reason, "GRAPH_REPLACED");
    // Files that are open can be read.
    assert_eq!(client.run(run(&[3])).expect("an answer").rows.expect("rows").shape, [1, 3]);
    remove_graph(&client, "small").expect("unregistered");
    assert_eq!(told(client.run(run(&[3]))).reason, "GRAPH_NOT_FOUND");
    fs::create_dir(&path).expect("folder");
    build(&path, 25, 9);
    add_graph(&client, "small", "").expect("registered");
    register(&client);
    assert!(client.run(run(&[24])).is_ok());
    fs::remove_dir_all(&path).expect("removed");
    serving.end();
    let serving = started(folder.path(), |config| config);
    let refused = told(help::client(&serving, 0).run(run(&[1])));
    assert!(refused.message.contains("small"), "{refused:?}");
}
