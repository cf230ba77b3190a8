//! Manifests of an agent: any text is read as documents or told of. A document that is right reads
//! the same whatever stands in front of or behind it. What the switch is told, the switch accepts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use vswitch_agent::kinds::{Document, understand, understand_unread};
use vswitch_agent::model::Model;
use vswitch_agent::problem::Problem;
use vswitch_agent::project::project;
use vswitch_agent::source::parts;
use vswitch_antrea::{Object, Problems};

const NODE: &str = "a";

/// What is right.
const GOOD: &str = include_str!("../seeds/agent_yaml/right");

static GOOD_DOCUMENTS: LazyLock<Vec<Document>> = LazyLock::new(|| {
    let (documents, problems) = read(GOOD);
    assert!(problems.is_empty() && documents.iter().all(Document::is_understood), "{problems:?}");
    documents
});

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (own, _) = read(&text);
    let good = &*GOOD_DOCUMENTS;
    let (behind, mut problems) = read(&format!("{GOOD}---\n{text}"));
    assert!(behind.starts_with(good), "what stands behind `---` has changed what stands in front of it");
    assert_eq!(behind.len(), good.len() + own.len(), "documents");
    let (front, _) = read(&format!("{text}\n---\n{GOOD}"));
    let last = front.len().checked_sub(good.len()).expect("the documents that are right are there");
    let same = front[last..].iter().zip(good).all(|(a, b)| (&a.key, &a.meta, &a.body) == (&b.key, &b.meta, &b.body));
    assert!(same, "what stands in front of `---` has changed what stands behind it");
    let lines = text.lines().count() + GOOD.lines().count() + 2;
    let (model, more) = Model::new(behind);
    problems.extend(more);
    let (projection, more) = project(&model, NODE);
    problems.extend(more);
    for problem in &problems {
        assert!(problem.origin.line <= lines, "{problem} of {lines} lines");
    }
    for (key, projected) in &projection.objects {
        let Some(object) = &projected.object.object else { panic!("{key:?} is of no kind") };
        let mut wrong = Problems::default();
        let object = Object::read(object, &mut wrong);
        assert!(object.is_some() && wrong.is_empty(), "the switch refuses {key:?}: {wrong:?}");
    }
});

/// Documents of a text, those that are no YAML included, and what is wrong.
fn read(text: &str) -> (Vec<Document>, Vec<Problem>) {
    let (mut documents, mut problems) = (Vec::new(), Vec::new());
    for part in parts(text) {
        match part {
            Ok(tree) => {
                let (more, told) = understand("f", vec![tree]);
                documents.extend(more);
                problems.extend(told);
            }
            Err(unread) => documents.extend(understand_unread("f", &unread)),
        }
    }
    (documents, problems)
}
