//! The methods of services, as descriptors name them.

use prost::Message;
use prost_types::FileDescriptorSet;

/// A method of a service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Method {
    /// Service and method, such as `vswitch.v1.PortService/AddPort`.
    pub name: String,
    /// One side sends, or both send, more than one message.
    pub streams: bool,
}

/// The methods in an encoded `FileDescriptorSet`, such as [`crate::FILE_DESCRIPTOR_SET`].
///
/// # Errors
/// The bytes are no descriptors.
pub fn methods(descriptors: &[u8]) -> Result<Vec<Method>, prost::DecodeError> {
    let mut methods = Vec::new();
    for file in FileDescriptorSet::decode(descriptors)?.file {
        for service in &file.service {
            for method in &service.method {
                let name = format!("{}.{}/{}", file.package(), service.name(), method.name());
                methods.push(Method { name, streams: method.client_streaming() || method.server_streaming() });
            }
        }
    }
    Ok(methods)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_have_the_names_of_their_paths() {
        let methods = methods(crate::FILE_DESCRIPTOR_SET).expect("descriptors");
        let streams = |name: &str| methods.iter().find(|method| method.name == name).map(|method| method.streams);
        assert_eq!(streams("vswitch.v1.PortService/AddPort"), Some(false));
        assert_eq!(streams("vswitch.v1.PortService/WatchPorts"), Some(true));
        assert_eq!(streams("antrea.v1.SyncService/Sync"), Some(true));
        assert!(methods.len() > 100, "{}", methods.len());
    }
}
