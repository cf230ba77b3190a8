//! The megaflow cache: decisions of the pipeline, kept per worker.
//!
//! **Where in the walk**: between parse and pipeline.

mod credit;
