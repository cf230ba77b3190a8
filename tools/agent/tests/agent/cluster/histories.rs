//! Histories by chance: whatever happens on the way, the switch is told in the end what files with
//! the same objects say; and what denies all the time is never missing.
//!
//! `VSWITCH_HISTORIES` says how many, `VSWITCH_SEED` where to begin.

use super::objects::{CHANGING, Chance, definitions, may_go, object, pinned};
use super::scene::{Running, Scene, Told, from_files};
use serde_json::Value;
use std::fs;
use std::time::Duration;
use vswitch_proto::antrea::v1::Kind;
use vswitch_testapi::{Answer, Cut, Hurt};

/// Histories without a number given.
const DEFAULT: u64 = 24;

/// Histories at a time.
const AT_ONCE: u64 = 6;

const STEPS: usize = 40;

/// Resources whose lists wait.
const LISTS: [&str; 4] = ["pods", "namespaces", "networkpolicies.networking.k8s.io", ""];

pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn histories_end_as_their_last_objects_and_no_deny_is_missing_on_the_way() {
    let (first, count) = (number("VSWITCH_SEED", 1), number("VSWITCH_HISTORIES", DEFAULT));
    let mut running = tokio::task::JoinSet::new();
    for seed in first..first + count {
        while running.len() as u64 >= AT_ONCE {
            running.join_next().await.expect("one runs").expect("it holds");
        }
        running.spawn(history(seed));
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("it holds");
    }
}

/// What the victim's policies are, and whom they apply to.
fn denies(told: &Told) -> Vec<(&(i32, String), &vswitch_proto::antrea::v1::Object)> {
    let is_deny = |(kind, name): &(i32, String)| {
        *kind == Kind::NetworkPolicy as i32 && (name.contains("p/isolate") || name.contains("pin"))
    };
    told.1.iter().filter(|(key, _)| is_deny(key)).collect()
}

struct History {
    seed: u64,
    scene: Scene,
    chance: Chance,
    running: Running,
    /// What denies the victim.
    deny: Told,
    was_known: bool,
}

async fn history(seed: u64) {
    let scene = Scene::new();
    let dir = tempfile::tempdir().expect("a directory");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": pinned()});
    fs::write(dir.path().join("pinned.json"), list.to_string()).expect("written");
    let (deny, problems) = from_files(dir.path(), &scene.place.node_config());
    assert_eq!((denies(&deny).len(), problems), (2, Vec::new()));
    pinned().into_iter().for_each(|object| drop(scene.server.apply(object).expect("it is right")));
    let running = scene.place.agent(true).await;
    let mut history = History { seed, scene, chance: Chance::new(seed), running, deny, was_known: false };
    for _ in 0..STEPS {
        history.step().await;
        history.look();
    }
    history.heal();
    history.end().await;
}

impl History {
    async fn step(&mut self) {
        match self.chance.below(20) {
            0..=9 => self.change(),
            10..=13 => hurt(&self.scene.server.hurt(), &mut self.chance),
            14 => {
                self.running = self.scene.place.agent(true).await;
                // What it knew it knows again.
                self.look();
            }
            15 => {
                let wrong = serde_json::json!({"priority": 1, "appliedTo": [{"newTarget": {}}], "ingress": []});
                let number = 15 + self.chance.below(5);
                self.put(number, Some(wrong));
            }
            _ => tokio::time::sleep(Duration::from_millis(self.chance.below(12) as u64)).await,
        }
    }

    fn change(&mut self) {
        let number = self.chance.below(CHANGING);
        if may_go(number) && self.chance.below(3) == 0 {
            let object = object(number, &mut self.chance);
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let (api, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
            let (Some(api), Some(kind)) = (api, kind) else { return };
            // (It may not be there.)
            let _ = self.scene.server.delete(api, kind, text("namespace"), text("name"));
        } else {
            self.put(number, None);
        }
    }

    fn put(&mut self, number: usize, spec: Option<Value>) {
        let mut object = object(number, &mut self.chance);
        if let Some(spec) = spec {
            object["spec"] = spec;
        }
        let applied = self.scene.server.apply(object.clone());
        assert!(applied.is_ok(), "{object}: {applied:?}");
    }

    /// The agent looks, and tells nothing that lacks what denies.
    fn look(&mut self) {
        self.running.agent.scan();
        self.was_known |= self.running.is_known();
        if self.was_known {
            let told = self.running.told();
            assert_eq!(denies(&told), denies(&self.deny), "seed {}", self.seed);
            for (key, group) in &self.deny.1 {
                if key.0 == Kind::AppliedToGroup as i32 {
                    assert_eq!(told.1.get(key), Some(group), "seed {}", self.seed);
                }
            }
        }
    }

    /// The server is well again, and each policy that was wrong is right.
    fn heal(&mut self) {
        let hurt = self.scene.server.hurt();
        hurt.back();
        hurt.answer_rightly();
        hurt.resume_watches();
        LISTS.iter().for_each(|resource| hurt.release_lists(resource));
        hurt.expire_watches(0, false);
        for definition in definitions() {
            let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
            hurt.show(&format!("{plural}.crd.antrea.io"));
        }
        for number in 15..20 {
            self.put(number, None);
        }
    }

    async fn end(mut self) {
        let (expected, problems) = self.scene.as_files();
        assert!(problems.iter().all(|line| !line.contains("unknown field")), "{problems:?}");
        let is_there = self.running.until(|running| running.is_known() && running.told() == expected).await;
        if !is_there {
            let told = self.running.told();
            let differs: Vec<_> = (told.1.keys().chain(expected.1.keys()))
                .filter(|key| told.1.get(*key) != expected.1.get(*key))
                .map(|key| (key, told.1.get(key), expected.1.get(key)))
                .collect();
            panic!("seed {}: blind {}: {differs:#?}\n{:?}", self.seed, !self.running.is_known(), self.running.lines());
        }
        self.look();
    }
}

fn hurt(hurt: &Hurt, chance: &mut Chance) {
    let answer = |code: u16, times: usize| Answer {
        times: times as u64,
        code,
        retry_after: None,
        verb: String::new(),
        resource: String::new(),
    };
    match chance.below(16) {
        0 => hurt.cut_watches(Cut::Clean),
        1 => hurt.cut_watches(Cut::MidLine),
        2 => hurt.cut_watches(Cut::Expired),
        3 => hurt.expire_watches(chance.below(6) as u64, chance.below(2) == 0),
        4 => hurt.compact(),
        5 => hurt.answer(answer([500, 503, 403][chance.below(3)], 1 + chance.below(4))),
        6 => hurt.too_many(1 + chance.below(3) as u64, 0),
        7 => {
            let resource = LISTS[chance.below(LISTS.len())];
            // (Lists that wait at a gate that another one replaces would wait for ever.)
            hurt.release_lists(resource);
            hurt.hold_lists(resource);
        }
        8 => LISTS.iter().for_each(|resource| hurt.release_lists(resource)),
        9 => hurt.away(),
        10 | 11 => hurt.back(),
        12 => hurt.cut_connections(),
        13 => hurt.restart(),
        14 => {
            hurt.hide("egresses.crd.antrea.io");
            hurt.hide("clusternetworkpolicies.crd.antrea.io");
        }
        _ => {
            hurt.pause_watches();
            if chance.below(2) == 0 {
                hurt.resume_watches();
            }
        }
    }
}
