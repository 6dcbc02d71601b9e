//! Bad plug-ins are refused, each with its own message, and this process survives all of them.

#![allow(clippy::expect_used)]

mod support;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use ng_plugin_host::{AllowList, Plugin, digest};
use support::{compiled, folder, loaded, probe, root};

fn attacks() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("attacks/plugins")).expect("the folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "c")).collect();
    paths.sort();
    paths
}

/// The first line of an attack says with which words it is refused.
fn words(source: &Path) -> String {
    let text = fs::read_to_string(source).expect("a source");
    let line = text.lines().next().and_then(|line| line.strip_prefix("/* Refused: "));
    let words = line.and_then(|line| line.strip_suffix(" */"));
    words.unwrap_or_else(|| panic!("{} does not say what is expected", source.display())).to_owned()
}

#[test]
fn every_attack_is_refused_with_its_own_message() {
    let folder = folder();
    let mut messages = BTreeMap::new();
    let mut wrong = Vec::new();
    for source in attacks() {
        let name = source.file_stem().expect("a name").to_string_lossy().into_owned();
        let file = folder.path().join(format!("{name}.so"));
        compiled(&source, &file);
        let words = words(&source);
        // Where the time is part of the message, little of it is enough.
        let seconds = if words.contains("within 2 s") { 2 } else { 30 };
        match loaded(&file, seconds) {
            Ok(_) => wrong.push(format!("{name} was loaded")),
            Err(error) => {
                let message = error.to_string().replace(&file.display().to_string(), "FILE");
                if !message.contains(&words) {
                    wrong.push(format!("{name}: {message}\n  wanted: {words}"));
                }
                messages.insert(name, message);
            }
        }
    }
    // Whoever reads this line has survived all of them.
    let (tried, failed) = (messages.len(), wrong.len());
    println!(r#"figure: {{"id": "P1", "tried": {tried}, "failed": {failed}, "seed": 0}}"#);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(messages.len() >= 80, "{}", messages.len());
}

/// An honest plug-in, to be spoilt.
fn honest(folder: &Path) -> PathBuf {
    let (source, file) = (folder.join("honest.c"), folder.join("honest.so"));
    let header = root().join("attacks/plugins/honest.h");
    fs::write(&source, format!("#include {:?}\n", header.display().to_string())).expect("written");
    compiled(&source, &file);
    file
}

fn refused(file: &Path, words: &str) {
    let message = loaded(file, 30).expect_err("refused").to_string();
    assert!(message.contains(words), "{message}\n  wanted: {words}");
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("changed");
}

#[test]
fn what_the_attacks_are_made_of_is_a_good_plug_in() {
    let folder = folder();
    let plugin = loaded(&honest(folder.path()), 30).expect("loads");
    assert_eq!((plugin.name(), plugin.cases()), ("attack", 7));
}

#[test]
fn files_and_folders_that_others_can_write_are_refused() {
    let folder = folder();
    let file = honest(folder.path());
    mode(&file, 0o757);
    refused(&file, "the file is writable by everybody");
    mode(&file, 0o775);
    refused(&file, "the file is writable by its group");
    mode(&file, 0o755);
    mode(folder.path(), 0o757);
    refused(&file, "its folder is writable by everybody");
    mode(folder.path(), 0o775);
    refused(&file, "its folder is writable by its group");
    mode(folder.path(), 0o755);
    assert!(loaded(&file, 30).is_ok());
}

#[test]
fn what_is_not_a_plain_file_of_a_plain_name_is_refused() {
    let folder = folder();
    let file = honest(folder.path());
    let at = |name: &str| folder.path().join(name);
    symlink(&file, at("link.so")).expect("a link");
    refused(&at("link.so"), "it is a symbolic link");
    fs::create_dir(at("folder.so")).expect("a folder");
    refused(&at("folder.so"), "it is not a regular file");
    let pipe = std::process::Command::new("mkfifo").arg(at("pipe.so")).status();
    assert!(pipe.expect("mkfifo").success());
    refused(&at("pipe.so"), "it is not a regular file");
    refused(&at("missing.so"), "cannot be read: No such file or directory");
    fs::copy(&file, at("plugin.txt")).expect("copied");
    refused(&at("plugin.txt"), "its name is not valid");
    fs::copy(&file, at("a b.so")).expect("copied");
    refused(&at("a b.so"), "its name is not valid");
    let large = fs::File::create(at("large.so")).expect("a file");
    large.set_len((256 << 20) + 1).expect("longer");
    refused(&at("large.so"), "it has more than 268435456 bytes");
}

#[test]
fn a_file_that_is_not_in_the_allow_list_is_refused() {
    let folder = folder();
    let file = honest(folder.path());
    let sha256 = digest(&file).expect("a digest");
    let refused = |allow: &AllowList| {
        Plugin::load(&file, allow, &probe(30)).expect_err("refused").to_string()
    };
    let other = "0".repeat(64);
    for allow in [AllowList::default(), AllowList::new([other]).expect("a list")] {
        let message = refused(&allow);
        assert!(message.contains(&format!("its SHA-256 {sha256} is not")), "{message}");
    }
    for entry in ["", "abc", &"g".repeat(64), &sha256[1..]] {
        let message = AllowList::new([entry]).expect_err("not a digest").to_string();
        assert!(message.contains("is not a valid SHA-256"), "{message}");
    }
    // A byte more is another file.
    let allow = AllowList::new([sha256.to_uppercase()]).expect("a list");
    assert!(Plugin::load(&file, &allow, &probe(30)).is_ok());
    let mut open = fs::File::options().append(true).open(&file).expect("a file");
    open.write_all(&[0]).expect("written");
    assert!(refused(&allow).contains("is not in the allow-list"));
}

#[test]
fn what_is_not_a_shared_object_for_this_machine_is_refused() {
    let folder = folder();
    let file = honest(folder.path());
    let spoilt = |name: &str, offset: u64, bytes: &[u8]| {
        let to = folder.path().join(name);
        fs::copy(&file, &to).expect("copied");
        let mut open = fs::File::options().write(true).open(&to).expect("a file");
        open.seek(SeekFrom::Start(offset)).expect("there");
        open.write_all(bytes).expect("written");
        to
    };
    refused(&spoilt("magic.so", 0, b"\x7fELG"), "it has no ELF header");
    refused(&spoilt("class.so", 4, &[1]), "not a 64-bit little-endian");
    refused(&spoilt("order.so", 5, &[2]), "not a 64-bit little-endian");
    refused(&spoilt("type.so", 16, &[2, 0]), "it is an ELF file of type 2");
    refused(&spoilt("machine.so", 18, &[243, 0]), "it is for ELF machine 243; this machine is");
    let script = folder.path().join("script.so");
    fs::write(&script, "#!/bin/sh\n").expect("written");
    refused(&script, "it has no ELF header");
    fs::write(&script, "").expect("written");
    refused(&script, "it has no ELF header");
    // The header is right and the rest is not there.
    let bytes = fs::read(&file).expect("the file");
    let short = folder.path().join("short.so");
    fs::write(&short, &bytes[..1000]).expect("written");
    refused(&short, "failed its trial in a separate process: ");
    // Program headers that lead anywhere.
    let headers = spoilt("headers.so", 32, &u64::MAX.to_le_bytes());
    refused(&headers, "failed its trial in a separate process: ");
}

#[test]
fn a_trial_that_cannot_begin_refuses_the_plug_in() {
    let folder = folder();
    let file = honest(folder.path());
    // Another file than in other tests: what is loaded is not tried again.
    let mut open = fs::File::options().append(true).open(&file).expect("a file");
    open.write_all(b"another").expect("written");
    let allow = AllowList::new([digest(&file).expect("a digest")]).expect("a list");
    let with = |program: &str| {
        let probe = ng_plugin_host::Probe::new(program, Vec::new());
        Plugin::load(&file, &allow, &probe).expect_err("refused").to_string()
    };
    let message = with("/nowhere/program");
    assert!(message.contains("cannot start the process for its trial"), "{message}");
    let message = with("true");
    assert!(message.contains("it ended the process with exit code 0: starting"), "{message}");
    let message = with("yes");
    assert!(message.contains("signal 13"), "{message}");
}
