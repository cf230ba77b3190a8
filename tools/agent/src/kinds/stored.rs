//! How bodies are stored that have fields which no document has by that name.

/// A Service, and whether it has lost its selector.
pub(super) mod service {
    use crate::kinds::service::ServiceBody;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in crate::kinds) fn serialize<S: Serializer>(body: &ServiceBody, to: S) -> Result<S::Ok, S::Error> {
        (body, body.spec.has_lost_selector).serialize(to)
    }

    pub(in crate::kinds) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<ServiceBody>, D::Error> {
        let (mut body, has_lost_selector): (Box<ServiceBody>, bool) = Deserialize::deserialize(from)?;
        body.spec.has_lost_selector = has_lost_selector;
        Ok(body)
    }
}

macro_rules! policy {
    ($name:ident, $body:path, $what:literal) => {
        #[doc = $what]
        pub(super) mod $name {
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            pub(in crate::kinds) fn serialize<S: Serializer>(body: &$body, to: S) -> Result<S::Ok, S::Error> {
                (body, &body.spec.ingress, &body.spec.egress).serialize(to)
            }

            pub(in crate::kinds) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<$body>, D::Error> {
                let (mut body, ingress, egress): (Box<$body>, _, _) = Deserialize::deserialize(from)?;
                (body.spec.ingress, body.spec.egress) = (ingress, egress);
                Ok(body)
            }
        }
    };
}

policy!(k8s, crate::kinds::k8s_policy::K8sPolicyBody, "A policy of Kubernetes, and its rules.");
policy!(antrea, crate::kinds::antrea_policy::AntreaPolicyBody, "A policy of Antrea, and its rules.");
