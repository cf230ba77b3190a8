//! The commands.

use crate::agent::{self, Agent, answer};
use crate::config::{Config, LATEST, VERSIONS};
use crate::device_info;
use crate::environment::{Call, Command};
use crate::error::CniError;
use crate::ipam::{Given, Ipam};
use crate::result;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use vswitch_proto::agent::v1::{
    AddRequest, Attached, AttachmentRef, CheckRequest, DelRequest, GcRequest, GetConfigRequest, GetConfigResponse,
    IpConfig, Route, StatusRequest,
};

/// Carries out a call; what is to be printed.
pub(crate) async fn run(call: &Call, text: &[u8]) -> Result<Option<Value>, CniError> {
    if call.command == Command::Version {
        return Ok(Some(json!({"cniVersion": LATEST, "supportedVersions": VERSIONS})));
    }
    let config = Config::read(text)?;
    match call.command {
        Command::Add => add(call, &config).await.map(Some),
        Command::Del => del(call, &config).await.map(|()| None),
        Command::Check => check(call, &config).await.map(|()| None),
        Command::Gc => gc(call, &config).await.map(|()| None),
        _ => status(call, &config).await.map(|()| None),
    }
}

async fn node(agent: &mut Agent, request: GetConfigRequest) -> Result<GetConfigResponse, CniError> {
    let node = answer(agent.get_config(request)).await?;
    node.failure.clone().map_or(Ok(node), |failure| Err(failure.into()))
}

async fn add(call: &Call, config: &Config) -> Result<Value, CniError> {
    let mut agent = agent::connect(config).await?;
    let (attachment, pod, netns) = (agent::attachment(call), agent::pod(call), call.netns.clone());
    let file = device_info::File::of(config)?;
    let vhost_user = config.vhost.clone();
    let node = node(&mut agent, GetConfigRequest { attachment, netns, pod, vhost_user }).await?;
    if let Some(attached) = &node.attached {
        // IPAM has given it its addresses before, and would refuse to do so again.
        file.write(&attached.socket)?;
        return Ok(result::added(config.version, &call.interface, attached, config.dns.as_ref()));
    }
    let ipam = Ipam::new(call, config, Some(&node))?;
    if ipam.has_no_range() {
        return Err(CniError::again("the Node has no podCIDRs yet").hint("or name ranges in the section ipam"));
    }
    let given = ipam.add().await?;
    let dns = given.dns.clone().filter(|dns| *dns != json!({})).or_else(|| config.dns.clone());
    let attached = match attach(&mut agent, call, config, given).await {
        Ok(attached) => match file.write(&attached.socket) {
            Ok(()) => Ok(attached),
            Err(error) => {
                let _ = answer(agent.del(DelRequest { attachment: agent::attachment(call) })).await;
                Err(error)
            }
        },
        other => other,
    };
    match attached {
        Ok(attached) => Ok(result::added(config.version, &call.interface, &attached, dns.as_ref())),
        Err(error) => {
            // What cannot be undone here, the runtime undoes by DEL.
            let _ = ipam.del().await;
            Err(error)
        }
    }
}

async fn attach(agent: &mut Agent, call: &Call, config: &Config, given: Given) -> Result<Attached, CniError> {
    if given.ips.is_empty() {
        return Err(CniError::config("IPAM has given no address"));
    }
    let request = AddRequest {
        attachment: agent::attachment(call),
        netns: call.netns.clone(),
        pod: agent::pod(call),
        network: config.name.clone(),
        addresses: given.ips.into_iter().map(|ip| IpConfig { address: ip.address, gateway: ip.gateway }).collect(),
        routes: given.routes.into_iter().map(|one| Route { destination: one.dst, gateway: one.gw }).collect(),
        mtu: config.mtu,
        vhost_user: config.vhost.clone(),
    };
    let added = match answer(agent.add(request)).await {
        Ok(added) => added,
        Err(error) => {
            // It may have come to the agent. The address is free for others from now on.
            let _ = answer(agent.del(DelRequest { attachment: agent::attachment(call) })).await;
            return Err(error);
        }
    };
    match (added.failure, added.attached) {
        (None, Some(attached)) if config.vhost.is_some() && attached.socket.is_empty() => {
            // It has read what it knows of the request, and has made a pair of interfaces.
            let _ = answer(agent.del(DelRequest { attachment: agent::attachment(call) })).await;
            Err(CniError::again("the agent is older than the plug-in, and does not know mode vhost-user"))
        }
        (None, Some(attached)) => Ok(attached),
        (Some(failure), _) => Err(failure.into()),
        (None, None) => Err(CniError::decode("the agent has answered nothing")),
    }
}

/// Succeeds without the agent, too: it finds the note, or that the network namespace is gone.
async fn del(call: &Call, config: &Config) -> Result<(), CniError> {
    // A file that cannot be one of ours was not written.
    if let Ok(file) = device_info::File::of(config) {
        file.remove();
    }
    let mut node = None;
    let told = match agent::connect(config).await {
        Ok(mut agent) => {
            let told = answer(agent.del(DelRequest { attachment: agent::attachment(call) })).await;
            node = answer(agent.get_config(GetConfigRequest::default())).await.ok();
            told
        }
        Err(error) => Err(error),
    };
    match told {
        Ok(answer) => {
            if let Some(failure) = answer.failure {
                return Err(failure.into());
            }
        }
        Err(_) => note(call, config),
    }
    let node = node.filter(|node| !node.pod_cidrs.is_empty());
    Ipam::new(call, config, node.as_ref())?.del().await
}

/// Leaves a note for the agent, if it has attached the interface.
fn note(call: &Call, config: &Config) {
    let name = format!("{}:{}", call.container, call.interface);
    if config.state_dir.join(format!("{name}.json")).exists() {
        let file = config.state_dir.join(format!("{name}.deleted"));
        // Without the note the agent finds it by the network namespace.
        let _ = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file);
    }
}

async fn check(call: &Call, config: &Config) -> Result<(), CniError> {
    config.has("CHECK", "0.4.0")?;
    let Some(before) = &config.prev_result else {
        return Err(CniError::config("CHECK needs prevResult: what ADD has printed"));
    };
    let mut agent = agent::connect(config).await?;
    let node = node(&mut agent, GetConfigRequest::default()).await?;
    Ipam::new(call, config, Some(&node).filter(|node| !node.pod_cidrs.is_empty()))?.check().await?;
    let request = CheckRequest {
        attachment: agent::attachment(call),
        netns: call.netns.clone(),
        addresses: before.ips.iter().map(|ip| ip.address.clone()).collect(),
    };
    match answer(agent.check(request)).await?.failure {
        None => Ok(()),
        Some(failure) => Err(failure.into()),
    }
}

async fn gc(call: &Call, config: &Config) -> Result<(), CniError> {
    config.has("GC", "1.1.0")?;
    let mut agent = agent::connect(config).await?;
    let valid = config.valid.iter();
    let valid = valid.map(|one| AttachmentRef { container: one.container.clone(), interface: one.ifname.clone() });
    let request = GcRequest { network: config.name.clone(), valid: valid.collect() };
    if let Some(failure) = answer(agent.gc(request)).await?.failure {
        return Err(failure.into());
    }
    let node = answer(agent.get_config(GetConfigRequest::default())).await?;
    Ipam::new(call, config, Some(&node).filter(|node| !node.pod_cidrs.is_empty()))?.tell().await
}

async fn status(call: &Call, config: &Config) -> Result<(), CniError> {
    config.has("STATUS", "1.1.0")?;
    let away = |error: CniError| CniError::unavailable(error.message).hint(error.details);
    let mut agent = agent::connect(config).await.map_err(away)?;
    if let Some(failure) = answer(agent.status(StatusRequest {})).await.map_err(away)?.failure {
        return Err(failure.into());
    }
    let node = answer(agent.get_config(GetConfigRequest::default())).await.map_err(away)?;
    Ipam::new(call, config, Some(&node).filter(|node| !node.pod_cidrs.is_empty()))?.tell().await
}
