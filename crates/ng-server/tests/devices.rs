//! Devices from outside: bundles and plug-ins are put in place while a model answers.
#![allow(clippy::expect_used)]

mod help;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use help::calls::calls;
use help::process::Process;
use help::{client, files, folder, register, run, started};
use ng_rpc::connect::Channel;
use ng_rpc::v1::accelerator_service_client::AcceleratorServiceClient;
use ng_rpc::{Code, Status, problem_told, v1};
use ng_server::{Config, Serving};
use tokio::runtime::Runtime;

struct Caller {
    runtime: Runtime,
    client: AcceleratorServiceClient<Channel>,
}

impl Caller {
    fn new(serving: &Serving) -> Self {
        let (runtime, channel) = calls(serving, 0);
        Self { runtime, client: AcceleratorServiceClient::new(channel) }
    }

    fn program(&self, bundle: &str) -> Result<Vec<v1::Device>, Status> {
        let request = v1::ProgramRequest { bundle: bundle.to_owned() };
        let answer = self.runtime.block_on(self.client.clone().program(request))?;
        Ok(answer.into_inner().devices)
    }

    fn plugin(&self, file: &str, sha256: &str) -> Result<Vec<v1::Device>, Status> {
        let request = v1::PluginRequest { file: file.to_owned(), sha256: sha256.to_owned() };
        let answer = self.runtime.block_on(self.client.clone().plugin(request))?;
        Ok(answer.into_inner().devices)
    }

    fn devices(&self) -> v1::ListDevicesResponse {
        let request = v1::ListDevicesRequest {};
        let answer = self.runtime.block_on(self.client.clone().list_devices(request));
        answer.expect("devices").into_inner()
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Starts to compile C sources to a shared object.
fn compile(source: &Path, to: &Path) -> std::process::Child {
    let mut compile = Command::new("cc");
    compile.args(["-std=gnu11", "-O1", "-fPIC", "-shared", "-pthread", "-I"]);
    compile.arg(root().join("crates/ng-plugin-abi/include")).arg(source).arg("-o").arg(to);
    compile.arg("-lm").spawn().expect("a C compiler")
}

fn with_plugins(folder: &Path, seconds: u64) -> impl FnOnce(Config) -> Config {
    let plugins = Some(folder.to_owned());
    let trial = vec![env!("CARGO_BIN_EXE_neargraph-server").to_owned(), "try-plugin".to_owned()];
    let plugin_trial_time = Duration::from_secs(seconds);
    move |config| Config { plugins, plugin_trial: trial, plugin_trial_time, ..config }
}

fn names(devices: &[v1::Device]) -> Vec<&str> {
    devices.iter().map(|device| device.name.as_str()).collect()
}

#[test]
fn devices_are_replaced_while_a_model_answers_and_old_answers_are_not_given() {
    let (folder, plugins) = (folder(300), tempfile::tempdir().expect("folder"));
    let serving = started(folder.path(), with_plugins(plugins.path(), 60));
    let (direct, caller) = (client(&serving, 1), Caller::new(&serving));
    register(&direct);
    let before = caller.devices();
    assert_eq!(
        (before.bundle.as_str(), names(&before.devices)),
        ("cpu", vec!["cpu", "cpu-scalar"])
    );
    let ask = || direct.run(run(&[3, 4, 5])).expect("rows");
    let first = ask();
    assert_eq!((first.rows_cached, ask().rows_cached), (0, 3));

    let hetero = caller.program("hetero").expect("in force");
    assert!(names(&hetero).contains(&"Systolic array"), "{hetero:?}");
    assert_eq!(caller.devices().devices, hetero);
    let after = ask();
    assert_eq!((after.rows_cached, ask().rows_cached), (0, 3));
    assert_eq!(after.snapshot, first.snapshot);
    let refused = caller.program("abacus").expect_err("no such bundle");
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.message().contains("hetero"), "{}", refused.message());
    // What fails changes nothing: answers from before are still right.
    assert_eq!((caller.devices().devices, ask().rows_cached), (hetero, 3));

    let (source, file) = (plugins.path().join("good.c"), plugins.path().join("good.so"));
    let header = root().join("attacks/plugins/honest.h");
    fs::write(&source, format!("#include {:?}\n", header.display().to_string())).expect("written");
    assert!(compile(&source, &file).wait().expect("compiled").success());
    let sha256 = ng_plugin_host::digest(&file).expect("a digest");
    let wrong = caller.plugin("good.so", &"0".repeat(64)).expect_err("another file");
    assert_eq!(problem_told(&wrong).reason, "PLUGIN_REFUSED");
    for (file, sha256) in [("../good.so", sha256.as_str()), ("", &sha256), ("good.so", "zz")] {
        let refused = caller.plugin(file, sha256).expect_err("no file of the folder");
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    }
    let devices = caller.plugin("good.so", &sha256).expect("loaded");
    let brought: Vec<_> = devices.iter().filter(|device| !device.plugin.is_empty()).collect();
    assert_eq!(brought.len(), 1, "{devices:?}");
    assert_eq!(brought[0].operations, ["Relu"]);
    assert_eq!((ask().rows_cached, ask().rows), (0, after.rows));
}

#[test]
fn a_model_that_was_sent_along_does_not_outlive_its_devices() {
    let folder = folder(100);
    let serving = started(folder.path(), |config| config);
    let (direct, caller) = (client(&serving, 1), Caller::new(&serving));
    let dfg = Some(v1::run_request::Dfg::Files(files()));
    let sent = v1::RunRequest { dfg, fanouts: vec![25, 10], ..run(&[1]) };
    let first = direct.run(sent.clone()).expect("rows");
    let open = || serving.state().catalogue.sent_models().len();
    assert_eq!(open(), 1);
    caller.program("hetero").expect("in force");
    assert_eq!(open(), 0);
    let again = direct.run(sent).expect("rows");
    assert_eq!((again.rows_cached, again.model, open()), (0, first.model, 1));
}

#[test]
fn every_bad_plugin_is_an_error_and_the_server_goes_on() {
    let (folder, plugins) = (folder(50), tempfile::tempdir().expect("folder"));
    let serving = started(folder.path(), with_plugins(plugins.path(), 1));
    let (direct, caller) = (client(&serving, 1), Caller::new(&serving));
    register(&direct);
    let before = caller.devices();
    let sources = fs::read_dir(root().join("attacks/plugins")).expect("the folder");
    let sources = sources.map(|entry| entry.expect("an entry").path());
    let mut sources: Vec<_> =
        sources.filter(|path| path.extension().is_some_and(|e| e == "c")).collect();
    sources.sort();
    // Loading them is tested elsewhere: here some are enough, unless all are asked for.
    let step = if std::env::var_os("NEARGRAPH_ALL_PLUGINS").is_some() { 1 } else { 9 };
    assert!(sources.len() >= 80, "{}", sources.len());
    let sources: Vec<PathBuf> = sources.into_iter().step_by(step).collect();
    for sources in sources.chunks(4) {
        let objects: Vec<PathBuf> = sources
            .iter()
            .map(|source| {
                let name = source.file_stem().expect("a name").to_string_lossy().into_owned();
                plugins.path().join(format!("{name}.so"))
            })
            .collect();
        let compiling: Vec<_> =
            sources.iter().zip(&objects).map(|(from, to)| compile(from, to)).collect();
        for mut one in compiling {
            assert!(one.wait().expect("compiled").success());
        }
        for object in objects {
            let sha256 = ng_plugin_host::digest(&object).expect("a digest");
            let name = object.file_name().expect("a name").to_string_lossy().into_owned();
            let refused = caller.plugin(&name, &sha256).expect_err(&name);
            assert!(
                !refused.message().is_empty() && refused.code() != Code::Internal,
                "{refused:?}"
            );
        }
    }
    assert_eq!(caller.devices(), before);
    assert!(direct.run(run(&[1, 2])).is_ok());
}

#[test]
fn a_server_without_a_folder_for_plugins_loads_none() {
    let folder = folder(50);
    let serving = started(folder.path(), |config| config);
    let refused = Caller::new(&serving).plugin("good.so", &"0".repeat(64)).expect_err("off");
    assert_eq!(problem_told(&refused).reason, "PLUGINS_OFF");
}

#[test]
fn devices_that_were_put_in_place_are_there_after_a_kill_unless_their_file_has_changed() {
    let (folder, plugins) = (folder(100), tempfile::tempdir().expect("folder"));
    let (source, file) = (plugins.path().join("good.c"), plugins.path().join("good.so"));
    let header = root().join("attacks/plugins/honest.h");
    fs::write(&source, format!("#include {:?}\n", header.display().to_string())).expect("written");
    assert!(compile(&source, &file).wait().expect("compiled").success());
    let sha256 = ng_plugin_host::digest(&file).expect("a digest");
    let plugins_at = plugins.path().display().to_string();
    let started = |options: &[&str]| {
        let mut process = Process::start(&[], folder.path(), options);
        assert!(process.answers());
        let client = process.client();
        (process, client)
    };
    let devices = |client: &ng_client::Client| {
        client.list_devices(v1::ListDevicesRequest {}).expect("devices")
    };
    let rows = |client: &ng_client::Client| client.run(run(&[3, 4])).expect("answer").rows;
    let program = |client: &ng_client::Client, bundle: &str| {
        client.program(v1::ProgramRequest { bundle: bundle.to_owned() })
    };
    let with_plugins = ["--plugins", plugins_at.as_str()];

    let (process, client) = started(&with_plugins);
    register(&client);
    program(&client, "hetero").expect("in force");
    let of_file =
        |sha256: &str| v1::PluginRequest { file: "good.so".into(), sha256: sha256.into() };
    client.plugin(of_file(&"0".repeat(64))).expect_err("another file");
    client.plugin(of_file(&sha256)).expect("loaded");
    program(&client, "abacus").expect_err("no such bundle");
    let (before, answer) = (devices(&client), rows(&client));
    assert!(before.devices.iter().any(|device| !device.plugin.is_empty()), "{before:?}");
    drop(process);

    // The copy counts, whatever becomes of the file.
    fs::remove_file(&file).expect("removed");
    let (process, client) = started(&with_plugins);
    assert_eq!((devices(&client), rows(&client)), (before.clone(), answer.clone()));
    drop(process);

    let kept = folder.path().join(".neargraph/plugins").join(&sha256).join("plugin.so");
    let bytes = fs::read(&kept).expect("kept");
    let mut changed = bytes.clone();
    *changed.last_mut().expect("bytes") ^= 1;
    fs::write(&kept, &changed).expect("changed");
    let (process, client) = started(&with_plugins);
    let without = devices(&client);
    assert_eq!(without.bundle, "hetero");
    assert!(without.devices.iter().all(|device| device.plugin.is_empty()), "{without:?}");
    let [left_out] = without.left_out.as_slice() else { panic!("{without:?}") };
    assert!(left_out.contains("good.so") && left_out.contains("has changed since"), "{left_out}");
    assert_eq!(rows(&client), answer);
    drop(process);

    // It is still registered, and not for those whom the operator gives no folder.
    fs::write(&kept, &bytes).expect("as it was");
    let (process, client) = started(&[]);
    let off = devices(&client);
    assert!(off.left_out[0].contains("does not load plug-ins"), "{off:?}");
    drop(process);
    let (process, client) = started(&with_plugins);
    assert_eq!(devices(&client), before);
    program(&client, "cpu").expect("in force");
    assert!(!kept.exists());
    drop(process);
    let (_process, client) = started(&with_plugins);
    let last = devices(&client);
    assert_eq!((last.bundle.as_str(), last.left_out.len()), ("cpu", 0));
}

#[test]
fn a_change_of_devices_that_cannot_be_kept_is_refused_and_undone() {
    let folder = folder(100);
    let first = started(folder.path(), |config| config);
    register(&client(&first, 0));
    let second = started(folder.path(), |config| {
        let socket = ng_server::Address::Unix(folder.path().join("second"));
        Config { listen: vec!["127.0.0.1:0".parse().expect("address"), socket], ..config }
    });
    let (direct, caller) = (client(&second, 0), Caller::new(&second));
    let (before, rows) = (caller.devices(), direct.run(run(&[1, 2])).expect("rows").rows);
    let refused = caller.program("hetero").expect_err("another server uses the catalogue");
    assert_eq!(problem_told(&refused).reason, "CATALOGUE_TAKEN");
    assert_eq!((caller.devices(), direct.run(run(&[1, 2])).expect("rows").rows), (before, rows));
    let read_only = started(folder.path(), |config| {
        let socket = ng_server::Address::Unix(folder.path().join("third"));
        let listen = vec!["127.0.0.1:0".parse().expect("address"), socket];
        Config { listen, read_only: true, ..config }
    });
    assert!(Caller::new(&read_only).program("hetero").is_err());
}
