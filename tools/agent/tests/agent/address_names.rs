//! Names of addresses: what a switch is told of them, at first, by changes, and again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use vswitch_agent::kinds::understand;
use vswitch_agent::model::Model;
use vswitch_agent::names::Names;
use vswitch_agent::names::book::Book;
use vswitch_agent::source::documents;
use vswitch_agent::status;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::name_service_server::{NameService, NameServiceServer};

/// How long a state is waited for at most.
const PATIENCE: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_millis(5);

/// Names of one call.
const CALL_MAX: usize = 8192;

/// What a switch keeps, and what it was told.
#[derive(Debug, Default)]
struct Kept {
    names: BTreeMap<String, (u64, v1::Name)>,
    /// Names of each call, and whether it was the last one of all names.
    calls: Vec<(usize, bool)>,
    /// This address is not taken.
    refused: String,
    /// This many names are kept at most. None: no limit.
    room: Option<usize>,
}

#[derive(Clone, Default)]
struct Keeper(Arc<Mutex<Kept>>);

impl Keeper {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().expect("not poisoned")
    }

    fn pods(&self) -> Vec<String> {
        self.kept().names.iter().map(|(address, (_, name))| format!("{address} {}", name.pod)).collect()
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Kept) -> bool) {
        let begin = Instant::now();
        while !is_so(&self.kept()) {
            assert!(begin.elapsed() < PATIENCE, "{what}: {:?}", self.kept());
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[tonic::async_trait]
impl NameService for Keeper {
    async fn apply_names(
        &self,
        request: Request<v1::ApplyNamesRequest>,
    ) -> Result<Response<v1::ApplyNamesResponse>, Status> {
        let request = request.into_inner();
        let mut kept = self.kept();
        if request.names.len() > CALL_MAX {
            return Err(Status::invalid_argument("too many names"));
        }
        kept.calls.push((request.names.len(), request.complete));
        let is_full = kept.room.is_some_and(|room| kept.names.len() + request.names.len() > room);
        if is_full && !request.names.is_empty() {
            return Err(Status::resource_exhausted("no room"));
        }
        let mut problems = Vec::new();
        for (index, name) in (0..).zip(request.names) {
            if name.address == kept.refused {
                problems.push(v1::NameProblem { index, reason: "refused by the test".to_owned() });
            } else {
                kept.names.insert(name.address.clone(), (request.round, name));
            }
        }
        if request.complete {
            kept.names.retain(|_, (round, _)| *round >= request.round);
        }
        let kept = u32::try_from(kept.names.len()).expect("few");
        Ok(Response::new(v1::ApplyNamesResponse { problems, kept }))
    }

    async fn delete_names(
        &self,
        request: Request<v1::DeleteNamesRequest>,
    ) -> Result<Response<v1::DeleteNamesResponse>, Status> {
        for address in request.into_inner().addresses {
            self.kept().names.remove(&address);
        }
        Ok(Response::new(v1::DeleteNamesResponse {}))
    }

    type ListNamesStream = tokio_stream::Iter<std::vec::IntoIter<Result<v1::ListNamesResponse, Status>>>;

    async fn list_names(&self, _: Request<v1::ListNamesRequest>) -> Result<Response<Self::ListNamesStream>, Status> {
        Err(Status::unimplemented("not asked for"))
    }
}

fn socket() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("switch.sock");
    (dir, socket)
}

/// Serves names, or nothing that the agent asks for.
fn serve(socket: &PathBuf, keeper: Option<Keeper>) -> tokio::task::JoinHandle<()> {
    let listener = UnixListenerStream::new(UnixListener::bind(socket).expect("bound"));
    tokio::spawn(async move {
        let mut server = Server::builder();
        let routes = match keeper {
            Some(keeper) => server.add_service(NameServiceServer::new(keeper)),
            None => server.add_routes(tonic::service::Routes::default()),
        };
        let _ = routes.serve_with_incoming(listener).await;
    })
}

/// Pods with these names and addresses.
fn book<'a>(pods: impl IntoIterator<Item = (&'a str, String)>) -> Book {
    let pod = |(name, address): (&str, String)| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: a}}\n\
             spec: {{nodeName: n1, containers: [{{name: c}}]}}\nstatus: {{podIPs: [{{ip: \"{address}\"}}]}}\n---\n"
        )
    };
    let text: String = pods.into_iter().map(pod).collect();
    let (documents, problems) = understand("pods.yaml", documents(&text).expect("YAML"));
    assert!(problems.is_empty(), "{problems:?}");
    Book::of(&Model::new(documents).0)
}

fn few(pods: &[(&'static str, &str)]) -> Book {
    book(pods.iter().map(|(name, address)| (*name, (*address).to_owned())))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_hears_all_names_then_changes_and_all_again_when_it_has_lost_them() {
    let (_dir, socket) = socket();
    let keeper = Keeper::default();
    // An earlier agent's name.
    let old = v1::Name { address: "10.0.0.9".to_owned(), ..v1::Name::default() };
    keeper.kept().names.insert("10.0.0.9".to_owned(), (1, old));
    let _server = serve(&socket, Some(keeper.clone()));
    let status = Arc::new(status::Status::default());
    let names = Names::start(socket, Arc::clone(&status));
    names.tell(&Arc::new(few(&[("p", "10.0.0.1"), ("q", "fd00::1")])));
    keeper.until("all names", |kept| kept.calls.contains(&(2, true))).await;
    assert_eq!(keeper.pods(), ["10.0.0.1 p", "fd00::1 q"], "the earlier agent's name is gone");
    names.tell(&Arc::new(few(&[("p", "10.0.0.1"), ("r", "10.0.0.2")])));
    keeper.until("a change", |kept| kept.calls.contains(&(1, false))).await;
    keeper.until("a name that went", |kept| !kept.names.contains_key("fd00::1")).await;
    assert_eq!(keeper.pods(), ["10.0.0.1 p", "10.0.0.2 r"]);
    keeper.kept().names.clear();
    keeper.until("all names again", |kept| kept.names.len() == 2).await;
    let begin = Instant::now();
    while status.names.told.load(Ordering::Relaxed) != 2 {
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_names_come_in_parts_and_those_that_are_refused_are_counted() {
    let (_dir, socket) = socket();
    let keeper = Keeper::default();
    keeper.kept().refused = "10.0.0.0".to_owned();
    let _server = serve(&socket, Some(keeper.clone()));
    let status = Arc::new(status::Status::default());
    let names = Names::start(socket, Arc::clone(&status));
    let address = |n: usize| format!("10.0.{}.{}", n / 256, n % 256);
    names.tell(&Arc::new(book((0..CALL_MAX + 10).map(|n| ("p", address(n))).take(1))));
    keeper.until("the first book", |kept| !kept.calls.is_empty()).await;
    let text: Vec<String> = (0..CALL_MAX + 10).map(|n| format!("p{n}")).collect();
    names.tell(&Arc::new(book(text.iter().enumerate().map(|(n, name)| (name.as_str(), address(n))))));
    keeper.until("all", |kept| kept.names.len() == CALL_MAX + 9).await;
    assert!(keeper.kept().calls.iter().all(|(len, _)| *len <= CALL_MAX));
    let begin = Instant::now();
    while status.names.refused.load(Ordering::Relaxed) != 1 {
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_an_earlier_agent_make_room() {
    let (_dir, socket) = socket();
    let keeper = Keeper::default();
    {
        let mut kept = keeper.kept();
        kept.room = Some(2);
        for address in ["10.0.1.1", "10.0.1.2"] {
            kept.names.insert(address.to_owned(), (1, v1::Name::default()));
        }
    }
    let _server = serve(&socket, Some(keeper.clone()));
    let names = Names::start(socket, Arc::default());
    names.tell(&Arc::new(few(&[("p", "10.0.0.1"), ("q", "10.0.0.2")])));
    keeper.until("room", |kept| kept.names.contains_key("10.0.0.1") && kept.names.len() == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_that_comes_later_hears_all_and_one_without_the_service_hears_nothing() {
    let (_dir, socket) = socket();
    let status = Arc::new(status::Status::default());
    let names = Names::start(socket.clone(), Arc::clone(&status));
    names.tell(&Arc::new(few(&[("p", "10.0.0.1")])));
    let keeper = Keeper::default();
    let _server = serve(&socket, Some(keeper.clone()));
    keeper.until("the names", |kept| kept.names.len() == 1).await;

    let (_dir, old) = self::socket();
    let _server = serve(&old, None);
    let status = Arc::new(status::Status::default());
    let names = Names::start(old, Arc::clone(&status));
    names.tell(&Arc::new(few(&[("p", "10.0.0.1")])));
    assert_eq!((status.names.known.load(Ordering::Relaxed), status.names.told.load(Ordering::Relaxed)), (1, 0));
}
