//! Values below `/proc/sys`.

use super::super::plan::{Item, Sysctl};
use super::super::problem::{Code, Problem};
use super::super::sysctl;
use super::{Host, Look, refused};
use std::io;

impl Host {
    /// Values are as the plan has them. Those that the agent changed and that are not in it go
    /// back.
    pub(super) fn sysctls(&mut self, look: &mut Look<'_>) {
        let plan = look.plan;
        for Item { line, what } in &plan.sysctls {
            let value = match sysctl::read(&what.path) {
                Ok(value) => value,
                // That of an interface that is missing; the interface was told.
                Err(error) if error.kind() == io::ErrorKind::NotFound && is_of_missing(what, look) => continue,
                Err(error) => {
                    look.problems.push(refused(line, &error));
                    continue;
                }
            };
            if value == what.value {
                look.right.insert(line.clone());
                continue;
            }
            let changed = &mut self.state.made.sysctls;
            match changed.iter_mut().find(|one| one.path == what.path) {
                Some(known) => known.value.clone_from(&what.value),
                None => changed.push(sysctl::change(what, value.clone())),
            }
            if !self.save(look) {
                continue;
            }
            let was_right = self.right.contains(line);
            match sysctl::write(&what.path, &what.value) {
                Ok(()) if was_right => {
                    let reason = format!("it was {value:?}, and is right again");
                    look.problems.push(Problem::new(Code::Repaired, line, reason));
                    look.right.insert(line.clone());
                }
                result => look.made(line, result, false),
            }
        }
        if plan.complete {
            self.take_back(look, |path| plan.sysctls.iter().any(|item| item.what.path == path));
        }
    }

    /// Takes back the values that are not wanted any more.
    pub(super) fn take_back(&mut self, look: &mut Look<'_>, is_wanted: impl Fn(&str) -> bool) {
        let (mut kept, mut problems) = (Vec::new(), Vec::new());
        for changed in std::mem::take(&mut self.state.made.sysctls) {
            if is_wanted(&changed.path) {
                kept.push(changed);
            } else if let Err(error) = sysctl::take_back(&changed) {
                problems.push(refused(&format!("sysctl {} = {}", changed.path, changed.before), &error));
                kept.push(changed);
            }
        }
        self.state.made.sysctls = kept;
        look.problems.extend(problems);
    }
}

fn is_of_missing(what: &Sysctl, look: &Look<'_>) -> bool {
    let names = look.plan.links.iter().map(|item| item.what.interface.as_str());
    names.filter(|name| look.there.index(name).is_none()).any(|name| what.path.split('/').any(|part| part == name))
}
