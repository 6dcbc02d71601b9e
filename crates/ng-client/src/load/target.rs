//! Which servers are asked, over which connections.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ng_rpc::connect::SHM;
use ng_rpc::direct::{Direct, Head, framed};
use ng_rpc::{Code, Status, problem_told, v1};
use prost::Message;
use serde_json::{Map, Value};

use super::options::Options;
use crate::again::tried;
use crate::calls::{AsyncClient, within};
use crate::settings::Settings;

const RUN: &str = "/neargraph.v1.InferenceService/Run";
const PEER_RUN: &str = "/neargraph.peer.Peer/Run";

/// What is asked of all connections.
#[derive(Clone)]
enum Kind {
    Server { graph: String, model: String },
    Peer,
}

/// The peer of the benchmarks; its interface is `benchmarks/serving/peer/peer.proto`.
mod peer {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct RunRequest {
        #[prost(int64, repeated, tag = "1")]
        pub nodes: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct RunReply {
        #[prost(int64, repeated, tag = "1")]
        pub shape: Vec<i64>,
        #[prost(bytes = "vec", tag = "2")]
        pub values: Vec<u8>,
    }
}

/// Servers of one kind. A request goes to the connection with the fewest under way.
#[derive(Clone)]
pub(crate) struct Target(Rc<Servers>);

struct Servers {
    kind: Kind,
    /// What is asked of them beside the load; one for each address.
    asides: Vec<AsyncClient>,
    connections: Vec<Connection>,
    retry: Duration,
    timeout: Option<Duration>,
}

struct Connection {
    way: Way,
    under_way: Cell<usize>,
}

enum Way {
    /// Costs this process least.
    Direct(Direct, Head),
    /// For TLS and for rings.
    Channel(AsyncClient),
}

impl Target {
    pub(crate) fn new(options: &Options) -> Result<Self, String> {
        let to = match &options.to {
            Some(to) => to.clone(),
            None => format!("neargraph:{}:{}", options.address, options.model),
        };
        let (kind, addresses) = parsed(&to, &options.graph)?;
        let (mut asides, mut connections) = (Vec::new(), Vec::new());
        let mut timeout = None;
        for address in addresses {
            let settings = options.settings(address)?;
            let calls = || AsyncClient::new(&settings).map_err(|error| error.to_string());
            timeout = settings.timeout;
            asides.push(calls()?);
            for _ in 0..options.connections {
                let way = match kind.direct(&settings)? {
                    Some((direct, head)) => Way::Direct(direct, head),
                    None => Way::Channel(calls()?),
                };
                connections.push(Connection { way, under_way: Cell::new(0) });
            }
        }
        let retry = Duration::from_secs_f64(options.retry);
        Ok(Self(Rc::new(Servers { kind, asides, connections, retry, timeout })))
    }

    /// Asks for nodes. An answer with other rows is an error.
    pub(crate) async fn ask(&self, ids: Vec<u64>) -> Result<(), Code> {
        let least = self.0.connections.iter().min_by_key(|one| one.under_way.get());
        let Some(connection) = least else { return Err(Code::Unavailable) };
        connection.under_way.set(connection.under_way.get() + 1);
        let asked = ids.len() as u64;
        let rows = match &self.0.kind {
            Kind::Server { graph, model } => {
                let message = run_request(graph, model, ids);
                let answer: Result<v1::RunResponse, Status> =
                    self.over(connection, RUN, message).await;
                answer.map(|answer| {
                    let shape = answer.rows.unwrap_or_default().shape;
                    shape.first().copied().unwrap_or(0)
                })
            }
            Kind::Peer => {
                let nodes = ids.iter().map(|id| *id as i64).collect();
                let message = peer::RunRequest { nodes };
                let answer: Result<peer::RunReply, Status> =
                    self.over(connection, PEER_RUN, message).await;
                answer.map(|answer| answer.shape.first().copied().unwrap_or(0) as u64)
            }
        };
        connection.under_way.set(connection.under_way.get() - 1);
        match rows {
            Ok(rows) if rows == asked => Ok(()),
            Ok(_) => Err(Code::DataLoss),
            Err(status) => Err(status.code()),
        }
    }

    async fn over<Q, A>(
        &self,
        connection: &Connection,
        path: &'static str,
        message: Q,
    ) -> Result<A, Status>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        match &connection.way {
            Way::Channel(calls) => calls.unary(path, message, true).await,
            Way::Direct(direct, head) => {
                let framed = framed(&message);
                let attempt = |left| within(left, direct.unary(head, framed.clone()));
                tried(self.0.retry, self.0.timeout, attempt).await
            }
        }
    }

    /// Counters that the peer's workers have of their own, summed up.
    pub(crate) async fn stats(&self) -> Map<String, Value> {
        let mut sums = Map::new();
        if !matches!(self.0.kind, Kind::Peer) {
            return sums;
        }
        for aside in &self.0.asides {
            let (path, message) = ("/neargraph.peer.Peer/Stats", peer::RunRequest::default());
            let reply: Result<peer::RunReply, Status> = aside.unary(path, message, false).await;
            let values = reply.map(|reply| reply.values).unwrap_or_default();
            let said: Map<String, Value> = serde_json::from_slice(&values).unwrap_or_default();
            for (name, value) in said {
                let sum = sums.get(&name).and_then(Value::as_f64).unwrap_or(0.0);
                sums.insert(name, (sum + value.as_f64().unwrap_or(0.0)).into());
            }
        }
        sums
    }

    /// What to check if the server does not answer.
    pub(crate) fn advice(&self) -> &'static str {
        match self.0.kind {
            Kind::Server { .. } => "check --address, --model, --ca and --token-file",
            Kind::Peer => "check --to",
        }
    }

    /// How many nodes the graph has.
    pub(crate) async fn num_nodes(&self) -> Result<u64, String> {
        let failed = |why: &str| {
            format!("the number of nodes of the graph is unknown, because {why}; give --ids")
        };
        let (Kind::Server { graph, .. }, Some(first)) = (&self.0.kind, self.0.asides.first())
        else {
            return Err(failed("the PyG server that --to names does not report it"));
        };
        let listed = first.list_graphs(v1::ListGraphsRequest {}).await;
        let told = |status| format!("{}; {}", problem_told(&status).message, self.advice());
        let graphs = listed.map_err(told)?.graphs;
        let found = graphs.iter().find(|one| graph.is_empty() || one.name == *graph);
        let types = found.map(|graph| graph.node_types.as_slice()).unwrap_or_default();
        match types {
            [only] if only.num_nodes > 0 => Ok(only.num_nodes),
            _ => Err(failed("the graph is missing, is empty, or has several node types")),
        }
    }
}

impl Kind {
    /// A connection that costs least, if the settings allow it.
    fn direct(&self, settings: &Settings) -> Result<Option<(Direct, Head)>, String> {
        let path = match self {
            Self::Server { .. } => RUN,
            Self::Peer => PEER_RUN,
        };
        if settings.tls.is_some() || settings.address.starts_with(SHM) {
            return Ok(None);
        }
        let (address, token) = (settings.address.as_str(), settings.token.as_deref());
        let head = Head::new(address, path, token, settings.timeout.unwrap_or(Duration::MAX));
        let head =
            head.map_err(|error| format!("{address:?} or the token is not valid: {error}"))?;
        Ok(Some((Direct::new(address), head)))
    }
}

fn run_request(graph: &str, model: &str, ids: Vec<u64>) -> v1::RunRequest {
    let targets = v1::targets::Targets::Nodes(v1::Nodes { node_type: String::new(), ids });
    v1::RunRequest {
        graph: graph.to_owned(),
        dfg: Some(v1::run_request::Dfg::Model(model.to_owned())),
        targets: Some(v1::Targets { targets: Some(targets) }),
        ..v1::RunRequest::default()
    }
}

fn parsed(to: &str, graph: &str) -> Result<(Kind, Vec<String>), String> {
    let wrong =
        || format!("{to:?} is not valid: expected neargraph:ADDRESS:MODEL or peer:HOST:PORT-PORT");
    match to.split_once(':') {
        Some(("neargraph", rest)) => {
            let (address, model) = rest.rsplit_once(':').ok_or_else(wrong)?;
            let kind = Kind::Server { graph: graph.to_owned(), model: model.to_owned() };
            Ok((kind, vec![address.to_owned()]))
        }
        Some(("peer", rest)) => {
            let (host, ports) = rest.rsplit_once(':').ok_or_else(wrong)?;
            let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
            let port = |text: &str| text.parse::<u16>().map_err(|_| wrong());
            let ports = port(first)?..=port(last)?;
            Ok((Kind::Peer, ports.map(|port| format!("{host}:{port}")).collect()))
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_an_address_and_a_model_or_the_ports_of_a_peer() {
        let (kind, addresses) = parsed("neargraph:unix:/run/a.sock:sage", "g").expect("a server");
        assert!(matches!(kind, Kind::Server { model, graph } if model == "sage" && graph == "g"));
        assert_eq!(addresses, ["unix:/run/a.sock"]);
        let (_, addresses) = parsed("peer:127.0.0.1:50051-50053", "").expect("a peer");
        assert_eq!(addresses, ["127.0.0.1:50051", "127.0.0.1:50052", "127.0.0.1:50053"]);
        assert!(parsed("peer:127.0.0.1:x", "").is_err());
        assert!(parsed("http://127.0.0.1", "").is_err());
    }
}
