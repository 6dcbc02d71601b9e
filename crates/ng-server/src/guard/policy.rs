//! Who may call what: a right for each method of each service.

use serde::Deserialize;

/// What a caller may do. A right includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Ask whether the server is alive: what needs no token.
    Anyone,
    /// Ask models and read graphs.
    Read,
    /// Change graphs.
    Write,
    /// Change what is served and what computes.
    Admin,
}

impl Right {
    /// What token files and messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anyone => "anyone",
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

/// How a method is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Answers, and is held to a deadline.
    Call,
    /// Goes on for as long as there is something to say or to take: no deadline unless the caller
    /// sets one.
    Stream,
    /// Goes on for as long as the caller wants: it ends when the server is about to.
    Watch,
    /// Asks how the server is: answered also where no place is left, and not counted.
    Look,
    /// Goes on telling how the server is: it ends as a watch does, and has places of its own.
    LookOn,
}

/// What is needed for a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The least right.
    pub right: Right,
    /// How it is called.
    pub kind: Kind,
    /// Whether it changes graphs, what is served, or what computes.
    pub changes: bool,
    /// The method as the table has it: what logs and metrics may be labelled with.
    pub method: &'static str,
}

/// The policy of a path such as `/neargraph.v1.InferenceService/Run`; `None` if there is none, and
/// then nobody may call it.
pub fn policy_of(path: &str) -> Option<Policy> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    let rows = TABLE.iter().find(|(name, _)| *name == service)?.1;
    let (named, right, kind, changes) = rows.iter().find(|row| row.0 == method).copied()?;
    Some(Policy { right, kind, changes, method: named })
}

/// The policy of a path of the side port. Nobody from another machine reaches it if it `is_local`;
/// then metrics need no token.
pub fn policy_of_side(path: &str, is_local: bool) -> Policy {
    let of_metrics = if is_local { Right::Anyone } else { Right::Read };
    let found = SIDE.iter().find(|row| row.0 == path).map(|row| row.1);
    let (method, right, kind, changes) = match (found, path.strip_prefix("/v2/models/")) {
        (Some(row), _) => row,
        (None, Some(model)) => match model.rsplit('/').next() {
            Some("infer") => reads("RestModelInfer"),
            Some("ready") => reads("RestModelReady"),
            _ => reads("RestModelMetadata"),
        },
        (None, None) if path == "/metrics" => ("Metrics", of_metrics, Kind::Look, false),
        (None, None) => match path.split('/').nth(1) {
            // Nothing is there, which is told those who may ask.
            Some("v1" | "v2" | "api") => reads("unknown"),
            _ => ("Page", Right::Anyone, Kind::Look, false),
        },
    };
    Policy { right, kind, changes, method }
}

type Row = (&'static str, Right, Kind, bool);

const fn reads(method: &'static str) -> Row {
    (method, Right::Read, Kind::Call, false)
}

const fn writes(method: &'static str) -> Row {
    (method, Right::Write, Kind::Call, true)
}

const fn rules(method: &'static str) -> Row {
    (method, Right::Admin, Kind::Call, true)
}

const fn watches(method: &'static str, right: Right) -> Row {
    (method, right, Kind::Watch, false)
}

const fn streams(method: &'static str, right: Right, changes: bool) -> Row {
    (method, right, Kind::Stream, changes)
}

const OPEN_INFERENCE: &[Row] = &[
    ("ServerLive", Right::Anyone, Kind::Look, false),
    ("ServerReady", Right::Anyone, Kind::Look, false),
    reads("ModelReady"),
    reads("ServerMetadata"),
    reads("ModelMetadata"),
    reads("ModelInfer"),
];

/// Health says nothing but that the server is there, and probes have no token: so they take no
/// place of those who have one.
const HEALTH: &[Row] =
    &[("Check", Right::Anyone, Kind::Look, false), ("Watch", Right::Anyone, Kind::LookOn, false)];

const TABLE: &[(&str, &[Row])] = &[
    ("neargraph.v1.AcceleratorService", &[rules("Plugin"), rules("Program"), reads("ListDevices")]),
    (
        "neargraph.v1.GraphStoreService",
        &[
            streams("UpdateGraph", Right::Write, true),
            writes("ApplyTransaction"),
            writes("AddVertex"),
            writes("DeleteVertex"),
            writes("AddEdge"),
            writes("DeleteEdge"),
            writes("UpdateEmbed"),
            reads("GetEmbed"),
            reads("GetNeighbors"),
        ],
    ),
    (
        "neargraph.v1.InferenceService",
        &[
            reads("Run"),
            reads("GraphAnalysis"),
            reads("GetAnalysisResult"),
            watches("WatchAnalysis", Right::Read),
            reads("CancelAnalysis"),
            reads("ListAnalyses"),
        ],
    ),
    (
        "neargraph.v1.RegistryService",
        &[
            rules("GraphRegister"),
            rules("GraphUnregister"),
            rules("ModelRegister"),
            rules("ModelUnregister"),
            rules("SetAlias"),
            reads("ListGraphs"),
            reads("ListModels"),
            // Pins keep files: they are not for callers that only read. They change no graph.
            ("PinSnapshot", Right::Write, Kind::Call, false),
            ("UnpinSnapshot", Right::Write, Kind::Call, false),
        ],
    ),
    ("neargraph.v1.SamplingService", &[streams("Sample", Right::Read, false)]),
    ("neargraph.v1.ServerService", &[reads("ServerInfo"), streams("Backup", Right::Admin, false)]),
    ("inference.GRPCInferenceService", OPEN_INFERENCE),
    ("grpc.health.v1.Health", HEALTH),
    ("grpc.reflection.v1.ServerReflection", &[watches("ServerReflectionInfo", Right::Read)]),
    ("grpc.reflection.v1alpha.ServerReflection", &[watches("ServerReflectionInfo", Right::Read)]),
];

/// What the side port serves, but for the page's own files.
const SIDE: &[(&str, Row)] = &[
    ("/healthz", ("Healthz", Right::Anyone, Kind::Look, false)),
    ("/readyz", ("Readyz", Right::Anyone, Kind::Look, false)),
    ("/v1/run", reads("RestRun")),
    ("/v2", reads("RestServerMetadata")),
    ("/v2/", reads("RestServerMetadata")),
    ("/v2/health/live", ("RestServerLive", Right::Anyone, Kind::Look, false)),
    ("/v2/health/ready", ("RestServerReady", Right::Anyone, Kind::Look, false)),
    // What a page that is open asks for again and again.
    ("/api/info", ("PageInfo", Right::Read, Kind::Look, false)),
    ("/api/graphs", ("PageGraphs", Right::Read, Kind::Look, false)),
    ("/api/models", ("PageModels", Right::Read, Kind::Look, false)),
    ("/api/neighbors", reads("PageNeighbors")),
    ("/api/scores", reads("PageScores")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_of_the_interface_has_a_policy_and_none_is_left_over() {
        let methods = ng_rpc::methods().expect("descriptors");
        let missing: Vec<&String> = methods.iter().filter(|m| policy_of(m).is_none()).collect();
        assert!(missing.is_empty(), "no policy says who may call {missing:?}");
        let rows: usize = TABLE.iter().map(|(_, rows)| rows.len()).sum();
        assert_eq!(rows, methods.len(), "the table has methods that there are not");
        for path in ["", "/", "Run", "/neargraph.v1.InferenceService", "/a/b", "//Run"] {
            assert_eq!(policy_of(path), None, "{path:?}");
        }
    }

    #[test]
    fn what_the_side_port_tells_needs_a_right() {
        for path in ["/v1/run", "/v1/x", "/v2/models/a/infer", "/v2/models/a", "/api/x", "/v2"] {
            assert_eq!(policy_of_side(path, true).right, Right::Read, "{path}");
        }
        for path in ["/healthz", "/", "/page/app.js", "/v1x", "//v1/run", "/metrics"] {
            let policy = policy_of_side(path, true);
            assert_eq!((policy.right, policy.kind), (Right::Anyone, Kind::Look), "{path}");
        }
        assert_eq!(policy_of_side("/metrics", false).right, Right::Read);
        let names = SIDE.iter().map(|(_, row)| row.0);
        let infer = policy_of_side("/v2/models/g/m/versions/3/infer", true).method;
        for name in names.chain([infer]) {
            let is_taken = TABLE.iter().flat_map(|(_, rows)| *rows).any(|row| row.0 == name);
            assert!(!is_taken, "metrics cannot tell {name} apart");
        }
    }

    #[test]
    fn what_changes_needs_more_than_reading() {
        let mut names = std::collections::BTreeSet::new();
        for path in ng_rpc::methods().expect("descriptors") {
            let policy = policy_of(&path).expect("policy");
            assert!(!policy.changes || policy.right >= Right::Write, "{path}");
            let looks = matches!(policy.kind, Kind::Look | Kind::LookOn);
            assert_eq!(policy.right == Right::Anyone, looks, "{path} takes places of others");
            // Reflection counts the same under both of its names.
            let is_new = names.insert(policy.method) || path.contains("v1alpha");
            assert!(is_new, "metrics cannot tell two methods apart: {path}");
        }
    }
}
