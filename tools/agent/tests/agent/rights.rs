//! Rights of the agent: the manifests grant what it uses and nothing else, and it names each one
//! that it lacks.

mod lacking;
pub mod scene;
mod used;
