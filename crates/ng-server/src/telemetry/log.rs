//! Lines of the log: text for people on a terminal, JSON for machines elsewhere.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::config::LogFormat;

/// What changes the level of the log while the server runs.
pub struct Level(reload::Handle<EnvFilter, Registry>);

/// A level that is not one.
#[derive(Debug, thiserror::Error)]
#[error(
    "{level:?} is not a log level: expected error, warn, info, debug, or levels by module such as \
     ng_server=debug"
)]
pub struct BadLevel {
    level: String,
}

fn filter_of(level: &str) -> Result<EnvFilter, BadLevel> {
    let bad = || BadLevel { level: level.to_owned() };
    // `EnvFilter` takes any other single word for the name of a module, and then logs nothing.
    let is_known = |part: &str| {
        let part = part.trim();
        part.is_empty() || part.contains(['=', '[']) || part.parse::<LevelFilter>().is_ok()
    };
    if !level.split(',').all(is_known) {
        return Err(bad());
    }
    EnvFilter::try_new(level).map_err(|_| bad())
}

/// Writes the log of this process to standard error. `None` if the process has a log already.
///
/// # Errors
/// The level is not one.
pub fn start(level: &str, format: LogFormat) -> Result<Option<Level>, BadLevel> {
    let (filter, handle) = reload::Layer::new(filter_of(level)?);
    let is_text = match format {
        LogFormat::Text => true,
        LogFormat::Json => false,
        LogFormat::Auto => stderr().is_terminal(),
    };
    let lines = fmt::layer().with_writer(stderr);
    let lines = match is_text {
        true => lines.boxed(),
        false => lines.json().flatten_event(true).boxed(),
    };
    let started = tracing_subscriber::registry().with(filter).with(lines).try_init();
    Ok(started.is_ok().then_some(Level(handle)))
}

impl Level {
    /// Logs at another level from now on.
    ///
    /// # Errors
    /// It is not one.
    pub fn set(&self, level: &str) -> Result<(), BadLevel> {
        let filter = filter_of(level)?;
        self.0.reload(filter).map_err(|_| BadLevel { level: level.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_modules_with_levels_are_known_and_other_words_are_not() {
        for good in ["error", "WARN", "info", "debug", "off", "ng_server=debug", "info,h2=warn"] {
            assert!(filter_of(good).is_ok(), "{good}");
        }
        for bad in ["infoo", "ng_server", "info,verbose", "ng_server=loud"] {
            assert!(filter_of(bad).is_err(), "{bad}");
        }
    }
}
