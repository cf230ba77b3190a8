//! The gRPC interfaces of vswitch. The comments in `vswitch/v1/*.proto` and `antrea/v1/*.proto` are
//! their manuals.
#![forbid(unsafe_code)]

/// The switch's own services: [`v1`].
pub mod vswitch {
    /// Version 1.
    #[allow(clippy::all, missing_docs, unreachable_pub, unused_qualifications, missing_debug_implementations)]
    pub mod v1 {
        tonic::include_proto!("vswitch.v1");
    }
}

/// What an agent of Antrea's kind says: Nodes, Pods, Services, policies.
pub mod antrea {
    /// Version 1.
    #[allow(clippy::all, missing_docs, unreachable_pub, unused_qualifications, missing_debug_implementations)]
    pub mod v1 {
        tonic::include_proto!("antrea.v1");
    }
}

/// Between `vswitch-cni` and `vswitch-agent`: private to these two.
pub mod agent {
    /// Version 1.
    #[allow(clippy::all, missing_docs, unreachable_pub, unused_qualifications, missing_debug_implementations)]
    pub mod v1 {
        tonic::include_proto!("agent.v1");
    }
}

/// Between a kubelet and `vswitch-agent`: Kubernetes' device plug-in API.
pub mod kubelet {
    /// Version 1, beta 1.
    #[allow(clippy::all, missing_docs, unreachable_pub, unused_qualifications, missing_debug_implementations)]
    pub mod v1beta1 {
        tonic::include_proto!("v1beta1");
    }
}

mod host_plan;
mod methods;
pub mod surface;

pub use methods::{Method, methods};
pub use vswitch::v1;

use tonic::service::{Routes, RoutesBuilder};

/// The services of a server, of both packages. Each has a method here that adds it:
/// `bridge_service`, and so on (made by `build.rs`).
#[derive(Debug)]
pub struct Services {
    routes: RoutesBuilder,
    request_len_max: usize,
}

impl Services {
    /// No services yet. One message of a request may have `request_len_max` bytes, of whichever
    /// service.
    #[must_use]
    pub fn new(request_len_max: usize) -> Self {
        Self { routes: RoutesBuilder::default(), request_len_max }
    }

    /// For `tonic::transport::Server::add_routes`.
    #[must_use]
    pub fn routes(self) -> Routes {
        self.routes.routes()
    }
}

/// All file descriptors, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("vswitch_descriptor");
