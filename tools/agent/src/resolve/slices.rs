//! EndpointSlices, and the Services that they are of.

use crate::kinds::endpoint_slice;
use crate::model::{Item, Model};
use crate::problem::Problem;

/// Label of a slice that names its Service.
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A slice whose Service is not there.
pub(super) fn of_nobody(
    model: &Model,
    slice: &Item<endpoint_slice::EndpointSliceBody>,
    service: Option<&String>,
) -> Option<Problem> {
    let reason = match service {
        None => "is not given: its endpoints are no Service's".to_owned(),
        Some(service) => {
            let name = format!("{}/{service}", slice.meta.namespace);
            if model.services.contains_key(&name) {
                return None;
            }
            format!("there is no Service {name}: its endpoints are nobody's")
        }
    };
    let odd = slice.origin.warning(format!("metadata.labels[{SERVICE_NAME}]"), reason);
    Some(odd.hint("name a Service of its namespace, or take it away"))
}
