//! Which endpoints are used.

use crate::object::endpoints::Endpoint;
use crate::{Family, Node};

/// Endpoints by the traffic policy that allows them.
pub(crate) struct Chosen<'a> {
    /// Of any Node.
    pub cluster: Vec<&'a Endpoint>,
    /// Of this one.
    pub local: Vec<&'a Endpoint>,
}

/// The usable ones of a family. Hints lead those of any Node; this Node's are near whatever they
/// say.
pub(crate) fn choose<'a>(endpoints: &'a [Endpoint], family: Family, node: &Node) -> Chosen<'a> {
    let all: Vec<&Endpoint> =
        endpoints.iter().filter(|endpoint| Family::of(&endpoint.address) == family).collect();
    let local = all.iter().copied().filter(|endpoint| endpoint.is_of(&node.name));
    let lead = |ready| hinted(ready, node);
    Chosen { cluster: usable(all.iter().copied(), lead), local: usable(local, |ready| ready) }
}

/// Those that are ready, as `lead` leads them; if none is, all that end and still serve: nobody
/// near may be among these.
fn usable<'a>(
    endpoints: impl Iterator<Item = &'a Endpoint> + Clone,
    lead: impl FnOnce(Vec<&'a Endpoint>) -> Vec<&'a Endpoint>,
) -> Vec<&'a Endpoint> {
    let ready: Vec<&Endpoint> = endpoints.clone().filter(|endpoint| endpoint.ready).collect();
    if !ready.is_empty() {
        return lead(ready);
    }
    endpoints.filter(|endpoint| endpoint.serving && endpoint.terminating).collect()
}

/// Those with a hint to this Node, else to its zone, if all have such hints and one at least has
/// ours.
fn hinted<'a>(endpoints: Vec<&'a Endpoint>, node: &Node) -> Vec<&'a Endpoint> {
    let to = |hints: fn(&Endpoint) -> &[String], ours: &str| -> Option<Vec<&'a Endpoint>> {
        let all = !ours.is_empty() && endpoints.iter().all(|endpoint| !hints(endpoint).is_empty());
        let is_ours = |endpoint: &&&Endpoint| hints(endpoint).iter().any(|hint| hint == ours);
        let those: Vec<&Endpoint> = endpoints.iter().filter(|_| all).filter(is_ours).copied().collect();
        Some(those).filter(|those| !those.is_empty())
    };
    let nearest = to(|endpoint| &endpoint.hint_nodes, &node.name);
    nearest.or_else(|| to(|endpoint| &endpoint.hint_zones, &node.topology_zone)).unwrap_or(endpoints)
}
