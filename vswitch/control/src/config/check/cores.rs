//! Cores that exist, are online, and are ours.

use super::super::environment::show_cores;
use super::{Check, ConfigKey};

impl Check<'_> {
    pub(super) fn cores(&mut self) {
        let dpdk = &self.config.dpdk;
        if !self.places.is_refused(&ConfigKey::Dpdk("worker_cores")) {
            for (i, core) in dpdk.worker_cores.iter().enumerate() {
                self.core(*core, &ConfigKey::WorkerCore(i));
            }
        }
        let main = ConfigKey::Dpdk("main_core");
        if self.places.is_refused(&main) {
            return;
        }
        self.core(dpdk.main_core, &main);
        let shared = dpdk.worker_cores.contains(&dpdk.main_core);
        if shared && self.environment.cores.len() > 1 {
            let problem = format!("core {} is a worker's core too", dpdk.main_core);
            let hint = "give the control threads a core of their own, or packets wait for them";
            self.found.push(self.error(&main, problem, hint).warning());
        }
    }

    fn core(&mut self, core: u32, place: &ConfigKey) {
        let environment = self.environment;
        if environment.cores.contains(&core) {
            return;
        }
        let usable = show_cores(&environment.cores);
        let (problem, hint) = match environment.present_and_online() {
            Some((present, _)) if !present.contains(&core) => (
                format!("core {core} does not exist, this machine has {}", show_cores(&present)),
                format!("use one of {usable}"),
            ),
            Some((_, online)) if !online.contains(&core) => (
                format!("core {core} is offline"),
                format!("use one of {usable}, or: echo 1 > /sys/devices/system/cpu/cpu{core}/online"),
            ),
            _ => (
                format!("core {core} is outside this process's affinity mask {usable}"),
                "use a core of the mask, or start with another (taskset -c, CPUAffinity=, the container's cpuset)"
                    .to_owned(),
            ),
        };
        self.found.push(self.error(place, problem, hint));
    }
}
