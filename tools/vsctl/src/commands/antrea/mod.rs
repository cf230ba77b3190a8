//! `vsctl antrea`: what an agent made of the switch.

mod egress;
mod events;
mod flows;
mod fqdns;
mod groups;
mod host;
mod listing;
mod multicast;
mod node;
mod pods;
mod policies;
mod records;
mod rules;
mod services;
mod state;
mod stream;
mod traceflow;
mod watch;
mod whose;
mod words;

pub(super) use rules::{action, direction};
pub(super) use words::{clock, date, now_ms};

use crate::cli::{Antrea, By, Cli, Rules};
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Done, Reply};
use listing::Listing;
use std::io::Write;
use tonic::{Code, Response, Status, Streaming};
use vswitch_proto::antrea::v1;

/// Does what a verb says.
pub(super) async fn ask<'a>(
    client: &'a Client,
    verb: &'a Antrea,
    cli: &'a Cli,
    out: &'a mut dyn Write,
) -> Result<Reply<'a>, Error> {
    Ok(match verb {
        Antrea::Rules(rules @ Rules { watch: Some(period), .. }) => {
            Reply::stream(watch::follow(client, rules, *period, cli, out))
        }
        Antrea::Events(args) => Reply::stream(events::follow(client, args, cli, out)),
        Antrea::Records(args) if args.follow => Reply::stream(records::follow(client, args, cli, out)),
        verb => Reply::Report(answer(client, verb, cli.json).await.map_err(explained)?),
    })
}

/// Of verbs that are asked once.
async fn answer(client: &Client, verb: &Antrea, as_json: bool) -> Answer {
    match verb {
        Antrea::Status => state::status(client).await,
        Antrea::Node => node::show(client).await,
        Antrea::OpenGate => state::open_gate(client).await,
        Antrea::Reset { yes } => state::reset(client, *yes).await,
        Antrea::Pods(which) => listed(pods::pods(client, &which.names).await?, &which.names),
        Antrea::Peers(which) => listed(pods::peers(client, &which.names).await?, &which.names),
        Antrea::Services { objects, by } => services(client, &objects.names, *by).await,
        Antrea::Policies { names, pod } => policies::show(client, names, pod.as_deref()).await,
        Antrea::Rules(rules) => rules::show(client, rules).await,
        Antrea::Groups(which) => listed(groups::groups(client, &which.names).await?, &which.names),
        Antrea::Fqdns { pattern } => listed(fqdns::fqdns(client, pattern.as_deref().unwrap_or_default()).await?, &[]),
        Antrea::Egress(which) => listed(egress::egresses(client, &which.names).await?, &which.names),
        Antrea::TrafficControls(which) => listed(egress::controls(client, &which.names).await?, &which.names),
        Antrea::Multicast { objects, pods: false } => {
            listed(multicast::groups(client, &objects.names).await?, &objects.names)
        }
        Antrea::Multicast { objects, pods: true } => {
            listed(multicast::pods(client, &objects.names).await?, &objects.names)
        }
        Antrea::SetMulticast { interval, versions } => multicast::set(client, *interval, versions).await,
        Antrea::SetMulticastGroup { address, pods, nodes } => {
            multicast::set_group(client, address.to_string(), pods, nodes).await
        }
        Antrea::Flows { object, rule, no_names, .. } => {
            let form = if as_json { vswitch_proto::v1::Form::Text } else { vswitch_proto::v1::Form::Line };
            flows::show(client, object, rule.as_deref(), form, !no_names).await
        }
        Antrea::Gateway { no_names, .. } => {
            let form = if as_json { vswitch_proto::v1::Form::Text } else { vswitch_proto::v1::Form::Line };
            flows::gateway(client, form, !no_names).await
        }
        Antrea::TraceFlow(args) => traceflow::show(client, args).await,
        Antrea::Records(args) => records::show(client, args).await,
        Antrea::Answer { token, verdict } => events::answer(client, &token.0, *verdict).await,
        // A stream.
        Antrea::Events(_) => Ok(Box::new(Done)),
        Antrea::Whose { words } => whose::show(client, &words.join(" ")).await,
    }
}

fn listed<T: listing::Listed + 'static>(objects: Vec<T>, names: &[String]) -> Answer {
    Ok(Box::new(Listing::new(objects, names)))
}

async fn services(client: &Client, names: &[String], by: By) -> Answer {
    let found = services::services(client, names).await?;
    match by {
        By::Ports => listed(found, names),
        By::Endpoints => listed(found.into_iter().map(services::ByEndpoint).collect(), names),
    }
}

/// A refusal without words, put into some: a switch that does not know a service says no more than
/// that.
pub(super) fn explained(error: Error) -> Error {
    match error {
        Error::Refused(status) if status.code() == Code::Unimplemented && status.message().is_empty() => {
            let told =
                "this vswitchd has no service for that (antrea.v1): it is older than vsctl; `vsctl version` shows both";
            Error::Refused(Box::new(Status::unimplemented(told)))
        }
        other => other,
    }
}

/// The parts of an answer.
async fn parts<T>(client: &Client, answer: Result<Response<Streaming<T>>, Status>) -> Result<Vec<T>, Error> {
    let mut stream = client.answer(answer)?;
    let mut parts = Vec::new();
    while let Some(part) = stream.message().await.map_err(|status| client.error(status))? {
        parts.push(part);
    }
    Ok(parts)
}

/// Fails if there is no such Pod: an answer about it is empty then, too.
async fn expect_pod(client: &Client, pod: &str) -> Result<(), Error> {
    let names = [pod.to_owned()];
    let found = pods::pods(client, &names).await?;
    Listing::new(found, &names).missing().map_or(Ok(()), Err)
}

/// Policies by name, or all; with a Pod, those that are applied to it.
pub(super) async fn find_policies(
    client: &Client,
    names: &[String],
    pod: Option<&str>,
) -> Result<Vec<v1::NetworkPolicyState>, Error> {
    let request = v1::ListNetworkPoliciesRequest { names: names.to_vec(), pod: pod.unwrap_or_default().to_owned() };
    let answer = client.antrea_policies().await?.list_network_policies(request).await;
    let found: Vec<_> = parts(client, answer).await?.into_iter().flat_map(|part| part.policies).collect();
    match pod {
        Some(pod) if found.is_empty() => expect_pod(client, pod).await?,
        _ => {}
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn an_old_switch_is_named_as_what_it_is() {
        let refused = |status| explained(Error::from_status(status, Path::new("/s"))).to_string();
        let told = refused(Status::unimplemented(""));
        assert!(told.starts_with("this vswitchd has no service for that"), "{told}");
        assert_eq!(refused(Status::unimplemented("this version learns no names")), "this version learns no names");
        assert_eq!(refused(Status::not_found("no")), "no");
    }
}
