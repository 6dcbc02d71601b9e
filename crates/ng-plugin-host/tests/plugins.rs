//! Good plug-ins, in C and in Rust: loaded, bound by priority, and right.

#![allow(clippy::expect_used)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ng_infer::dfg::{Op, Reduction, Unary};
use ng_infer::run::Devices;
use ng_plugin_host::Plugin;
use support::{compiled, f32s, folder, i64s, loaded, root, run_op};

fn c_example(folder: &Path) -> PathBuf {
    let example = root().join("examples/plugins/c");
    let file = folder.join("aggregate.so");
    // By the commands of the document, but for where the result goes.
    for name in ["aggregate.c", "Makefile"] {
        std::fs::copy(example.join(name), folder.join(name)).expect("copied");
    }
    let include = root().join("crates/ng-plugin-abi/include");
    let include = format!("NG_INCLUDE={}", include.display());
    let done = Command::new("make").arg("-C").arg(folder).arg(include).output().expect("make");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    file
}

fn rust_example(folder: &Path) -> PathBuf {
    let manifest = root().join("examples/plugins/rust/Cargo.toml");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--release", "--offline", "--target-dir"]).arg(folder);
    let done = build.arg("--manifest-path").arg(manifest).output().expect("cargo");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    folder.join("release/libng_plugin_example.so")
}

fn device_of(devices: &Devices, op: &Op) -> String {
    devices.choose(op).expect("a kernel").device.to_string()
}

const MEAN: Op = Op::Spmm(Reduction::Mean);

#[test]
fn the_example_in_c_is_bound_and_right() {
    let folder = folder();
    let plugin = loaded(&c_example(folder.path()), 30).expect("loads");
    assert_eq!((plugin.name(), plugin.version()), ("aggregate", "1.0"));
    assert_eq!(plugin.devices(), [("c-example".to_owned(), 50)]);
    assert!(plugin.cases() > 30, "{}", plugin.cases());
    let mut devices = Devices::default();
    plugin.register(&mut devices);
    assert_eq!(device_of(&devices, &MEAN), "c-example");
    assert_eq!(device_of(&devices, &Op::MatMul), "cpu-scalar");
    let edges = i64s(&[2, 3], &[1, 2, 2, 0, 0, 1]);
    let rows = f32s(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let inputs = [edges, rows.clone()];
    let wanted = f32s(&[3, 2], &[4.0, 5.0, 5.0, 6.0, 0.0, 0.0]);
    assert_eq!(run_op(&devices, &MEAN, &inputs, 1), Ok(wanted));
    let wrong = [i64s(&[2, 1], &[0, 7]), rows];
    let error = run_op(&devices, &MEAN, &wrong, 1).expect_err("no such node");
    assert!(error.contains("device \"c-example\": edge 0 leads from or to a node"), "{error}");
}

#[test]
fn the_example_in_rust_is_bound_and_right_for_any_number_of_threads() {
    let folder = folder();
    let plugin = loaded(&rust_example(folder.path()), 60).expect("loads");
    let mut devices = Devices::default();
    plugin.register(&mut devices);
    assert_eq!(device_of(&devices, &Op::MatMul), "rust-example");
    let numbers = |len: usize| (0..len).map(|i| (i * 7 % 13) as f32 - 6.0).collect::<Vec<_>>();
    let inputs = [f32s(&[150, 90], &numbers(150 * 90)), f32s(&[90, 70], &numbers(90 * 70))];
    let wanted = run_op(&Devices::default(), &Op::MatMul, &inputs, 1);
    for threads in [1, 2, 5] {
        assert_eq!(run_op(&devices, &Op::MatMul, &inputs, threads), wanted, "{threads} threads");
    }
    // Stacks are not served: the reference device does them, and that is counted.
    let left = |plugin: &Plugin| plugin.kernels().next().expect("a kernel").left_to_reference;
    assert_eq!(left(&plugin), 0);
    let stacks = [f32s(&[2, 1, 1], &[2.0, 3.0]), f32s(&[1, 1], &[5.0])];
    assert_eq!(run_op(&devices, &Op::MatMul, &stacks, 1), Ok(f32s(&[2, 1, 1], &[10.0, 15.0])));
    assert_eq!(left(&plugin), 1);
}

#[test]
fn a_file_is_loaded_once_and_its_kernels_outlive_it() {
    let folder = folder();
    let file = c_example(folder.path());
    let first = loaded(&file, 30).expect("loads");
    let second = loaded(&file, 30).expect("loads");
    assert!(Arc::ptr_eq(&first, &second));
    std::fs::remove_file(&file).expect("removed");
    let mut devices = Devices::default();
    first.register(&mut devices);
    let inputs = [i64s(&[2, 0], &[]), f32s(&[1, 1], &[3.0])];
    assert_eq!(run_op(&devices, &MEAN, &inputs, 1), Ok(f32s(&[1, 1], &[0.0])));
}

/// A plug-in of the parts of the attacks, with other parts.
fn made(folder: &Path, name: &str, parts: &str) -> PathBuf {
    let header = root().join("attacks/plugins/honest.h");
    let source = folder.join(format!("{name}.c"));
    std::fs::write(&source, format!("{parts}\n#include {:?}\n", header.display().to_string()))
        .expect("written");
    let file = folder.join(format!("{name}.so"));
    compiled(&source, &file);
    file
}

#[test]
fn a_table_changes_its_choice_with_priorities_and_plug_ins_without_a_restart() {
    let folder = folder();
    let mut devices = Devices::default();
    let relu = Op::Unary(Unary::Relu);
    assert_eq!(device_of(&devices, &relu), "cpu-scalar");
    let low = "#define CHANGE_KERNEL device.name = kernel.device = (NgText)TEXT(\"low chip\"); \
               device.priority = -1;";
    loaded(&made(folder.path(), "low", low), 30).expect("loads").register(&mut devices);
    assert_eq!(device_of(&devices, &relu), "cpu-scalar");
    let high = "#define CHANGE_KERNEL device.name = kernel.device = (NgText)TEXT(\"high chip\"); \
                device.priority = 300;";
    loaded(&made(folder.path(), "high", high), 30).expect("loads").register(&mut devices);
    assert_eq!(device_of(&devices, &relu), "high chip");
    let x = [f32s(&[3], &[-1.0, 0.0, 2.0])];
    assert_eq!(run_op(&devices, &relu, &x, 1), Ok(f32s(&[3], &[0.0, 0.0, 2.0])));
    devices.register_device("low chip", 301);
    assert_eq!(device_of(&devices, &relu), "low chip");
    devices.register_device("low chip", -5);
    devices.register_device("high chip", -6);
    assert_eq!(device_of(&devices, &relu), "cpu-scalar");
}

#[test]
fn kernels_that_are_not_thread_safe_are_called_one_at_a_time() {
    let folder = folder();
    // Two kernels of one plug-in share a flag; whoever finds it set was called beside the other.
    let parts = "#include <time.h>\n\
        static volatile int busy;\n\
        #define TRAITS NG_TRAIT_DETERMINISTIC\n\
        #define IN_RUN if (busy) return NG_FAILED; busy = 1; \
            nanosleep(&(struct timespec){0, 3000000}, NULL); busy = 0;\n\
        #define CHANGE_KERNEL api->register_device(host->registry, &device); \
            kernel.op = (NgText)TEXT(\"Abs\"); \
            kernel.run = run_abs; \
            api->register_op_definition(host->registry, &kernel); \
            kernel.op = (NgText)TEXT(\"Relu\"); kernel.run = run;\n\
        #include \"ng_plugin.h\"\n\
        static int32_t run_abs(void *state, const NgCall *call) {\n\
            (void)state;\n\
            if (busy) return NG_FAILED;\n\
            busy = 1;\n\
            nanosleep(&(struct timespec){0, 3000000}, NULL);\n\
            int64_t n = 1;\n\
            for (uint32_t i = 0; i < call->inputs[0]->rank; i++) n *= call->inputs[0]->dims[i];\n\
            const float *x = call->inputs[0]->data;\n\
            float *y = call->outputs[0]->data;\n\
            for (int64_t i = 0; i < n; i++) y[i] = x[i] < 0 ? -x[i] : x[i];\n\
            busy = 0;\n\
            return NG_OK;\n\
        }";
    let plugin = loaded(&made(folder.path(), "turns", parts), 30).expect("loads");
    assert!(plugin.kernels().all(|kernel| !kernel.is_thread_safe && kernel.is_deterministic));
    let mut devices = Devices::default();
    plugin.register(&mut devices);
    let x = [f32s(&[2], &[-1.0, 1.0])];
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (devices, x) = (&devices, &x);
            let op = Op::Unary(if thread % 2 == 0 { Unary::Relu } else { Unary::Abs });
            scope.spawn(move || {
                for _ in 0..10 {
                    run_op(devices, &op, x, 1).expect("its turn");
                }
            });
        }
    });
}

#[test]
fn data_and_scratch_memory_have_the_alignment_that_a_kernel_asks_for() {
    let folder = folder();
    let parts = "#define SCRATCH_BYTES 1\n\
        #define CHANGE_KERNEL kernel.alignment = 4096;\n\
        #define IN_RUN if ((uintptr_t)x % 4096 || (uintptr_t)y % 4096) return NG_FAILED; \
            if ((uintptr_t)call->scratch % 4096 || call->scratch_bytes != 1) return NG_FAILED;";
    let plugin = loaded(&made(folder.path(), "aligned", parts), 30).expect("loads");
    let mut devices = Devices::default();
    plugin.register(&mut devices);
    let x: Vec<f32> = (0..100).map(|i| 50.0 - i as f32).collect();
    let wanted: Vec<f32> = x.iter().map(|x| x.max(0.0)).collect();
    let found = run_op(&devices, &Op::Unary(Unary::Relu), &[f32s(&[100], &x)], 1);
    assert_eq!(found, Ok(f32s(&[100], &wanted)));
}

#[test]
fn flags_become_0_or_1_before_anybody_sees_them() {
    let folder = folder();
    // In its trial it behaves; later, any byte but 0 stands for yes.
    let parts = "#include <sys/resource.h>\n\
        #define OP \"Not\"\n#define DTYPES (1u << NG_BOOL)\n#define OWN_RUN\n\
        #include \"ng_plugin.h\"\n\
        static int32_t run(void *state, const NgCall *call) {\n\
            (void)state;\n\
            struct rlimit files;\n\
            getrlimit(RLIMIT_FSIZE, &files);\n\
            int64_t n = 1;\n\
            for (uint32_t i = 0; i < call->inputs[0]->rank; i++) n *= call->inputs[0]->dims[i];\n\
            const char *x = call->inputs[0]->data;\n\
            char *y = call->outputs[0]->data;\n\
            for (int64_t i = 0; i < n; i++) y[i] = x[i] ? 0 : files.rlim_max ? 170 : 1;\n\
            return NG_OK;\n\
        }";
    let plugin = loaded(&made(folder.path(), "flags", parts), 30).expect("loads");
    let mut devices = Devices::default();
    plugin.register(&mut devices);
    use ng_infer::dfg::{Constant, Elements};
    let flags = |all: &[bool]| Constant::new(vec![3], Elements::Bool(all.to_vec())).expect("fits");
    let not = Op::Unary(Unary::Not);
    let found = run_op(&devices, &not, &[flags(&[true, false, false])], 1);
    assert_eq!(found, Ok(flags(&[false, true, true])));
}

#[test]
fn a_registry_that_a_plug_in_keeps_takes_nothing_more() {
    let folder = folder();
    let parts = "#include \"ng_plugin.h\"\n\
        static const NgApi *kept;\nstatic NgRegistry *registry;\n\
        #define IN_REGISTRATION kept = api, registry = host->registry;\n\
        #define IN_RUN NgDevice late = {.struct_size = sizeof late, .name = TEXT(\"late\")}; \
            if (kept->register_device(registry, &late) != NG_FAILED) return NG_FAILED;";
    let plugin = loaded(&made(folder.path(), "late", parts), 30).expect("loads");
    let mut devices = Devices::default();
    plugin.register(&mut devices);
    let found = run_op(&devices, &Op::Unary(Unary::Relu), &[f32s(&[1], &[2.0])], 1);
    assert_eq!(found, Ok(f32s(&[1], &[2.0])));
}

#[test]
fn processes_that_a_plug_in_starts_end_with_its_trial() {
    let folder = folder();
    // In the trial alone, a child lives on and holds the pipe of the report open.
    let parts = "#include <sys/resource.h>\n#include <unistd.h>\n\
        #define IN_REGISTRATION struct rlimit files; getrlimit(RLIMIT_FSIZE, &files); \
            if (files.rlim_max == 0 && fork() == 0) for (;;) pause();";
    let file = made(folder.path(), "process", parts);
    let before = Instant::now();
    let found = loaded(&file, 3);
    assert!(before.elapsed() < Duration::from_secs(20), "{:?}", before.elapsed());
    // The report was whole when the time was over: the plug-in passed.
    assert!(found.is_ok(), "{found:?}");
}
