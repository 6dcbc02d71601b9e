//! The interface in `proto/`: its style, and that no change breaks clients that are there.
#![allow(clippy::expect_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ng_rpc::DESCRIPTORS;
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet,
};

/// The number of services in the descriptor of a file, as paths of comments name it.
const SERVICE: i32 = 6;

fn files() -> Vec<FileDescriptorProto> {
    let all = FileDescriptorSet::decode(DESCRIPTORS).expect("descriptors").file;
    all.into_iter().filter(|file| !file.package().starts_with("google.")).collect()
}

fn own() -> Vec<FileDescriptorProto> {
    files().into_iter().filter(|file| file.package() != "inference").collect()
}

fn is_map(message: &DescriptorProto) -> bool {
    message.options.as_ref().is_some_and(|options| options.map_entry())
}

/// All messages of a file with their full names, nested ones too, without those that maps make.
fn messages(file: &FileDescriptorProto) -> Vec<(String, DescriptorProto)> {
    fn with_nested(prefix: &str, one: &DescriptorProto, all: &mut Vec<(String, DescriptorProto)>) {
        if is_map(one) {
            return;
        }
        let name = format!("{prefix}.{}", one.name());
        one.nested_type.iter().for_each(|nested| with_nested(&name, nested, all));
        all.push((name, one.clone()));
    }
    let mut all = Vec::new();
    file.message_type.iter().for_each(|one| with_nested(file.package(), one, &mut all));
    all
}

fn enums(file: &FileDescriptorProto) -> impl Iterator<Item = (String, &EnumDescriptorProto)> {
    file.enum_type.iter().map(|one| (format!("{}.{}", file.package(), one.name()), one))
}

fn base(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum => field.type_name().trim_start_matches('.').to_owned(),
        other => other.as_str_name().trim_start_matches("TYPE_").to_ascii_lowercase(),
    }
}

fn kind(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let short = field.type_name().rsplit('.').next().unwrap_or_default();
    let entry = message.nested_type.iter().find(|one| is_map(one) && one.name() == short);
    match entry {
        Some(entry) => format!("map<{}, {}>", base(&entry.field[0]), base(&entry.field[1])),
        None if field.label() == Label::Repeated => format!("repeated {}", base(field)),
        None if field.proto3_optional() => format!("optional {}", base(field)),
        None => base(field),
    }
}

/// One line for each thing that clients rely on.
fn lines() -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for file in files() {
        for (name, message) in messages(&file) {
            lines.insert(format!("message {name}"));
            for field in &message.field {
                let group = field.oneof_index.filter(|_| !field.proto3_optional());
                let group = group.map(|at| message.oneof_decl[at as usize].name());
                let group = group.map_or(String::new(), |group| format!(" of {group}"));
                let (kind, number) = (kind(&message, field), field.number());
                lines.insert(format!("field {name}.{} = {number}: {kind}{group}", field.name()));
            }
        }
        for (name, one) in enums(&file) {
            let value = |it: &prost_types::EnumValueDescriptorProto| {
                format!("value {name}.{} = {}", it.name(), it.number())
            };
            lines.extend(one.value.iter().map(value));
        }
        for service in &file.service {
            let methods = service.method.iter().map(|method| {
                let stream = |is_one: bool| if is_one { "stream " } else { "" };
                format!(
                    "method {}.{}.{}: {}{} -> {}{}",
                    file.package(),
                    service.name(),
                    method.name(),
                    stream(method.client_streaming()),
                    method.input_type().trim_start_matches('.'),
                    stream(method.server_streaming()),
                    method.output_type().trim_start_matches('.'),
                )
            });
            lines.extend(methods);
        }
    }
    lines
}

fn written() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/interface.txt")
}

#[test]
fn no_change_breaks_clients() {
    let now = lines();
    if std::env::var_os("NEARGRAPH_WRITE_INTERFACE").is_some() {
        let text: String = now.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(written(), text).expect("written");
    }
    let text = std::fs::read_to_string(written()).expect("the interface as it was");
    let before: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    let gone: Vec<&String> = before.difference(&now).collect();
    assert!(gone.is_empty(), "clients that are there rely on these: {gone:#?}");
    let new: Vec<&String> = now.difference(&before).collect();
    assert!(
        new.is_empty(),
        "these are not in proto/interface.txt; NEARGRAPH_WRITE_INTERFACE=1 cargo test -p ng-rpc \
         --test interface writes them: {new:#?}"
    );
}

fn is_snake(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.chars().all(fits) && !name.contains("__") && !name.ends_with('_')
}

fn is_pascal(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(char::is_alphanumeric)
}

fn screaming(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_uppercase());
    }
    text
}

/// Names in a file that are not as they should be.
fn odd_names(file: &FileDescriptorProto) -> Vec<String> {
    let mut odd = Vec::new();
    let mut check = |fits: bool, what: String| odd.extend((!fits).then_some(what));
    let path = Path::new(file.name());
    let folder = path.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
    check(file.package() == folder.replace('/', "."), format!("package of {}", file.name()));
    check(file.package().ends_with(".v1"), format!("version of {}", file.name()));
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    check(is_snake(&stem.unwrap_or_default()), format!("file {}", file.name()));
    for (name, message) in messages(file) {
        check(is_pascal(message.name()), format!("message {name}"));
        for field in &message.field {
            check(is_snake(field.name()), format!("field {name}.{}", field.name()));
        }
        for one in &message.oneof_decl {
            // Those of optional fields begin with one.
            let plain = one.name().trim_start_matches('_');
            check(is_snake(plain), format!("oneof {name}.{}", one.name()));
        }
    }
    for (name, one) in enums(file) {
        let (prefix, first) = (screaming(one.name()), &one.value[0]);
        let is_zero = first.number() == 0 && first.name() == format!("{prefix}_UNSPECIFIED");
        check(is_zero, format!("the first value of {name}"));
        for value in &one.value {
            let fits = value.name().starts_with(&format!("{prefix}_"));
            check(fits, format!("value {name}.{}", value.name()));
        }
    }
    odd
}

#[test]
fn names_are_those_that_clients_of_any_language_expect() {
    let odd: Vec<String> = own().iter().flat_map(odd_names).collect();
    assert!(odd.is_empty(), "{odd:#?}");
}

#[test]
fn each_method_has_messages_of_its_own_and_each_service_a_comment() {
    let mut used = BTreeSet::new();
    let mut services = 0;
    for file in own() {
        let comments = file.source_code_info.clone().unwrap_or_default().location;
        for (at, service) in file.service.iter().enumerate() {
            services += 1;
            assert!(service.name().ends_with("Service"), "{}", service.name());
            let path = [SERVICE, at as i32];
            let about = comments.iter().find(|location| location.path == path);
            let about = about.and_then(|location| location.leading_comments.clone());
            assert!(about.is_some_and(|text| !text.trim().is_empty()), "{}", service.name());
            for method in &service.method {
                let full = |suffix: &str| format!(".{}.{}{suffix}", file.package(), method.name());
                assert_eq!(method.input_type(), full("Request"));
                assert_eq!(method.output_type(), full("Response"));
                assert!(used.insert(method.input_type().to_owned()), "{}", method.name());
            }
        }
    }
    assert!(services >= 6, "{services}");
}
