//! The log of requests, for asserts.

/// One request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Entry {
    /// Kubernetes' verb: `list`, `watch`, `patch`...; for other paths the method in lower case.
    pub verb: String,
    /// `plural.group`, with `/status` behind it for the subresource; else the path.
    pub resource: String,
    /// Namespace; empty for none or all.
    pub namespace: String,
    /// Name of the object; empty for all.
    pub name: String,
    /// Who asked.
    pub user: String,
    /// The query as it came.
    pub query: String,
    /// HTTP status of the answer; that of a watch is given when it begins.
    pub status: u16,
}
