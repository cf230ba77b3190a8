//! What is wrong with Nodes.
