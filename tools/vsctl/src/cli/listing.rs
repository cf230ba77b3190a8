//! Verbs that list: they take `--watch`, and say so on a terminal if there is nothing.
//!
//! **Where in the walk.** `parse` gives these verbs `--watch`; `commands` asks what an empty answer
//! means.

/// A verb that lists.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The verb; of nested ones all words.
    verb: &'static str,
    /// What an answer without a line means.
    pub(crate) nothing: &'static str,
}

const fn listing(verb: &'static str, nothing: &'static str) -> Listing {
    Listing { verb, nothing }
}

const LISTINGS: &[Listing] = &[
    listing("show", "no bridges; add one: vsctl add-br br0"),
    listing("list-br", "no bridges; add one: vsctl add-br br0"),
    listing("list-ports", "no ports"),
    listing("dump-ports", "no ports"),
    listing("port-caps", "no ports with devices"),
    listing("fdb-show", "no addresses"),
    listing("fdb-stats", "nothing"),
    listing("worker-show", "no workers"),
    listing("worker-rxq-show", "no receive queues"),
    listing("mempool-show", "nothing"),
    listing("limits", "nothing"),
    listing("log-show", "nothing"),
    listing("drops", "no packet was dropped"),
    listing("names", "no names: no agent has told any"),
    listing("calls-show", "no calls"),
    listing("listener-show", "no listeners"),
    listing("drop-reasons", "no drop reasons"),
    listing("health-show", "no parts"),
    listing("dump-tables", "no tables with a name or flows"),
    listing("dump-flows", "no flows"),
    listing("dump-aggregate", "no flows"),
    listing("dump-groups", "no groups"),
    listing("dump-group-stats", "no groups"),
    listing("dump-meters", "no meters"),
    listing("meter-stats", "no meters"),
    listing("dump-megaflows", "no megaflows: the workers have cached no decision"),
    listing("dump-controllers", "no packets for controllers"),
    listing("dump-conntrack", "no connections"),
    listing("ct-stats-show", "no connections"),
    listing("ct-counters-show", "nothing"),
    listing("ct-get-nconns", "nothing"),
    listing("ct-get-limits", "no limits"),
    listing("ct-get-timeouts", "no timeouts"),
    listing("ct-get-zone-options", "no zones with options"),
    listing("route-show", "no routes"),
    listing("tnl-neigh-show", "no next hops"),
    listing("tnl-ports-show", "no tunnels"),
    listing("dump-tlv-map", "no options of Geneve"),
    listing("antrea status", "nothing"),
    listing("antrea pods", "no Pods"),
    listing("antrea peers", "no other Nodes"),
    listing("antrea services", "no Services"),
    listing("antrea policies", "no policies"),
    listing("antrea rules", "no rules"),
    listing("antrea groups", "no groups"),
    listing("antrea fqdns", "no names"),
    listing("antrea egress", "no Egresses"),
    listing("antrea traffic-controls", "no TrafficControls"),
    listing("antrea multicast", "no multicast groups"),
    listing("antrea records", "no connections"),
];

/// What a verb lists.
pub(super) fn of(verb: &str) -> Option<&'static Listing> {
    LISTINGS.iter().find(|listing| listing.verb == verb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listing_is_a_verb_that_can_be_watched() {
        let description = super::super::description::description();
        for listing in LISTINGS {
            let mut words = listing.verb.split(' ');
            let found = words.try_fold(&description, |verb, word| verb.find_subcommand(word));
            let found = found.unwrap_or_else(|| panic!("{} is no verb", listing.verb));
            assert!(found.get_arguments().any(|arg| arg.get_long() == Some("watch")), "{}", listing.verb);
        }
    }

    #[test]
    fn every_verb_that_shows_or_dumps_is_a_listing() {
        let description = super::super::description::description();
        // It counts for an interval of its own.
        let others = ["worker-perf-show"];
        let verbs = description.get_subcommands().map(clap::Command::get_name).filter(|verb| !others.contains(verb));
        let shows = |verb: &&str| verb.ends_with("-show") || verb.starts_with("dump-") || verb.starts_with("list-");
        let lost: Vec<_> = verbs.filter(shows).filter(|verb| of(verb).is_none()).collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
}
