//! Compiles `proto/`. This is the build script of the crate `vswitch-proto` (proto/Cargo.toml says
//! `build = "../build.rs"`).

use prost_build::{Service, ServiceGenerator};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const NO_PROTOC: &str = "protoc failed (apt-get install protobuf-compiler?)";

/// Makes of a service what tonic makes of it, and beside that `AnyNameService`, the service whoever
/// implements it, with what puts one into a server (`Services` in proto/src/lib.rs). So all that a
/// server does for a method is compiled once, with this crate. What tonic makes by itself is
/// compiled with whoever implements the service, and again for its tests and in each way in which
/// it is built. Names of services are unique among all packages: each is a method of the same
/// `Services`.
struct Any(Box<dyn ServiceGenerator>);

impl ServiceGenerator for Any {
    fn generate(&mut self, service: Service, buf: &mut String) {
        any(&service, buf).expect("a String has room");
        self.0.generate(service, buf);
    }
}

fn any(service: &Service, buf: &mut String) -> std::fmt::Result {
    let (name, snake) = (&service.name, snake_case(&service.name));
    let (mut types, mut own, mut methods) = (String::new(), String::new(), String::new());
    for method in &service.methods {
        let (call, mut request, mut response) = (&method.name, method.input_type.clone(), method.output_type.clone());
        if method.server_streaming {
            let stream = format!("{}Stream", method.proto_name);
            write!(types, "{stream} = tonic::codegen::BoxStream<{response}>, ")?;
            writeln!(own, "    type {stream} = tonic::codegen::BoxStream<{response}>;")?;
            response = format!("Self::{stream}");
        }
        if method.client_streaming {
            request = format!("tonic::Streaming<{request}>");
        }
        writeln!(
            methods,
            "    async fn {call}(&self, request: tonic::Request<{request}>) -> Result<tonic::Response<{response}>, tonic::Status> {{
        (**self).{call}(request).await
    }}"
        )?;
    }
    writeln!(
        buf,
        "/// [`{snake}_server::{name}`], whoever implements it.
pub type Any{name} = dyn {snake}_server::{name}<{types}>;

#[tonic::async_trait]
impl {snake}_server::{name} for std::sync::Arc<Any{name}> {{
{own}{methods}}}

impl crate::Services {{
    /// With a [`{snake}_server::{name}`].
    #[must_use]
    pub fn {snake}(mut self, service: std::sync::Arc<Any{name}>) -> Self {{
        let server = {snake}_server::{name}Server::new(service).max_decoding_message_size(self.request_len_max);
        self.routes.add_service(server);
        self
    }}
}}
"
    )
}

/// As tonic names the module of a service.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (i, letter) in name.chars().enumerate() {
        if i > 0 && letter.is_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn protos(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())).flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("src") {
            protos(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            found.push(path);
        }
    }
}

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut files = Vec::new();
    for package in ["vswitch", "antrea"] {
        println!("cargo:rerun-if-changed={}", root.join(package).display());
        protos(&root.join(package), &mut files);
    }
    files.sort();
    prost_build::Config::new()
        .service_generator(Box::new(Any(tonic_prost_build::configure().service_generator())))
        .file_descriptor_set_path(out.join("vswitch_descriptor.bin"))
        .compile_protos(&files, &[&root])
        .unwrap_or_else(|error| panic!("{NO_PROTOC}: {error}"));
    // No services of the switch: they are neither among `Services` nor known to its reflection.
    let mut private = Vec::new();
    for package in ["agent", "kubelet"] {
        println!("cargo:rerun-if-changed={}", root.join(package).display());
        protos(&root.join(package), &mut private);
    }
    tonic_prost_build::configure()
        .compile_protos(&private, &[root])
        .unwrap_or_else(|error| panic!("{NO_PROTOC}: {error}"));
}
