//! Which servers are asked, over which connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ng_rpc::{Code, Status, v1};
use serde_json::{Map, Value};

use super::options::Options;
use crate::calls::AsyncClient;

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
pub(crate) struct Target {
    kind: Kind,
    connections: Arc<[Connection]>,
}

struct Connection {
    calls: AsyncClient,
    under_way: AtomicUsize,
}

impl Target {
    pub(crate) fn new(options: &Options) -> Result<Self, String> {
        let to = match &options.to {
            Some(to) => to.clone(),
            None => format!("neargraph:{}:{}", options.address, options.model),
        };
        let (kind, addresses) = parsed(&to, &options.graph)?;
        let mut connections = Vec::new();
        for address in addresses {
            let settings = options.settings(address)?;
            for _ in 0..options.connections {
                let calls = AsyncClient::new(&settings).map_err(|error| error.to_string())?;
                connections.push(Connection { calls, under_way: AtomicUsize::new(0) });
            }
        }
        Ok(Self { kind, connections: connections.into() })
    }

    /// Asks for nodes. An answer with other rows is an error.
    pub(crate) async fn ask(&self, ids: Vec<u64>) -> Result<(), Code> {
        let least = self.connections.iter().min_by_key(|one| one.under_way.load(Ordering::Relaxed));
        let Some(connection) = least else { return Err(Code::Unavailable) };
        connection.under_way.fetch_add(1, Ordering::Relaxed);
        let rows = self.rows(&connection.calls, &ids).await;
        connection.under_way.fetch_sub(1, Ordering::Relaxed);
        match rows {
            Ok(rows) if rows == ids.len() as u64 => Ok(()),
            Ok(_) => Err(Code::DataLoss),
            Err(status) => Err(status.code()),
        }
    }

    async fn rows(&self, calls: &AsyncClient, ids: &[u64]) -> Result<u64, Status> {
        match &self.kind {
            Kind::Server { graph, model } => {
                let nodes = v1::Nodes { node_type: String::new(), ids: ids.to_vec() };
                let targets = v1::targets::Targets::Nodes(nodes);
                let message = v1::RunRequest {
                    graph: graph.clone(),
                    dfg: Some(v1::run_request::Dfg::Model(model.clone())),
                    targets: Some(v1::Targets { targets: Some(targets) }),
                    ..v1::RunRequest::default()
                };
                let rows = calls.run(message).await?.rows.unwrap_or_default();
                Ok(rows.shape.first().copied().unwrap_or(0))
            }
            Kind::Peer => {
                let message = peer::RunRequest { nodes: ids.iter().map(|id| *id as i64).collect() };
                let path = "/neargraph.peer.Peer/Run";
                let reply: peer::RunReply = calls.unary(path, message, false).await?;
                Ok(reply.shape.first().copied().unwrap_or(0) as u64)
            }
        }
    }

    /// Counters that the peer's workers have of their own, summed up.
    pub(crate) async fn stats(&self) -> Map<String, Value> {
        let mut sums = Map::new();
        if !matches!(self.kind, Kind::Peer) {
            return sums;
        }
        for connection in self.connections.iter() {
            let (path, message) = ("/neargraph.peer.Peer/Stats", peer::RunRequest::default());
            let reply: Result<peer::RunReply, Status> =
                connection.calls.unary(path, message, false).await;
            let values = reply.map(|reply| reply.values).unwrap_or_default();
            let said: Map<String, Value> = serde_json::from_slice(&values).unwrap_or_default();
            for (name, value) in said {
                let sum = sums.get(&name).and_then(Value::as_f64).unwrap_or(0.0);
                sums.insert(name, (sum + value.as_f64().unwrap_or(0.0)).into());
            }
        }
        sums
    }

    /// How many nodes the graph has.
    pub(crate) async fn num_nodes(&self) -> Result<u64, String> {
        let failed = |why: &str| format!("say how many ids there are: {why}");
        let (Kind::Server { graph, .. }, Some(first)) = (&self.kind, self.connections.first())
        else {
            return Err(failed("a peer does not tell"));
        };
        let listed = first.calls.list_graphs(v1::ListGraphsRequest {}).await;
        let graphs = listed.map_err(|status| failed(status.message()))?.graphs;
        let found = graphs.iter().find(|one| graph.is_empty() || one.name == *graph);
        let types = found.map(|graph| graph.node_types.as_slice()).unwrap_or_default();
        match types {
            [only] if only.num_nodes > 0 => Ok(only.num_nodes),
            _ => Err(failed("the graph has not one type of nodes")),
        }
    }
}

fn parsed(to: &str, graph: &str) -> Result<(Kind, Vec<String>), String> {
    let wrong = || format!("{to:?} is not neargraph:ADDRESS:MODEL or peer:HOST:PORT-PORT");
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
