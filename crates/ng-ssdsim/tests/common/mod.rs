//! What several tests need: machines with one thing in them, random plans, random numbers.
#![allow(clippy::expect_used, dead_code, reason = "each test takes what it needs")]

pub mod jobs;

use ng_ssdsim::{Config, Engine, Machine, Outcome, Path, Plan, Start, flag};
use ng_types::{DrawKey, Draws, EdgeTypeId};

/// Nothing between a command and its die.
pub const BARE: Path = Path {
    firmware: false,
    router: false,
    to_host: false,
    barrier: false,
    stack: false,
    faults: false,
};

/// Numbers from a seed, which the test prints.
pub struct Random {
    draws: Draws,
    next: u32,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Self { draws: DrawKey::new(seed, 0).draws(EdgeTypeId(0), 1), next: 0 }
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next += 1;
        self.draws.below(self.next, bound)
    }

    /// In (0, 1].
    pub fn unit(&mut self) -> f64 {
        self.next += 1;
        ((self.draws.bits(self.next) >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }
}

pub fn machine(config: &Config, path: Path) -> Machine {
    Machine::new(config, path).expect("a device")
}

pub fn run(config: &Config, path: Path, plan: &Plan) -> Outcome {
    Engine::new(machine(config, path)).run(plan, &Start::default())
}

/// Trees of reads: every command of the first hops brings forth `fanout` others on random dies.
pub fn trees(seed: u64, dies: u32, roots: u32, fanout: u32, hops: u8, bytes: u32) -> Plan {
    let mut random = Random::new(seed);
    let mut plan = Plan { roots, feature_bytes: bytes, ..Plan::default() };
    let mut hop_of: Vec<u8> = vec![0; roots as usize];
    let mut at = 0;
    while at < hop_of.len() {
        let hop = hop_of[at];
        plan.children.push(hop_of.len() as u32);
        plan.die.push(random.below(u64::from(dies)) as u32);
        plan.row.push(random.below(4) as u32);
        plan.plane.push(random.below(2) as u8);
        plan.bytes.push(bytes);
        plan.flags.push(flag::SAMPLED | flag::FEATURE);
        plan.hop.push(hop);
        if hop < hops {
            hop_of.extend(std::iter::repeat_n(hop + 1, fanout as usize));
        }
        at += 1;
    }
    plan.children.push(hop_of.len() as u32);
    plan
}
