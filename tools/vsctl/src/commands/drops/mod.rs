//! What is dropped: counts with rates, explanations, samples.

mod capture;
mod samples;
#[cfg(test)]
mod tests;
mod words;

pub(super) use words::way;

use crate::cli::{Class, Cli, DropFilter, Drops, DropsBy, DropsVerb};
use crate::client::Client;
use crate::error::Error;
use crate::output::{Columns, Reply, Report, table};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use vswitch_proto::v1;

/// `drops`, and what belongs to it.
pub(super) async fn ask<'a>(
    client: &'a Client,
    command: &'a Drops,
    cli: &'a Cli,
    out: &'a mut dyn Write,
) -> Result<Reply<'a>, Error> {
    let report: Box<dyn Report> = match &command.verb {
        Some(DropsVerb::Samples(samples)) => {
            return Ok(Reply::stream(samples::follow(client, samples, cli.timeout, cli.json, out)));
        }
        Some(DropsVerb::Explain { reason }) => {
            let request = v1::GetDropExplanationRequest { reason: reason.clone() };
            Box::new(Explained(client.answer(client.drops().await?.get_drop_explanation(request).await)?))
        }
        None => {
            let request = v1::ListDropsRequest { filter: Some(filter(&command.filter)) };
            let drops = client.answer(client.drops().await?.list_drops(request).await)?.drops;
            match command.by {
                None => Box::new(Counts(drops)),
                Some(by) => Box::new(Sums { by, sums: sums(by, &drops) }),
            }
        }
    };
    Ok(Reply::Report(report))
}

/// A filter as the switch takes it.
fn filter(filter: &DropFilter) -> v1::DropFilter {
    let word = |class: &Class| class.to_possible_value().map(|value| value.get_name().to_owned());
    v1::DropFilter {
        bridges: filter.bridges.clone(),
        ports: filter.ports.clone(),
        reasons: filter.reasons.clone(),
        classes: filter.classes.iter().filter_map(word).collect(),
    }
}

/// All drops.
struct Counts(Vec<v1::PortDrops>);

const COUNTS: Columns<'_> = &[
    ("BRIDGE", false),
    ("PORT", false),
    ("WAY", false),
    ("REASON", false),
    ("CLASS", false),
    ("DROPS", true),
    ("1 S", true),
    ("10 S", true),
    ("60 S", true),
    ("POD", false),
];

/// Drops per second over the three times, or `-` where they are not followed.
fn rates(rates: Option<&v1::DropRates>) -> [String; 3] {
    let Some(rates) = rates else { return std::array::from_fn(|_| "-".to_owned()) };
    [rates.last_1s, rates.last_10s, rates.last_60s].map(|rate| format!("{rate:.1}/s"))
}

fn rates_json(rates: Option<&v1::DropRates>) -> Value {
    rates.map_or(
        Value::Null,
        |rates| json!({ "last_1s": rates.last_1s, "last_10s": rates.last_10s, "last_60s": rates.last_60s }),
    )
}

fn row(count: &v1::PortDrops) -> Vec<String> {
    let [second, ten, minute] = rates(count.rates.as_ref());
    vec![
        count.bridge.clone(),
        count.port.clone(),
        way(count.direction()).to_owned(),
        count.reason.clone(),
        count.class.clone(),
        count.total.to_string(),
        second,
        ten,
        minute,
        if count.pod.is_empty() { "-".to_owned() } else { count.pod.clone() },
    ]
}

impl Report for Counts {
    fn text(&self) -> String {
        table(COUNTS, self.0.iter().map(row))
    }

    fn json(&self) -> Value {
        let one = |count: &v1::PortDrops| {
            let external_ids: BTreeMap<_, _> = count.external_ids.iter().collect();
            json!({
                "bridge": count.bridge,
                "port": count.port,
                "direction": way(count.direction()),
                "reason": count.reason,
                "class": count.class,
                "total": count.total,
                "rates": rates_json(count.rates.as_ref()),
                "pod": count.pod,
                "external_ids": external_ids,
            })
        };
        json!({ "drops": self.0.iter().map(one).collect::<Vec<_>>() })
    }
}

/// Drops with something in common.
#[derive(Default)]
struct Sum {
    total: u64,
    rates: v1::DropRates,
    /// Some of them have no rate.
    partial: bool,
    /// By reason.
    reasons: BTreeMap<String, u64>,
}

/// Drops, added up.
struct Sums {
    by: DropsBy,
    /// What they have in common, the most first.
    sums: Vec<(String, Sum)>,
}

fn sums(by: DropsBy, drops: &[v1::PortDrops]) -> Vec<(String, Sum)> {
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for drop in drops {
        let name = match by {
            DropsBy::Reason => drop.reason.clone(),
            DropsBy::Port => format!("{}/{}", drop.bridge, drop.port),
            DropsBy::Pod if drop.pod.is_empty() => "-".to_owned(),
            DropsBy::Pod => drop.pod.clone(),
        };
        let sum = sums.entry(name).or_default();
        sum.total += drop.total;
        *sum.reasons.entry(drop.reason.clone()).or_default() += drop.total;
        match &drop.rates {
            None => sum.partial = true,
            Some(rates) => {
                sum.rates.last_1s += rates.last_1s;
                sum.rates.last_10s += rates.last_10s;
                sum.rates.last_60s += rates.last_60s;
            }
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.total));
    sums
}

impl Sum {
    fn rates(&self) -> Option<&v1::DropRates> {
        (!self.partial).then_some(&self.rates)
    }

    /// Its reasons, the most frequent first.
    fn reasons(&self) -> String {
        let mut reasons: Vec<_> = self.reasons.iter().collect();
        reasons.sort_by_key(|(_, total)| std::cmp::Reverse(**total));
        reasons.iter().map(|(reason, total)| format!("{reason} {total}")).collect::<Vec<_>>().join(", ")
    }
}

impl Report for Sums {
    fn text(&self) -> String {
        let name = match self.by {
            DropsBy::Reason => "REASON",
            DropsBy::Port => "PORT",
            DropsBy::Pod => "POD",
        };
        let columns = [(name, false), ("DROPS", true), ("1 S", true), ("10 S", true), ("60 S", true), ("WHY", false)];
        // A reason is its own.
        let shown = if matches!(self.by, DropsBy::Reason) { 5 } else { 6 };
        let row = |(name, sum): &(String, Sum)| {
            let [second, ten, minute] = rates(sum.rates());
            let mut row = vec![name.clone(), sum.total.to_string(), second, ten, minute, sum.reasons()];
            row.truncate(shown);
            row
        };
        table(&columns[..shown], self.sums.iter().map(row))
    }

    fn json(&self) -> Value {
        let one = |(name, sum): &(String, Sum)| json!({ "name": name, "total": sum.total, "rates": rates_json(sum.rates()), "reasons": sum.reasons });
        json!({ "drops": self.sums.iter().map(one).collect::<Vec<_>>() })
    }
}

/// `drops explain`.
struct Explained(v1::GetDropExplanationResponse);

impl Report for Explained {
    fn text(&self) -> String {
        let v1::GetDropExplanationResponse { reason, class, sentence, cause, look, change } = &self.0;
        format!("{reason} ({class}): {sentence}\n\nUsual cause: {cause}\nLook at:     {look}\nChange:      {change}\n")
    }

    fn json(&self) -> Value {
        let v1::GetDropExplanationResponse { reason, class, sentence, cause, look, change } = &self.0;
        json!({
            "reason": reason, "class": class, "sentence": sentence, "cause": cause, "look": look, "change": change,
        })
    }
}
