//! Who gets in: every method with every kind of token, TLS, and certificates that are changed.
#![allow(clippy::expect_used)]

mod help;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use help::calls::until;
use help::raw::{Http, call, get, runtime};
use help::{folder, started};
use ng_rpc::connect::channel;
use ng_rpc::tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use ng_rpc::v1::graph_store_service_client::GraphStoreServiceClient;
use ng_rpc::{Code, Request, methods, v1};
use ng_server::{Config, Limits, serve};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

const TOKENS: &str = "\
    read reader a-token-of-the-reader\n\
    write writer a-token-of-the-writer\n\
    admin boss a-token-of-the-boss-1\n\
    admin ghost a-token-of-the-ghost 2020-01-01\n";

/// What each method needs, written down here once more: whoever changes a policy changes both.
fn needed(path: &str) -> u8 {
    let method = path.rsplit('/').next().unwrap_or_default();
    let anyone = ["Check", "Watch", "ServerLive", "ServerReady"];
    let write = [
        "UpdateGraph",
        "ApplyTransaction",
        "AddVertex",
        "DeleteVertex",
        "AddEdge",
        "DeleteEdge",
        "UpdateEmbed",
        "PinSnapshot",
        "UnpinSnapshot",
    ];
    let admin = [
        "Plugin",
        "Program",
        "GraphRegister",
        "GraphUnregister",
        "ModelRegister",
        "ModelUnregister",
        "SetAlias",
        "Backup",
    ];
    if anyone.contains(&method) {
        0
    } else if write.contains(&method) {
        2
    } else if admin.contains(&method) {
        3
    } else {
        1
    }
}

fn private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("mode");
}

#[test]
fn every_method_lets_in_those_whom_its_policy_names_and_nobody_else() {
    let folder = folder(200);
    let tokens = folder.path().join("tokens");
    private(&tokens, TOKENS);
    let set = |config| Config { token_file: Some(tokens.clone()), ..config };
    let serving = started(folder.path(), set);
    let callers = [
        (None, 0),
        (Some("a-token-of-nobody"), 0),
        (Some("a-token-of-the-ghost"), 0),
        (Some("a-token-of-the-reader"), 1),
        (Some("a-token-of-the-writer"), 2),
        (Some("a-token-of-the-boss-1"), 3),
    ];
    let (mut cells, mut wrong) = (0, Vec::new());
    runtime().block_on(async {
        for address in serving.addresses() {
            let channel = channel(address).expect("channel");
            for path in methods().expect("methods") {
                for (token, right) in callers {
                    let code = call(&channel, &path, token).await.code();
                    let expected = match (needed(&path), right) {
                        (0, _) => None,
                        (_, 0) => Some(Code::Unauthenticated),
                        (needed, right) if right < needed => Some(Code::PermissionDenied),
                        _ => None,
                    };
                    let refused = matches!(code, Code::Unauthenticated | Code::PermissionDenied);
                    cells += 1;
                    if expected.is_some_and(|e| e != code) || (expected.is_none() && refused) {
                        wrong.push(format!("{path} by {token:?}: {code:?}"));
                    }
                }
            }
            let unknown = call(&channel, "/neargraph.v1.Other/Method", None).await;
            assert_eq!(unknown.code(), Code::Unauthenticated);
            let reader = Some("a-token-of-the-reader");
            let unknown = call(&channel, "/neargraph.v1.Other/Method", reader).await;
            assert_eq!(unknown.code(), Code::Unimplemented);
        }
    });
    assert!(wrong.is_empty(), "{cells} cells, wrong: {wrong:#?}");
    assert_eq!(cells, 2 * 6 * methods().expect("methods").len());

    let Http { status, .. } = get(serving.side_address(), "/metrics", "");
    assert_eq!(status, 200, "metrics are open on this machine");
    assert_eq!(get(serving.side_address(), "/v2/models/x", "").status, 401);
    let bearer = "authorization: Bearer a-token-of-the-reader\r\n";
    assert_eq!(get(serving.side_address(), "/v2/models/none/ready/x/y/z", bearer).status, 404);
    serving.end();
}

#[test]
fn quotas_and_read_only_servers_refuse_with_a_reason() {
    let folder = folder(200);
    let tokens = folder.path().join("tokens");
    private(&tokens, "read ann a-token-of-the-reader requests=3\nadmin eve a-token-of-the-boss-1");
    let set = |config| Config { token_file: Some(tokens.clone()), read_only: true, ..config };
    let serving = started(folder.path(), set);
    runtime().block_on(async {
        let channel = channel(&serving.addresses()[0]).expect("channel");
        let path = "/neargraph.v1.RegistryService/ListGraphs";
        let mut codes = BTreeMap::new();
        let mut waits = 0;
        for _ in 0..10 {
            let status = call(&channel, path, Some("a-token-of-the-reader")).await;
            waits += usize::from(help::raw::retry_after(&status).is_some());
            *codes.entry(format!("{:?}", status.code())).or_insert(0) += 1;
        }
        let refused = codes["ResourceExhausted"];
        // A slow machine gives another request in the time of ten.
        assert!((5..=7).contains(&refused) && refused == waits, "{codes:?}");
        assert_eq!(call(&channel, path, Some("a-token-of-the-boss-1")).await.code(), Code::Ok);
        let path = "/neargraph.v1.GraphStoreService/ApplyTransaction";
        let changed = call(&channel, path, Some("a-token-of-the-boss-1")).await;
        assert_eq!(changed.code(), Code::FailedPrecondition);
        assert!(changed.message().contains("read-only"), "{}", changed.message());
    });
    serving.end();
}

#[test]
fn a_token_has_half_of_the_places_at_most() {
    let folder = folder(200);
    let tokens = folder.path().join("tokens");
    private(&tokens, TOKENS);
    let limits = Limits { streams: 4, ..Limits::default() };
    let set = |config| Config { token_file: Some(tokens.clone()), limits, ..config };
    let serving = started(folder.path(), set);
    runtime().block_on(async {
        let channel = channel(&serving.addresses()[0]).expect("channel");
        // Such a stream does not end by itself for as long as a sender may be quiet.
        let stream = |token: &str| {
            let mut request = Request::new(tokio_stream::pending::<v1::UpdateGraphRequest>());
            let bearer = format!("Bearer {token}").parse().expect("token");
            request.metadata_mut().insert("authorization", bearer);
            let mut client = GraphStoreServiceClient::new(channel.clone());
            tokio::spawn(async move { client.update_graph(request).await })
        };
        let under_way = async |count: usize| {
            for _ in 0..1000 {
                if serving.state().guard.in_flight().1 == count {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            panic!("never {count} streams");
        };
        let greedy = "a-token-of-the-writer";
        let held = [stream(greedy), stream(greedy)];
        under_way(2).await;
        let third = stream(greedy).await.expect("no panic").expect_err("more than its part");
        assert_eq!(third.code(), Code::ResourceExhausted);
        assert!(third.message().contains("the token has 2 streams"), "{}", third.message());
        let other = stream("a-token-of-the-boss-1");
        under_way(3).await;
        held.iter().for_each(|one| one.abort());
        under_way(1).await;
        let again = stream(greedy);
        under_way(2).await;
        other.abort();
        again.abort();
    });
    serving.end();
}

/// Certificates of one authority: its own, one of the server, one of a client.
struct Authority {
    root: String,
    server: (String, String),
    client: (String, String),
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("root");
        let made = |names: Vec<String>| {
            let key = KeyPair::generate().expect("key");
            let params = CertificateParams::new(names).expect("names");
            let made = params.signed_by(&key, &issuer).expect("signed");
            (made.pem(), key.serialize_pem())
        };
        let server = made(vec!["localhost".into(), "127.0.0.1".into()]);
        Self { root: issuer.pem(), server, client: made(vec!["client".into()]) }
    }

    fn write(&self, folder: &Path) {
        private(&folder.join("cert.pem"), &self.server.0);
        private(&folder.join("key.pem"), &self.server.1);
        private(&folder.join("ca.pem"), &self.root);
    }

    fn channel(&self, address: &str, has_certificate: bool) -> Channel {
        let mut tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.root))
            .domain_name("localhost");
        if has_certificate {
            tls = tls.identity(Identity::from_pem(&self.client.0, &self.client.1));
        }
        let endpoint = Endpoint::from_shared(format!("https://{address}")).expect("address");
        endpoint
            .connect_timeout(Duration::from_secs(5))
            .tls_config(tls)
            .expect("tls")
            .connect_lazy()
    }
}

/// How many reloads have had an outcome.
fn reloads(serving: &ng_server::Serving, outcome: &str) -> u64 {
    let bearer = "authorization: Bearer a-token-of-the-reader\r\n";
    let text = get(serving.side_address(), "/metrics", bearer).body;
    let series = format!("neargraph_reloads_total{{outcome=\"{outcome}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(series.as_str()));
    line.map_or(0, |number| number.parse().expect("a number"))
}

#[test]
fn certificates_are_changed_while_connections_go_on() {
    let folder = folder(200);
    let (old, new) = (Authority::new(), Authority::new());
    old.write(folder.path());
    let at = |name: &str| Some(folder.path().join(name));
    private(&folder.path().join("tokens"), TOKENS);
    let config = Config {
        folder: folder.path().to_owned(),
        listen: vec!["0.0.0.0:0".parse().expect("address")],
        tls_cert: at("cert.pem"),
        tls_key: at("key.pem"),
        client_ca: at("ca.pem"),
        token_file: at("tokens"),
        ..Config::default()
    };
    for missing in [
        Config { tls_cert: None, tls_key: None, client_ca: None, ..config.clone() },
        Config { token_file: None, ..config.clone() },
    ] {
        let refused = serve(missing).err().expect("refused").to_string();
        assert!(refused.contains("requires TLS and tokens"), "{refused}");
    }
    let serving = serve(config.clone()).expect("served");
    let port = serving.addresses()[0].rsplit(':').next().expect("port").to_owned();
    let address = format!("127.0.0.1:{port}");
    let path = "/neargraph.v1.ServerService/ServerInfo";
    let ok = |channel: ng_rpc::connect::Channel| async move {
        call(&channel, path, Some("a-token-of-the-reader")).await.code()
    };
    runtime().block_on(async {
        let kept: ng_rpc::connect::Channel = old.channel(&address, true).into();
        assert_eq!(ok(kept.clone()).await, Code::Ok);
        assert_ne!(
            ok(old.channel(&address, false).into()).await,
            Code::Ok,
            "no certificate of a client"
        );
        assert_ne!(
            ok(new.channel(&address, true).into()).await,
            Code::Ok,
            "not signed by that root"
        );
        let plain = channel(&address).expect("channel");
        let asked = ng_rpc::Request::new(v1::ServerInfoRequest {});
        let refused: Result<v1::ServerInfoResponse, _> =
            ng_rpc::call::unary(&plain, path, asked).await;
        let told = ng_rpc::problem_told(&refused.expect_err("not TLS"));
        assert_eq!(told.reason, "CONNECTION_BROKEN", "{told}");
        assert!(told.message.contains(&address) && told.remedy.contains("TLS"), "{told}");

        // A certificate that is being written: what is there of it is no certificate.
        let cut = &new.server.0[..new.server.0.len() / 2];
        private(&folder.path().join("cert.pem"), cut);
        let refused = || reloads(&serving, "refused");
        until(|| refused() == 1);
        assert_eq!(ok(old.channel(&address, true).into()).await, Code::Ok, "stays as it was");
        // A whole one, whose key has not come yet.
        private(&folder.path().join("cert.pem"), &new.server.0);
        until(|| refused() == 2);
        assert_eq!(ok(old.channel(&address, true).into()).await, Code::Ok, "stays as it was");
        old.write(folder.path());
        until(|| reloads(&serving, "done") == 1);

        private(&folder.path().join("cert.pem"), "nothing");
        assert!(serving.reload(config.clone()).is_err());
        assert_eq!(ok(old.channel(&address, true).into()).await, Code::Ok, "stays as it was");
        new.write(folder.path());
        assert!(serving.reload(config.clone()).expect("reloaded").is_empty());
        assert_eq!(ok(kept).await, Code::Ok, "the old connection goes on");
        assert_eq!(ok(new.channel(&address, true).into()).await, Code::Ok);
        assert_ne!(ok(old.channel(&address, true).into()).await, Code::Ok);
    });
    serving.end();
}

#[test]
fn a_token_file_that_others_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder(200);
    let tokens = folder.path().join("tokens");
    private(&tokens, TOKENS);
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&tokens, mode).expect("mode");
    let config = Config {
        folder: folder.path().to_owned(),
        listen: vec!["127.0.0.1:0".parse().expect("address")],
        token_file: Some(tokens),
        ..Config::default()
    };
    let refused = serve(config).err().expect("refused").to_string();
    assert!(refused.contains("other users can read") && refused.contains("mode 600"), "{refused}");
}
