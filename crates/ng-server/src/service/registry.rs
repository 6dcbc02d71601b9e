//! `RegistryService`: what is served.

use std::path::PathBuf;
use std::sync::Arc;

use ng_rpc::v1::registry_service_server::RegistryService;
use ng_rpc::{Problem, Request, Response, Status, async_trait, v1};

use super::{Service, unavailable};
use crate::graph::{Graph, named};
use crate::model::{Model, model_of, options_of};

#[async_trait]
impl RegistryService for Service {
    async fn graph_register(
        &self,
        request: Request<v1::GraphRegisterRequest>,
    ) -> Result<Response<v1::GraphRegisterResponse>, Status> {
        let request = request.into_inner();
        if request.narrow != 0 || request.reorganize {
            return Err(unavailable("rewriting of graphs on their way in"));
        }
        let config = &self.0.config;
        let path = match request.path.as_str() {
            "" => PathBuf::from(format!("{}.ng", request.graph)),
            path => PathBuf::from(path),
        };
        let limits = (config.memory, config.lanes);
        let graph = Arc::new(Graph::open(&request.graph, &config.folder, &path, limits)?);
        self.0.catalogue.add_graph(Arc::clone(&graph))?;
        Ok(Response::new(v1::GraphRegisterResponse { graph: Some(graph_info(&graph)) }))
    }

    async fn graph_unregister(
        &self,
        _: Request<v1::GraphUnregisterRequest>,
    ) -> Result<Response<v1::GraphUnregisterResponse>, Status> {
        Err(unavailable("GraphUnregister"))
    }

    async fn model_register(
        &self,
        request: Request<v1::ModelRegisterRequest>,
    ) -> Result<Response<v1::ModelRegisterResponse>, Status> {
        let request = request.into_inner();
        let (catalogue, threads) = (&self.0.catalogue, self.0.config.threads);
        let graph = catalogue.graph(&request.graph)?;
        let version = catalogue.next_version(&graph.name, &request.model);
        let Some(v1::model_register_request::Source::Files(files)) = &request.source else {
            let problem = Problem::argument("source", "the request has no model");
            return Err(problem.remedy("give the files of a model").into());
        };
        let file = model_of(files)?;
        let devices = self.0.accelerators.compute();
        let options = options_of(&request, &file, &graph, (devices, threads))?;
        let cache = self.0.answers.clone();
        let model = Model::open((&request.model, version), graph, file, options, cache)?;
        let model = Arc::new(model);
        catalogue.add_model(Arc::clone(&model));
        Ok(Response::new(v1::ModelRegisterResponse { model: Some(model_info(&model)) }))
    }

    async fn model_unregister(
        &self,
        _: Request<v1::ModelUnregisterRequest>,
    ) -> Result<Response<v1::ModelUnregisterResponse>, Status> {
        Err(unavailable("ModelUnregister"))
    }

    async fn set_alias(
        &self,
        _: Request<v1::SetAliasRequest>,
    ) -> Result<Response<v1::SetAliasResponse>, Status> {
        Err(unavailable("SetAlias"))
    }

    async fn list_graphs(
        &self,
        _: Request<v1::ListGraphsRequest>,
    ) -> Result<Response<v1::ListGraphsResponse>, Status> {
        let graphs = self.0.catalogue.graphs();
        let graphs = graphs.iter().map(|graph| graph_info(graph)).collect();
        Ok(Response::new(v1::ListGraphsResponse { graphs }))
    }

    async fn list_models(
        &self,
        _: Request<v1::ListModelsRequest>,
    ) -> Result<Response<v1::ListModelsResponse>, Status> {
        let models = self.0.catalogue.models();
        let models = models.iter().map(|model| model_info(model)).collect();
        Ok(Response::new(v1::ListModelsResponse { models }))
    }

    async fn pin_snapshot(
        &self,
        _: Request<v1::PinSnapshotRequest>,
    ) -> Result<Response<v1::PinSnapshotResponse>, Status> {
        Err(unavailable("PinSnapshot"))
    }

    async fn unpin_snapshot(
        &self,
        _: Request<v1::UnpinSnapshotRequest>,
    ) -> Result<Response<v1::UnpinSnapshotResponse>, Status> {
        Err(unavailable("UnpinSnapshot"))
    }
}

fn graph_info(graph: &Graph) -> v1::GraphInfo {
    let snapshot = graph.store.snapshot();
    let catalog = snapshot.catalog();
    let name_of = |id: ng_types::NodeTypeId| {
        catalog.node_types.get(usize::from(id.0)).map_or(String::new(), |meta| meta.name.clone())
    };
    let node_types = catalog.node_types.iter().map(|meta| v1::NodeTypeInfo {
        name: meta.name.clone(),
        num_nodes: meta.num_nodes,
        tensors: Vec::new(),
    });
    let edge_types = catalog.edge_types.iter().map(|meta| v1::EdgeTypeInfo {
        name: meta.relation.clone(),
        source: name_of(meta.source),
        destination: name_of(meta.destination),
        num_edges: meta.num_edges,
        ..v1::EdgeTypeInfo::default()
    });
    let because = graph.store.read_only_because();
    v1::GraphInfo {
        name: graph.name.clone(),
        path: graph.path.display().to_string(),
        snapshot: Some(named(&snapshot)),
        node_types: node_types.collect(),
        edge_types: edge_types.collect(),
        read_only: because.is_some(),
        read_only_because: because.unwrap_or_default(),
        ..v1::GraphInfo::default()
    }
}

fn model_info(model: &Model) -> v1::ModelInfo {
    let prepared = model.engine.prepared();
    v1::ModelInfo {
        name: model.name.clone(),
        version: model.version,
        graph: model.graph.name.clone(),
        ready: model.engine.ready(),
        ready_problem: prepared.and_then(Result::err).unwrap_or_default(),
        ..v1::ModelInfo::default()
    }
}
