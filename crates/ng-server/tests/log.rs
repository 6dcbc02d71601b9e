//! What operators and clients read when something fails: lines of the log, and errors with the
//! address and a remedy.
#![allow(clippy::expect_used)]

mod help;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use help::process::Process;
use help::{folder, started};
use ng_client::{Client, Settings};
use ng_rpc::{Code, Problem, problem_told, v1};

const PROGRAM: &str = env!("CARGO_BIN_EXE_neargraph-server");

#[test]
fn a_line_of_a_failed_request_names_the_token_and_the_error() {
    let folder = folder(200);
    let (tokens, log) = (folder.path().join("tokens"), folder.path().join("log"));
    fs::write(&tokens, "read ann a-token-of-the-reader").expect("written");
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).expect("mode");
    // The log of a process goes to its standard error, which a shell writes into a file.
    let shell = format!("exec \"$0\" \"$@\" 2>{}", log.display());
    let program = ["sh".to_owned(), "-c".to_owned(), shell];
    let token_file = tokens.to_str().expect("text");
    let mut server = Process::start(&program, folder.path(), &["--token-file", token_file]);
    let settings = Settings {
        address: format!("unix:{}", folder.path().join("socket").display()),
        token: Some("a-token-of-the-reader".to_owned()),
        timeout: Some(Duration::from_secs(20)),
        retry: Duration::from_secs(20),
        tls: None,
    };
    let client = Client::with(settings).expect("client");
    client.server_info().expect("the server is there");
    let empty = v1::ApplyTransactionRequest::default();
    let refused = client.apply_transaction(empty).expect_err("a reader");
    assert_eq!(refused.code(), Code::PermissionDenied);
    let _ended = server.child.kill();
    let text = fs::read_to_string(&log).expect("a log");
    let line = text.lines().find(|line| line.contains("ApplyTransaction")).expect("a line");
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert_eq!((&line["code"], &line["token"]), (&"PERMISSION_DENIED".into(), &"ann".into()));
    assert!(line["error"].as_str().is_some_and(|text| text.contains("needs the right")), "{line}");
    assert!(line["ms"].to_string().len() <= "1234.567".len(), "{line}");
    let fine = text.lines().find(|line| line.contains("ServerInfo")).expect("a line");
    assert!(!fine.contains("\"error\""), "{fine}");
}

#[test]
fn settings_of_the_command_line_have_the_names_of_its_options() {
    let folder = folder(10);
    let said = |more: &[&str]| {
        let out = Command::new(PROGRAM).arg(folder.path()).args(more).output().expect("run");
        assert_eq!(out.status.code(), Some(2));
        String::from_utf8(out.stderr).expect("text")
    };
    let open = said(&["--listen", "0.0.0.0:0"]);
    assert!(open.contains("set --tls-cert, --tls-key and --token-file"), "{open}");
    let file = folder.path().join("server.toml");
    fs::write(&file, "listen = [\"0.0.0.0:0\"]\n").expect("written");
    let of_file = said(&["--config", file.to_str().expect("text")]);
    assert!(of_file.contains("set tls_cert, tls_key and token_file"), "{of_file}");
}

fn problem(address: &str) -> Problem {
    let client = Client::new(address, Some(Duration::from_secs(20))).expect("client");
    problem_told(&client.server_info().expect_err("no server of gRPC"))
}

#[test]
fn a_server_that_cannot_be_asked_is_named_with_what_to_do() {
    let folder = folder(10);
    let serving = started(folder.path(), |config| config);
    let side = serving.side_address().to_string();
    let other = problem(&side);
    assert_eq!((other.code, other.reason.as_str()), (Code::Unimplemented, "NOT_GRPC"));
    assert!(other.message.contains(&side) && other.remedy.contains("side port"), "{other}");
    let gone = serving.addresses()[0].clone();
    serving.end();
    let none = problem(&gone);
    assert_eq!((none.code, none.reason.as_str()), (Code::Unavailable, "SERVER_UNREACHABLE"));
    let expected = format!("cannot reach the server at {gone}: tcp connect error: Connection ref");
    assert!(none.message.starts_with(&expected), "{none}");
    assert!(none.remedy.contains("neargraph serve"), "{none}");
}
