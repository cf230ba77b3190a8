//! Enough hugepages, or enough memory.

use super::{Check, ConfigKey};

impl Check<'_> {
    pub(super) fn memory(&mut self) {
        let place = ConfigKey::Dpdk("memory_mb");
        let refused = self.places.is_refused(&place) || self.places.is_refused(&ConfigKey::Dpdk("hugepages"));
        if refused || !self.environment.has_dpdk {
            return;
        }
        let wanted_mb = u64::from(self.config.dpdk.memory_mb);
        if self.config.dpdk.hugepages {
            self.hugepages(wanted_mb, &place);
        } else if let Some(kb) = self.environment.meminfo("MemAvailable").filter(|kb| kb / 1024 < wanted_mb) {
            let problem = format!("{wanted_mb} MiB wanted, {} MiB of memory available", kb / 1024);
            self.found.push(self.error(&place, problem, "use less").warning());
        }
    }

    fn hugepages(&mut self, wanted_mb: u64, place: &ConfigKey) {
        let sizes = self.environment.hugepages();
        // EAL takes whole pages, of any size.
        let usable_kb: u64 = sizes.iter().map(|size| size.kb.saturating_mul(size.usable)).sum();
        let wanted_kb = wanted_mb * 1024;
        if usable_kb >= wanted_kb {
            return;
        }
        let default_kb = self.environment.meminfo("Hugepagesize").unwrap_or(2048).max(1);
        let missing = (wanted_kb - usable_kb).div_ceil(default_kb);
        let total = sizes.iter().find(|size| size.kb == default_kb).map_or(0, |size| size.total);
        let free: Vec<_> = sizes.iter().map(|size| format!("{} pages of {} KiB", size.usable, size.kb)).collect();
        let free = if free.is_empty() { "no hugepages".to_owned() } else { free.join(", ") };
        let problem = format!(
            "{wanted_mb} MiB of hugepages wanted ({} pages of {default_kb} KiB), {} MiB free ({free})",
            wanted_kb.div_ceil(default_kb),
            usable_kb / 1024
        );
        let hint =
            format!("sysctl -w vm.nr_hugepages={}, or a smaller memory_mb, or hugepages = false", total + missing);
        self.found.push(self.error(place, problem, hint));
    }
}
