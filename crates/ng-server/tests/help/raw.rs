//! Calls by path, and plain HTTP: what the client of this project does not do.
#![allow(dead_code, clippy::expect_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ng_rpc::connect::Channel;
use ng_rpc::http::uri::PathAndQuery;
use ng_rpc::tonic::client::Grpc;
use ng_rpc::tonic_prost::ProstCodec;
use ng_rpc::{Request, Status, v1};
use tokio::runtime::{Builder, Runtime};

/// A runtime of this thread.
pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("runtime")
}

/// Calls a method with an empty message; the status is `OK` if anything comes back.
pub async fn call(channel: &Channel, path: &str, token: Option<&str>) -> Status {
    let mut client = Grpc::new(channel.clone());
    if let Err(error) = client.ready().await {
        return Status::unavailable(error.to_string());
    }
    // No field is known, so that each answer can be read.
    type Empty = v1::ServerInfoRequest;
    let mut request = Request::new(Empty {});
    request.set_timeout(Duration::from_secs(10));
    if let Some(token) = token {
        let header = format!("Bearer {token}").parse().expect("token");
        request.metadata_mut().insert("authorization", header);
    }
    let path = PathAndQuery::try_from(path.to_owned()).expect("path");
    let codec = ProstCodec::<Empty, Empty>::default();
    match client.server_streaming(request, path, codec).await {
        Err(status) => status,
        Ok(answer) => match answer.into_inner().message().await {
            Ok(_) => Status::ok(""),
            Err(status) => status,
        },
    }
}

/// After how long a refused request is worth trying again.
pub fn retry_after(status: &Status) -> Option<Duration> {
    ng_rpc::retry_after(status)
}

/// An answer over HTTP.
pub struct Http {
    /// Its status.
    pub status: u16,
    /// Its headers, as they came.
    pub head: String,
    /// What follows them.
    pub body: String,
}

/// Asks a side port for a path; `headers` end in a line break each.
pub fn get(address: &str, path: &str, headers: &str) -> Http {
    answer(begin(address, "GET", path, headers, ""))
}

/// Sends JSON to a path of a side port.
pub fn post(address: &str, path: &str, headers: &str, body: &str) -> Http {
    let headers = format!("content-length: {}\r\n{headers}", body.len());
    answer(begin(address, "POST", path, &headers, body))
}

/// Begins a request; what follows `body` is sent later, or never.
pub fn begin(address: &str, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

/// What comes back.
pub fn answer(mut stream: TcpStream) -> Http {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("head");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("status");
    Http { status, head: head.to_owned(), body: body.to_owned() }
}
