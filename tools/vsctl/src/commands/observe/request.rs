//! From options to what is asked.

use crate::cli::{Observe, ObserveFilter, ObserveKind, OnlyFilter, TrafficDirection, Verdict};
use crate::error::Error;
use clap::Parser;
use clap::error::ErrorKind;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::{EndFilter, ObservationFilter, ObservationKind, ObservationVerdict};

/// What is shown without an option that says how much.
const LAST_DEFAULT: u32 = 20;

/// What the options ask for, at a time.
pub(super) fn of(args: &Observe, now_ms: u64) -> Result<v1::WatchObservationsRequest, Error> {
    let moment = |option: &str, text: &Option<String>| match text {
        None => Ok(0),
        Some(text) => unix_ms(text, now_ms).ok_or_else(|| {
            usage(&format!("--{option} {text}: write a duration such as 5m or 1h30m, or 2026-11-30T15:04:05Z\n"))
        }),
    };
    let (since, until) = (moment("since", &args.since)?, moment("until", &args.until)?);
    let is_said = args.follow || args.all || since > 0 || until > 0 || args.first.is_some();
    let mut deny = Vec::new();
    for option in &args.not {
        let only = OnlyFilter::try_parse_from(["--not", option.as_str()]);
        let only = only.map_err(|error| usage(&format!("--not {option}: {}\n", first_line(&error))))?;
        deny.extend(filters(&only.filter));
    }
    let allow = filters(&args.filter);
    let means_all = allow.len() == 1 && allow[0] == ObservationFilter::default();
    Ok(v1::WatchObservationsRequest {
        allow: if means_all { Vec::new() } else { allow },
        deny,
        last: args.last.unwrap_or(if is_said { 0 } else { LAST_DEFAULT }),
        since_unix_ms: match since {
            0 if args.all
                || args.first.is_some() && !args.follow
                || until > 0 && !args.follow && args.last.is_none() =>
            {
                1
            }
            since => since,
        },
        until_unix_ms: until,
        follow: args.follow,
    })
}

fn usage(text: &str) -> Error {
    Error::Usage(clap::Error::raw(ErrorKind::InvalidValue, text))
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Labels of the values of an option: each is an alternative, and what commas join has to hold
/// together. At least one, which may be of no label.
fn alternatives(values: &[String]) -> Vec<Vec<String>> {
    let labels = |value: &String| value.split(',').map(str::to_owned).collect();
    if values.is_empty() { vec![Vec::new()] } else { values.iter().map(labels).collect() }
}

/// Filters one of which has to hold.
fn filters(filter: &ObserveFilter) -> Vec<ObservationFilter> {
    let mut filters = Vec::new();
    for label in alternatives(&filter.label) {
        for from in alternatives(&filter.from_label) {
            for to in alternatives(&filter.to_label) {
                filters.push(one(filter, &label, from.clone(), to));
            }
        }
    }
    filters
}

fn ports(ports: &[u16]) -> Vec<u32> {
    ports.iter().copied().map(u32::from).collect()
}

fn one(filter: &ObserveFilter, label: &[String], from: Vec<String>, to: Vec<String>) -> ObservationFilter {
    let end = |end: EndFilter| (end != EndFilter::default()).then_some(end);
    let versions = [(filter.ipv4, 4), (filter.ipv6, 6)];
    ObservationFilter {
        kinds: filter.kind.iter().flat_map(|kind| kinds(*kind)).map(|kind| (*kind).into()).collect(),
        verdicts: filter.verdict.iter().map(|verdict| self::verdict(*verdict).into()).collect(),
        source: end(EndFilter {
            pods: filter.from_pod.clone(),
            namespaces: filter.from_namespace.clone(),
            addresses: filter.from_ip.clone(),
            ports: ports(&filter.from_port),
            labels: from,
            workloads: filter.from_workload.clone(),
        }),
        destination: end(EndFilter {
            pods: filter.to_pod.clone(),
            namespaces: filter.to_namespace.clone(),
            addresses: filter.to_ip.clone(),
            ports: ports(&filter.to_port),
            labels: to,
            workloads: filter.to_workload.clone(),
        }),
        either: end(EndFilter {
            pods: filter.pod.clone(),
            namespaces: filter.namespace.clone(),
            addresses: filter.ip.clone(),
            ports: ports(&filter.port),
            labels: label.to_vec(),
            workloads: filter.workload.clone(),
        }),
        drop_reasons: filter.drop_reason.iter().map(|reason| self::reason(reason)).collect(),
        policies: filter.policy.clone(),
        services: filter.service.clone(),
        protocols: filter.protocol.iter().flat_map(|one| one.0.iter().copied().chain(one.1)).collect(),
        directions: filter.traffic_direction.iter().map(|one| direction(*one).into()).collect(),
        ip_versions: versions.into_iter().filter_map(|(given, version)| given.then_some(version)).collect(),
    }
}

/// A reason as the switch names it. Hubble's words for denials by policies mean the class.
fn reason(text: &str) -> String {
    match text.to_ascii_lowercase() {
        denied if denied == "policy_denied" || denied == "policy_deny" => "policy".to_owned(),
        other => other,
    }
}

const fn kinds(kind: ObserveKind) -> &'static [ObservationKind] {
    match kind {
        ObserveKind::Begin => &[ObservationKind::Begin],
        ObserveKind::End => &[ObservationKind::End],
        ObserveKind::Trace => &[ObservationKind::Begin, ObservationKind::End],
        ObserveKind::PolicyVerdict => &[ObservationKind::Policy],
        ObserveKind::Refused => &[ObservationKind::Refused],
        ObserveKind::Drop => &[ObservationKind::Drop],
    }
}

const fn verdict(verdict: Verdict) -> ObservationVerdict {
    match verdict {
        Verdict::Forwarded => ObservationVerdict::Forwarded,
        Verdict::Dropped => ObservationVerdict::Dropped,
        Verdict::Refused => ObservationVerdict::Refused,
    }
}

const fn direction(direction: TrafficDirection) -> v1::Direction {
    match direction {
        TrafficDirection::Ingress => v1::Direction::Ingress,
        TrafficDirection::Egress => v1::Direction::Egress,
    }
}

/// A moment: so long ago, or a time in UTC. In milliseconds since 1970; 1 at least.
pub(super) fn unix_ms(text: &str, now_ms: u64) -> Option<u64> {
    let moment = duration_ms(text).map(|ago| now_ms.saturating_sub(ago)).or_else(|| time_ms(text))?;
    Some(moment.max(1))
}

/// `1h30m`, `5m`, `90s`, `250ms`, `2d`.
fn duration_ms(text: &str) -> Option<u64> {
    let (mut rest, mut sum) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| digits + at);
        let unit = match &rest[digits..unit_end] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        sum = sum.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[unit_end..];
    }
    (!text.is_empty()).then_some(sum)
}

/// `2026-11-30T15:04:05Z`, with or without a fraction.
fn time_ms(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, separator| -> Option<Vec<u64>> {
        let good = |part: &str| !part.is_empty() && part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_digit());
        text.split(separator).map(|part| part.parse().ok().filter(|_| good(part))).collect()
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let (date, time) = (numbers(date, '-')?, numbers(time, ':')?);
    let ([year, month, day], [hour, minute, second]) = (&date[..], &time[..]) else { return None };
    let is_good = (1970..=9999).contains(year) && (1..=12).contains(month) && (1..=31).contains(day);
    if !is_good || *hour > 23 || *minute > 59 || *second > 60 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Years begin in March, so that the day of a leap year is the last one.
    let year = if *month > 2 { *year } else { *year - 1 };
    let month = (*month + 9) % 12;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let seconds = (days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second;
    let ms = format!("{fraction:0<3}").get(..3).and_then(|ms| ms.parse::<u64>().ok())?;
    Some(seconds * 1000 + ms)
}
