//! The server as a command: options, signals, exit codes.

use clap::{CommandFactory, Parser};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{Config, ConfigError, Options};
use crate::serve::{Ended, Serving, serve};
use crate::telemetry::log::{self, Level};

/// The server ended normally.
const DONE: u8 = 0;
/// The server ended with unanswered requests, or with graphs that could not be closed.
const INCOMPLETE: u8 = 1;
/// The server could not start.
const REFUSED: u8 = 2;
/// A second signal ended the server at once: 128 + SIGTERM, as the system would report.
const AT_ONCE: u8 = 143;

/// Runs a server until a signal ends it, and returns the exit code. `args` start with the name of
/// the program. `plugin_trial` is the program that tries plug-ins, unless the configuration sets
/// one. Handles SIGTERM, SIGINT and SIGHUP for the whole process.
pub fn run_command<A: Into<std::ffi::OsString> + Clone>(
    args: impl IntoIterator<Item = A>,
    plugin_trial: Vec<String>,
) -> u8 {
    let options = match Options::try_parse_from(args) {
        Ok(options) => options,
        Err(error) => {
            let _unheard = error.print();
            return error.exit_code().try_into().unwrap_or(REFUSED);
        }
    };
    match run(&options, plugin_trial) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("error: {message}");
            REFUSED
        }
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

enum Asked {
    End,
    Reload,
}

impl Signals {
    fn take() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::End,
            _ = self.interrupt.recv() => Asked::End,
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }
}

fn run(options: &Options, plugin_trial: Vec<String>) -> Result<u8, String> {
    let read = || {
        options.resolve().map(|config| match config.plugin_trial.is_empty() {
            true => Config { plugin_trial: plugin_trial.clone(), ..config },
            false => config,
        })
    };
    let config = read().map_err(|error| told(options, &error))?;
    let level = log::start(&config.log, config.log_format).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    // Before the server starts, so that no signal is missed.
    let signals = runtime.block_on(async { Signals::take() });
    let mut signals = signals.map_err(|error| error.to_string())?;
    config.check().map_err(|error| told(options, &error))?;
    let serving = serve(config).map_err(|error| error.to_string())?;
    let side = serving.side_address();
    tracing::info!(at = serving.addresses().join(" "), side, "serving");
    loop {
        match runtime.block_on(signals.next()) {
            Asked::End => break,
            Asked::Reload => reload(&serving, read(), level.as_ref()),
        }
    }
    tracing::info!("shutting down; requests in flight are answered first");
    // Another signal ends at once, whatever the end of the server waits for.
    let ended = std::thread::spawn(move || serving.end());
    let again = async { while !matches!(signals.next().await, Asked::End) {} };
    let is_over = async {
        while !ended.is_finished() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let at_once = runtime.block_on(async {
        tokio::select! {
            () = is_over => false,
            () = again => true,
        }
    });
    if at_once {
        tracing::warn!("a second signal ended the server at once");
        return Ok(AT_ONCE);
    }
    let Ok(Ended { unanswered, not_closed }) = ended.join() else {
        return Err("the server failed while it shut down".to_owned());
    };
    tracing::info!(unanswered, not_closed, "ended");
    Ok(if unanswered + not_closed == 0 { DONE } else { INCOMPLETE })
}

/// What is wrong with the settings, in the words of the options unless a file has them.
fn told(options: &Options, error: &ConfigError) -> String {
    let message = error.to_string();
    if options.config.is_some() || !matches!(error, ConfigError::Contradiction { .. }) {
        return message;
    }
    let command = Options::command();
    let longs = command.get_arguments().filter_map(|argument| argument.get_long());
    let of_several_words = longs.filter(|long| long.contains('-'));
    of_several_words.fold(message, |message, long| {
        message.replace(&long.replace('-', "_"), &format!("--{long}"))
    })
}

/// Applies a configuration that was read again, and reloads tokens and certificates.
fn reload(serving: &Serving, read: Result<Config, ConfigError>, level: Option<&Level>) {
    let config = match read {
        Ok(config) => config,
        Err(error) => {
            return tracing::error!(%error, "reload failed; the settings are unchanged");
        }
    };
    if let Some(level) = level
        && let Err(error) = level.set(&config.log)
    {
        tracing::error!(%error, "the log level is unchanged");
    }
    match serving.reload(config) {
        Ok(fixed) if fixed.is_empty() => tracing::info!("reloaded the settings file"),
        Ok(fixed) => tracing::warn!(
            needs_restart = fixed.join(" "),
            "reloaded the settings file, except settings that need a restart"
        ),
        Err(error) => tracing::error!(%error, "reload failed; the settings are unchanged"),
    }
}
