//! Which observations a client means.

use crate::end::{End, EndFacts, Scoped};
use crate::reading::{Reading, VALUES_MAX, Wrong};
use vswitch_proto::antrea::v1::{
    Direction, Observation, ObservationFilter, ObservationKind, ObservationVerdict, ObservedPolicy,
};

/// A Service: "namespace/name", with or without a port, or "name".
fn service_fits(wanted: &Scoped, told: &str) -> bool {
    let (scope, name) = told.split_once('/').unwrap_or(("", told));
    let bare = name.split_once(':').map_or(name, |(bare, _)| bare);
    wanted.fits(scope, name) || wanted.fits(scope, bare)
}

/// An [`ObservationFilter`], parsed.
#[derive(Debug)]
struct Filter {
    kinds: Vec<ObservationKind>,
    verdicts: Vec<ObservationVerdict>,
    source: Option<End>,
    destination: Option<End>,
    either: Option<End>,
    reasons: Vec<String>,
    policies: Vec<Scoped>,
    services: Vec<Scoped>,
    protocols: Vec<u32>,
    directions: Vec<Direction>,
    versions: Vec<u32>,
}

impl Filter {
    fn read(filter: &ObservationFilter, reading: &mut Reading<'_>, field: &str) -> Self {
        let mut end = |filter: &Option<_>, name: &str| {
            filter.as_ref().map(|filter| End::read(filter, reading, &format!("{field}.{name}")))
        };
        let (source, destination) = (end(&filter.source, "source"), end(&filter.destination, "destination"));
        let either = end(&filter.either, "either");
        let is_reason = reading.is_reason;
        let kind =
            |kind: &i32| ObservationKind::try_from(*kind).ok().filter(|kind| *kind != ObservationKind::Unspecified);
        let verdict = |verdict: &i32| {
            ObservationVerdict::try_from(*verdict).ok().filter(|verdict| *verdict != ObservationVerdict::Unspecified)
        };
        let direction = |one: &i32| Direction::try_from(*one).ok().filter(|one| *one != Direction::Unspecified);
        let scoped = "write \"namespace/name\", or \"name\" for any namespace";
        Self {
            source,
            destination,
            either,
            kinds: reading.each(&filter.kinds, field, "kinds", "use those of ObservationKind, 1 to 5", kind),
            verdicts: reading.each(
                &filter.verdicts,
                field,
                "verdicts",
                "use FORWARDED (1), DROPPED (2), REFUSED (3)",
                verdict,
            ),
            reasons: reading.each(
                &filter.drop_reasons,
                field,
                "drop_reasons",
                "`vsctl drop-reasons` lists them",
                |name| is_reason(name).then(|| name.clone()),
            ),
            policies: reading.each(&filter.policies, field, "policies", scoped, |text| Scoped::parse(text)),
            services: reading.each(&filter.services, field, "services", scoped, |text| Scoped::parse(text)),
            protocols: reading
                .each(&filter.protocols, field, "protocols", "use 0 to 255", |one| (*one <= 255).then_some(*one)),
            directions: reading.each(&filter.directions, field, "directions", "use INGRESS (1), EGRESS (2)", direction),
            versions: reading.each(&filter.ip_versions, field, "ip_versions", "use 4, 6", |one| {
                matches!(one, 4 | 6).then_some(*one)
            }),
        }
    }

    fn fits(&self, observation: &Observation) -> bool {
        let either =
            |end: &End| end.fits(EndFacts::source(observation)) || end.fits(EndFacts::destination(observation));
        let is_one = |all: &[u32], one: Option<u32>| all.is_empty() || one.is_some_and(|one| all.contains(&one));
        let tuple = observation.tuple.as_ref();
        let version = tuple.and_then(|tuple| match tuple.src.len() {
            4 => Some(4),
            16 => Some(6),
            _ => None,
        });
        let reason = |name: &String| *name == observation.drop_reason || *name == observation.drop_class;
        let policy = |wanted: &Scoped| policies(observation).any(|own| wanted.fits(&own.namespace, &own.name));
        (self.kinds.is_empty() || self.kinds.contains(&observation.kind()))
            && (self.verdicts.is_empty() || self.verdicts.contains(&observation.verdict()))
            && (self.directions.is_empty() || self.directions.contains(&observation.direction()))
            && is_one(&self.protocols, tuple.map(|tuple| tuple.protocol))
            && is_one(&self.versions, version)
            && (self.reasons.is_empty() || self.reasons.iter().any(reason))
            && self.source.as_ref().is_none_or(|end| end.fits(EndFacts::source(observation)))
            && self.destination.as_ref().is_none_or(|end| end.fits(EndFacts::destination(observation)))
            && self.either.as_ref().is_none_or(either)
            && (self.policies.is_empty() || self.policies.iter().any(policy))
            && (self.services.is_empty() || self.services.iter().any(|wanted| is_service(wanted, observation)))
    }

    /// Whether connections can fit.
    fn means_connections(&self) -> bool {
        let kinds = [ObservationKind::Begin, ObservationKind::End];
        (self.kinds.is_empty() || kinds.iter().any(|kind| self.kinds.contains(kind)))
            && (self.verdicts.is_empty() || self.verdicts.contains(&ObservationVerdict::Forwarded))
            && self.reasons.is_empty()
    }
}

/// Policies that decided.
fn policies(observation: &Observation) -> impl Iterator<Item = &ObservedPolicy> {
    let Observation { egress_allowed_by, ingress_allowed_by, egress_denied_by, ingress_denied_by, .. } = observation;
    [egress_allowed_by, ingress_allowed_by, egress_denied_by, ingress_denied_by].into_iter().flatten()
}

fn is_service(wanted: &Scoped, observation: &Observation) -> bool {
    let ends = [&observation.source, &observation.destination].into_iter().flatten();
    (!observation.service.is_empty() && service_fits(wanted, &observation.service))
        || ends.into_iter().any(|name| wanted.fits(&name.namespace, &name.service))
}

/// The filters of a request.
#[derive(Debug)]
pub struct Filters {
    allow: Vec<Filter>,
    deny: Vec<Filter>,
}

impl Filters {
    /// Parses filters. `is_reason`: whether it is the name of a drop reason or of a class.
    ///
    /// # Errors
    /// Every wrong value.
    pub fn new(
        allow: &[ObservationFilter],
        deny: &[ObservationFilter],
        is_reason: &dyn Fn(&str) -> bool,
    ) -> Result<Self, Vec<Wrong>> {
        let mut reading = Reading { wrong: Vec::new(), values: allow.len() + deny.len(), is_reason };
        let mut read = |filters: &[ObservationFilter], list: &str| -> Vec<Filter> {
            let filters = filters.iter().take(VALUES_MAX).enumerate();
            filters.map(|(at, filter)| Filter::read(filter, &mut reading, &format!("{list}[{at}]"))).collect()
        };
        let filters = Self { allow: read(allow, "allow"), deny: read(deny, "deny") };
        if reading.values > VALUES_MAX {
            let problem = format!("the filters have {} values; use at most {VALUES_MAX}", reading.values);
            reading.wrong.push(Wrong { field: "allow".to_owned(), problem });
        }
        if reading.wrong.is_empty() { Ok(filters) } else { Err(reading.wrong) }
    }

    /// Whether an observation is meant.
    #[must_use]
    pub fn fit(&self, observation: &Observation) -> bool {
        (self.allow.is_empty() || self.allow.iter().any(|filter| filter.fits(observation)))
            && !self.deny.iter().any(|filter| filter.fits(observation))
    }

    /// Whether beginnings and ends of connections can be meant.
    #[must_use]
    pub fn mean_connections(&self) -> bool {
        self.allow.is_empty() || self.allow.iter().any(Filter::means_connections)
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
