//! A server from outside: answers over each transport, and errors that say what to do.
#![allow(clippy::expect_used)]

mod help;

use help::{client, folder, register, run, started};
use ng_rpc::Code;

#[test]
fn a_registered_model_answers_over_each_transport() {
    let folder = folder(500);
    let serving = started(folder.path(), |config| config);
    let (tcp, unix) = (client(&serving, 0), client(&serving, 1));

    let refused = tcp.run(run(&[1])).expect_err("no model yet");
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.message().contains("no model \"mean\""), "{}", refused.message());

    let made = register(&tcp);
    assert_eq!((made.name.as_str(), made.version), ("mean", 1));

    let first = tcp.run(run(&[17, 4, 17])).expect("answer");
    let second = unix.run(run(&[17, 4, 17])).expect("answer");
    assert_eq!(first.rows, second.rows);
    let rows = first.rows.expect("rows");
    assert_eq!(rows.shape, [3, 3]);
    assert_eq!(rows.data[..12], rows.data[24..36]);
    assert_eq!(first.model, "mean@1");
    assert!(first.snapshot.is_some_and(|snapshot| snapshot.fingerprint != 0));

    let refused = unix.run(run(&[500])).expect_err("no such node");
    assert_eq!(refused.code(), Code::OutOfRange);
    assert_eq!(tcp.server_info().expect("info").addresses, serving.addresses());
    serving.end();
    let gone = tcp.run(run(&[1])).expect_err("ended");
    assert_eq!(gone.code(), Code::Unavailable);
}
