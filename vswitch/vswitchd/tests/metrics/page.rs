//! A client of HTTP, and the text that it gets.

use crate::compare::Samples;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Sends a request as it is; the answer, with its head.
pub(crate) fn request(socket: &Path, text: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("metrics are shown");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    stream.write_all(text.as_bytes()).expect("a reader");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Asks for a path.
pub(crate) fn get(socket: &Path, path: &str) -> String {
    request(socket, &format!("GET {path} HTTP/1.1\r\nHost: switch\r\n\r\n"))
}

/// The samples of a scrape, by name.
#[derive(Debug, Default)]
pub(crate) struct Page(BTreeMap<String, Samples>);

impl Page {
    /// Of an answer in Prometheus' own format.
    pub(crate) fn parse(answer: &str) -> Self {
        let (head, text) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{answer}");
        let mut page = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            // No label of this test has a quote in it.
            let labels = labels.split('"').skip(1).step_by(2).map(str::to_owned).collect();
            let value = value.parse().expect("a number");
            let twice = page.0.entry(name.to_owned()).or_default().insert(labels, value);
            assert_eq!(twice, None, "twice: {line}");
        }
        page
    }

    /// The samples of a metric. Those of a histogram by their ends, and as `sum` and `count`.
    pub(crate) fn of(&self, name: &str) -> Samples {
        let mut samples = self.0.get(name).cloned().unwrap_or_default();
        samples.extend(self.0.get(&format!("{name}_bucket")).cloned().unwrap_or_default());
        for part in ["sum", "count"] {
            for value in self.0.get(&format!("{name}_{part}")).into_iter().flat_map(BTreeMap::values) {
                samples.insert(vec![part.to_owned()], *value);
            }
        }
        samples
    }

    /// The value of a metric without labels.
    pub(crate) fn only(&self, name: &str) -> f64 {
        self.0[name][&Vec::new()]
    }
}
