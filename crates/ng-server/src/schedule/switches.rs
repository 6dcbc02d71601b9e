//! [`Switches`]: the parts of the scheduler, which can be switched off to measure what each brings.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// Which parts of the scheduler are on: letters of `G`, `S` and `C`; none is `N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Switches {
    /// `G`: requests that wait are computed together, repeats once.
    pub group: bool,
    /// `S`: where many more requests wait than a group takes, those whose lists lie near each other
    /// are taken; without groups, the next one is the nearest upwards.
    pub order: bool,
    /// `C`: answers are kept as long as they are right.
    pub cache: bool,
}

impl Default for Switches {
    fn default() -> Self {
        Self { group: true, order: false, cache: true }
    }
}

/// Letters that switch nothing.
#[derive(Debug, thiserror::Error)]
#[error(
    "scheduler={given:?} is not valid: expected one or more of the letters G (group requests), S \
         (order requests) and C (cache answers), or N alone for none"
)]
pub struct BadSwitches {
    given: String,
}

impl FromStr for Switches {
    type Err = BadSwitches;

    fn from_str(text: &str) -> Result<Self, BadSwitches> {
        let bad = || BadSwitches { given: text.to_owned() };
        let mut switches = Self { group: false, order: false, cache: false };
        if text == "N" {
            return Ok(switches);
        }
        for letter in text.chars() {
            let switch = match letter {
                'G' => &mut switches.group,
                'S' => &mut switches.order,
                'C' => &mut switches.cache,
                _ => return Err(bad()),
            };
            if std::mem::replace(switch, true) {
                return Err(bad());
            }
        }
        if text.is_empty() { Err(bad()) } else { Ok(switches) }
    }
}

impl TryFrom<String> for Switches {
    type Error = BadSwitches;

    fn try_from(text: String) -> Result<Self, BadSwitches> {
        text.parse()
    }
}

impl fmt::Display for Switches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [(self.cache, "C"), (self.group, "G"), (self.order, "S")];
        if all.iter().all(|(on, _)| !on) {
            return f.write_str("N");
        }
        all.iter().filter(|(on, _)| *on).try_for_each(|(_, letter)| f.write_str(letter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_switch_parts_and_others_are_refused() {
        for text in ["N", "G", "CG", "CGS", "S"] {
            assert_eq!(text.parse::<Switches>().map(|s| s.to_string()).ok().as_deref(), Some(text));
        }
        for text in ["", "GG", "X", "NG", "g"] {
            assert!(text.parse::<Switches>().is_err(), "{text:?}");
        }
    }
}
