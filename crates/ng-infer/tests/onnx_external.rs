//! External data that the ONNX reader refuses: one case for each reason.

use std::io;

use crate::onnx_support::{entry, external, raw, refuse_graph, small};
use ng_infer::onnx::proto::TensorProto;
use ng_infer::onnx::{ExternalFiles, Model, OnnxError, Range};
use prost::Message;

/// The small model with one more initializer.
fn check(tensor: TensorProto, words: &[&str]) {
    refuse_graph(|graph| graph.initializer.push(tensor), words);
}

#[test]
fn only_plain_file_names_are_taken() {
    let long = "a".repeat(256);
    let names =
        ["", ".", "..", "a/b", "/etc/passwd", "..\\w", "a\\b", "a..b", "a\0b", "a\nb", &long];
    for name in names {
        let words = ["tensor \"t\"", "not a plain file name"];
        check(external("t", &[1], name, "0", "4"), &words);
    }
}

#[test]
fn ranges_must_be_stated_and_fit_the_shape() {
    let with = |offset, length| external("t", &[2], "w", offset, length);
    check(with("0", "4"), &["tensor \"t\"", "length 4", "the 8 bytes"]);
    for text in ["", "-1", "+1", " 1", "0x1", "1e3", "99999999999999999999"] {
        check(with(text, "8"), &["offset", "not a 64-bit number"]);
        check(with("0", text), &["length", "not a 64-bit number"]);
    }
    check(with("18446744073709551615", "8"), &["end past 2^63"]);
    check(with("9223372036854775807", "8"), &["end past 2^63"]);
    for (at, missing) in ["location", "offset", "length"].into_iter().enumerate() {
        let mut tensor = with("0", "8");
        tensor.external_data.remove(at);
        check(tensor, &["tensor \"t\"", "has no", missing]);
    }
    let mut tensor = with("0", "8");
    tensor.external_data.push(entry("offset", "8"));
    check(tensor.clone(), &["the key \"offset\" twice"]);
    tensor.external_data[3] = entry("url", "x");
    check(tensor, &["unknown key \"url\""]);
}

#[test]
fn ranges_of_one_file_must_not_overlap() {
    let add = |ranges: &[(&str, &str)], words: &[&str]| {
        let tensors = ranges.iter().enumerate();
        let tensors = tensors
            .map(|(at, (file, offset))| external(&format!("t{at}"), &[2], file, offset, "8"));
        refuse_graph(|graph| graph.initializer.extend(tensors), words);
    };
    add(
        &[("w", "0"), ("w", "7")],
        &["tensor \"t0\" and the data of tensor \"t1\" overlap", "\"w\""],
    );
    add(
        &[("w", "16"), ("v", "20"), ("w", "9")],
        &["tensor \"t2\" and the data of tensor \"t0\" overlap"],
    );
    add(&[("w", "0"), ("w", "0")], &["overlap"]);
}

/// Reads the tensor `t` from a file of these bytes.
fn read(tensor: TensorProto, file: &[u8]) -> Result<Vec<u8>, OnnxError> {
    let mut model = small();
    model.graph.as_mut().expect("a graph").initializer.push(tensor);
    let model = Model::decode(&model.encode_to_vec()).expect("accepted");
    let read = |range: &Range, into: &mut [u8]| {
        let at = range.offset as usize;
        into.copy_from_slice(&file[at..at + into.len()]);
        Ok(())
    };
    let mut files = ExternalFiles::new(&model, |_| Ok(file.len() as u64), read)?;
    Ok(files.bytes(&model.graph.initializers[1])?.into_owned())
}

fn check_read(tensor: TensorProto, file: &[u8], words: &[&str]) {
    let message = read(tensor, file).expect_err("refused").to_string();
    for word in words {
        assert!(message.contains(word), "{message:?} does not say {word:?}");
    }
}

#[test]
fn ranges_behind_the_end_of_the_file_are_refused_before_memory_is_taken() {
    let words = ["tensor \"t\"", "byte 8 of file \"w\"", "which has 7"];
    check_read(external("t", &[2], "w", "0", "8"), &[0; 7], &words);
    let huge = external("t", &[1 << 59], "w", "0", "2305843009213693952");
    check_read(huge, &[0; 8], &["which has 8"]);
}

#[test]
fn weights_that_are_read_must_be_finite() {
    let words = ["tensor \"t\"", "NaN at index 1"];
    let file = [1.0f32, f32::NAN].map(f32::to_le_bytes).concat();
    check_read(external("t", &[2], "w", "0", "8"), &file, &words);
    let mut half = external("t", &[2], "w", "0", "4");
    half.data_type = Some(10);
    check_read(half, &[0, 0, 0, 0xFC], &["tensor \"t\"", "-inf at index 1"]);
    let mut flags = external("t", &[2], "w", "0", "2");
    flags.data_type = Some(9);
    check_read(flags, &[1, 3], &["has 3 at index 1", "bool"]);
}

#[test]
fn errors_of_the_files_name_the_tensor() {
    let mut model = small();
    let graph = model.graph.as_mut().expect("a graph");
    graph.initializer = vec![external("w", &[2, 2], "w.bin", "0", "16"), raw("v", 1, &[0], &[])];
    let model = Model::decode(&model.encode_to_vec()).expect("accepted");
    let refused = || io::Error::new(io::ErrorKind::NotFound, "a symbolic link");
    let read = |_: &Range, _: &mut [u8]| Err(refused());
    let missing = ExternalFiles::new(&model, |_| Err(refused()), read).err().expect("refused");
    let expected = "tensor \"w\" cannot be read from file \"w.bin\": a symbolic link";
    assert_eq!(missing.to_string(), expected);
    let mut files = ExternalFiles::new(&model, |_| Ok(16), read).expect("inside");
    let unread = files.bytes(&model.graph.initializers[0]).expect_err("refused");
    assert_eq!(unread.to_string(), expected);
}
