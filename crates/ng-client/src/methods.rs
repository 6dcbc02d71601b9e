//! All methods with one message there and one back, as futures and as calls that wait.

use ng_rpc::{Status, v1};

use crate::blocking::Client;
use crate::calls::AsyncClient;

/// A method has its name, service, method, messages, and when it can be repeated without harm.
macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident $service:literal $method:literal
        $message:ident -> $answer:ident, $harmless:expr;)*) => {
        impl AsyncClient {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The status of the server, `Unavailable`, or `DeadlineExceeded`.
            pub async fn $name(&self, message: v1::$message) -> Result<v1::$answer, Status> {
                let harmless: fn(&v1::$message) -> bool = $harmless;
                let harmless = harmless(&message);
                let path = concat!("/neargraph.v1.", $service, "/", $method);
                self.unary(path, message, harmless).await
            }
        )*

            /// Calls a method by name, such as `ListGraphs`, with messages as JSON. Tensors stay
            /// empty in them.
            ///
            /// # Errors
            /// Those of the method; the method does not exist; the text is not one of its
            /// messages.
            pub async fn by_name(&self, method: &str, message: &str) -> Result<String, Status> {
                match method {
                    $($method => json_of(&self.$name(of_json(message)?).await?),)*
                    _ => Err(Status::unimplemented(format!("method {method:?} does not exist"))),
                }
            }
        }

        impl Client {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The status of the server, `Unavailable`, or `DeadlineExceeded`.
            pub fn $name(&self, message: v1::$message) -> Result<v1::$answer, Status> {
                self.wait(|calls| async move { calls.$name(message).await })
            }
        )*}
    };
}

fn of_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Status> {
    serde_json::from_str(text).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn json_of(message: &impl serde::Serialize) -> Result<String, Status> {
    serde_json::to_string(message).map_err(|error| Status::internal(error.to_string()))
}

methods! {
    /// Computes answers of a model.
    run "InferenceService" "Run" RunRequest -> RunResponse, |_| true;
    /// Queues a job.
    graph_analysis "InferenceService" "GraphAnalysis"
        GraphAnalysisRequest -> GraphAnalysisResponse, |_| false;
    /// The state of a job, and its result if it is done.
    get_analysis_result "InferenceService" "GetAnalysisResult"
        GetAnalysisResultRequest -> GetAnalysisResultResponse, |_| true;
    /// Cancels a job.
    cancel_analysis "InferenceService" "CancelAnalysis"
        CancelAnalysisRequest -> CancelAnalysisResponse, |_| true;
    /// All jobs.
    list_analyses "InferenceService" "ListAnalyses"
        ListAnalysesRequest -> ListAnalysesResponse, |_| true;
    /// Applies changes in order as one commit. Retried only with a key.
    apply_transaction "GraphStoreService" "ApplyTransaction"
        ApplyTransactionRequest -> ApplyTransactionResponse,
        |message| !message.idempotency_key.is_empty();
    /// Adds a node. Retried only with a key.
    add_vertex "GraphStoreService" "AddVertex"
        AddVertexRequest -> AddVertexResponse, |message| !message.idempotency_key.is_empty();
    /// Deletes a node. Retried only with a key.
    delete_vertex "GraphStoreService" "DeleteVertex"
        DeleteVertexRequest -> DeleteVertexResponse, |message| !message.idempotency_key.is_empty();
    /// Adds an edge. Retried only with a key.
    add_edge "GraphStoreService" "AddEdge"
        AddEdgeRequest -> AddEdgeResponse, |message| !message.idempotency_key.is_empty();
    /// Deletes an edge. Retried only with a key.
    delete_edge "GraphStoreService" "DeleteEdge"
        DeleteEdgeRequest -> DeleteEdgeResponse, |message| !message.idempotency_key.is_empty();
    /// Changes rows. Retried only with a key.
    update_embed "GraphStoreService" "UpdateEmbed"
        UpdateEmbedRequest -> UpdateEmbedResponse, |message| !message.idempotency_key.is_empty();
    /// Rows of nodes.
    get_embed "GraphStoreService" "GetEmbed" GetEmbedRequest -> GetEmbedResponse, |_| true;
    /// Neighbours of nodes.
    get_neighbors "GraphStoreService" "GetNeighbors"
        GetNeighborsRequest -> GetNeighborsResponse, |_| true;
    /// Serves a store.
    graph_register "RegistryService" "GraphRegister"
        GraphRegisterRequest -> GraphRegisterResponse, |_| false;
    /// Stops serving a graph.
    graph_unregister "RegistryService" "GraphUnregister"
        GraphUnregisterRequest -> GraphUnregisterResponse, |_| false;
    /// Serves a model on a graph.
    model_register "RegistryService" "ModelRegister"
        ModelRegisterRequest -> ModelRegisterResponse, |_| false;
    /// Stops serving a model.
    model_unregister "RegistryService" "ModelUnregister"
        ModelUnregisterRequest -> ModelUnregisterResponse, |_| false;
    /// Sets an alias for a version of a model.
    set_alias "RegistryService" "SetAlias" SetAliasRequest -> SetAliasResponse, |_| true;
    /// All graphs.
    list_graphs "RegistryService" "ListGraphs" ListGraphsRequest -> ListGraphsResponse, |_| true;
    /// All models.
    list_models "RegistryService" "ListModels" ListModelsRequest -> ListModelsResponse, |_| true;
    /// Pins a commit, so that it stays readable.
    pin_snapshot "RegistryService" "PinSnapshot"
        PinSnapshotRequest -> PinSnapshotResponse, |_| false;
    /// Unpins a commit.
    unpin_snapshot "RegistryService" "UnpinSnapshot"
        UnpinSnapshotRequest -> UnpinSnapshotResponse, |_| false;
    /// Loads a plug-in.
    plugin "AcceleratorService" "Plugin" PluginRequest -> PluginResponse, |_| false;
    /// Replaces the bundle of devices.
    program "AcceleratorService" "Program" ProgramRequest -> ProgramResponse, |_| false;
    /// All devices.
    list_devices "AcceleratorService" "ListDevices"
        ListDevicesRequest -> ListDevicesResponse, |_| true;
    /// Facts about the server, with a request message.
    server_facts "ServerService" "ServerInfo" ServerInfoRequest -> ServerInfoResponse, |_| true;
}

impl Client {
    /// Facts about the server.
    ///
    /// # Errors
    /// As [`Client::run`].
    pub fn server_info(&self) -> Result<v1::ServerInfoResponse, Status> {
        self.server_facts(v1::ServerInfoRequest {})
    }
}
