//! The header for C and the structs of Rust are one interface.

use std::fmt::Write;
use std::mem::{align_of, offset_of, size_of};
use std::path::Path;
use std::process::Command;

use ng_plugin_abi::*;

/// For each constant and each struct a line of what Rust has, and the C code that prints it.
macro_rules! layout {
    (constants: [$($constant:ident),+ $(,)?],
     structs: [$($name:ident { $($field:ident),+ $(,)? }),+ $(,)?]) => {
        fn rust() -> String {
            let mut text = String::new();
            $(writeln!(text, "{} {}", stringify!($constant), $constant as u64).expect("a text");)+
            $(
                let (size, align) = (size_of::<$name>(), align_of::<$name>());
                writeln!(text, "{} {size} {align}", stringify!($name)).expect("a text");
                $(writeln!(
                    text,
                    "{}.{} {}",
                    stringify!($name), stringify!($field), offset_of!($name, $field)
                ).expect("a text");)+
            )+
            text
        }

        fn c() -> String {
            let mut code = String::from(
                "#include <stdio.h>\n#include <stddef.h>\n#include \"ng_plugin.h\"\n\
                 int main(void) {\n"
            );
            $(code += &format!(
                "printf(\"{0} %llu\\n\", (unsigned long long){0});\n", stringify!($constant)
            );)+
            $(
                code += &format!(
                    "printf(\"{0} %zu %zu\\n\", sizeof({0}), _Alignof({0}));\n", stringify!($name)
                );
                $(code += &format!(
                    "printf(\"{0}.{1} %zu\\n\", offsetof({0}, {1}));\n",
                    stringify!($name), stringify!($field)
                );)+
            )+
            code + "return 0; }\n"
        }
    };
}

layout! {
    constants: [
        NG_API_VERSION, NG_OK, NG_FAILED, NG_NOT_SERVED, NG_MISFIT, NG_F32, NG_I64, NG_BOOL, NG_CPU,
        NG_TRAIT_THREAD_SAFE, NG_TRAIT_DETERMINISTIC,
    ],
    structs: [
        NgText { data, len },
        NgError { struct_size, data, capacity, len },
        NgView { struct_size, data, dims, strides, rank, dtype, device, reserved },
        NgViewMut { struct_size, data, dims, strides, rank, dtype, device, reserved },
        NgAttribute { struct_size, name, value },
        NgOp { struct_size, name, attributes, attribute_count, reserved },
        NgCall {
            struct_size, op, inputs, outputs, input_count, output_count, scratch, scratch_bytes,
            error, threads, reserved,
        },
        NgDevice { struct_size, name, priority, reserved },
        NgKernel {
            struct_size, op, device, traits, dtypes, alignment, state, query, run,
        },
        NgApi { struct_size, register_device, register_op_definition },
        NgHost { struct_size, get_api, registry, error },
        NgPlugin { struct_size, api_version, reserved, name, version },
    ]
}

fn header() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

#[test]
fn sizes_offsets_and_constants_are_those_of_the_header() {
    let folder = std::env::temp_dir().join(format!("ng-plugin-abi-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (source, program) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&source, c()).expect("a file");
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]).arg(header());
    let done = compile.arg(&source).arg("-o").arg(&program).output().expect("a C compiler");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let found = Command::new(&program).output().expect("the program").stdout;
    std::fs::remove_dir_all(&folder).expect("removed");
    assert_eq!(String::from_utf8_lossy(&found), rust());
}

#[test]
fn every_constant_and_struct_of_the_header_is_compared() {
    let text = std::fs::read_to_string(header().join("ng_plugin.h")).expect("the header");
    let compared = rust();
    let is_compared =
        |name: &str| compared.lines().any(|line| line.split(' ').next() == Some(name));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("#define ") {
            let name = rest.split(' ').next().expect("a name");
            assert!(name == "NG_PLUGIN_H" || is_compared(name), "{name} is not compared");
        }
        if let Some(name) = line.strip_prefix("} ").and_then(|rest| rest.strip_suffix(';')) {
            assert!(is_compared(name), "{name} is not compared");
        }
    }
    // As many fields: a declaration in a struct is an indented line that ends with a semicolon.
    let fields = text.lines().filter(|line| line.starts_with("    ") && line.ends_with(';'));
    assert_eq!(fields.count(), compared.lines().filter(|line| line.contains('.')).count());
}

#[test]
fn sizes_and_offsets_of_the_document_are_those_of_the_header() {
    let path = header().join("../../../docs/reference/plugin-abi.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let compared = rust();
    let layout = |name: &str| {
        let line = compared.lines().find(|line| line.split(' ').next() == Some(name));
        line.and_then(|line| line.split(' ').nth(1)).map(str::to_owned)
    };
    let (mut structs, mut fields) = (0, 0);
    for line in text.lines().filter(|line| line.starts_with("| `Ng")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        for name in cells[1].split(", ").map(|name| name.trim_matches('`')) {
            assert_eq!(layout(name).as_deref(), Some(cells[2]), "{name}");
            structs += 1;
            for field in cells[3].split(':').next().unwrap_or_default().split(", ") {
                let (field, offset) = field.split_once("` ").expect("a field and its offset");
                let field = format!("{name}.{}", field.trim_start_matches('`'));
                assert_eq!(layout(&field).as_deref(), Some(offset), "{field}");
                fields += 1;
            }
        }
    }
    let all = compared.lines().filter(|line| line.contains('.')).count();
    assert_eq!((structs, fields), (12, all));
}
