//! What every error enum below the faces keeps: each variant explained, and no words of a face.

use std::error::Error;

/// One error of each variant; a list that leaves one out does not compile.
#[macro_export]
macro_rules! every_variant {
    ($of:ty {
        $($variant:ident $({ $($field:ident: $value:expr),* $(,)? })? $(($inner:expr))?,)*
    }) => {{
        type Of = $of;
        let _ = |error: &Of| match error {
            $(Of::$variant { .. } => (),)*
        };
        vec![$(Of::$variant $({ $($field: $value),* })? $(($inner))?),*]
    }};
}

/// Panics if a message is empty or names a flag, a keyword, a command, or the Python package.
pub fn assert_for_every_face<E: Error>(errors: &[E]) {
    for error in errors {
        let message = error.to_string();
        assert!(!message.is_empty(), "{error:?}");
        let words = message.split(|c: char| !(c.is_alphanumeric() || "-_=.`".contains(c)));
        for word in words {
            let keyword = word.split_once('=').is_some_and(|(name, _)| !name.is_empty());
            let command = word.starts_with('`') || word.starts_with("ng.");
            let flag = word.starts_with("--");
            assert!(!(keyword || command || flag), "{message}");
        }
    }
}
