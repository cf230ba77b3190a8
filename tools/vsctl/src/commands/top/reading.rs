//! What the switch says for a page at a moment.
//!
//! **Design.** Only the page that is shown is read: the others cost the switch nothing.

use super::before::Before;
use super::connections::{COUNTED_MAX, Table};
use super::policies::Policies;
use super::sheet::{Order, Sheet};
use super::{connections, drops, policies, ports, workers};
use crate::cli::TopPage;
use crate::client::Client;
use crate::commands::{antrea, perf};
use crate::error::Error;
use std::time::{Duration, Instant};
use tonic::Code;
use vswitch_proto::{antrea::v1 as antrea_v1, v1};

/// What was read.
#[derive(Debug)]
pub(super) struct Reading {
    at: Instant,
    data: Data,
}

/// Of which page.
#[derive(Debug)]
pub(super) enum Data {
    Workers(Vec<v1::Worker>),
    Ports(Vec<v1::PortStatistics>),
    Drops(Vec<v1::PortDrops>),
    Connections(Box<Table>),
    Policies(Policies),
}

/// Reads a page, within this time.
pub(super) async fn read(client: &Client, page: TopPage, timeout: Duration) -> Result<Reading, Error> {
    let data = tokio::time::timeout(timeout, data(client, page)).await;
    let data = data.map_err(|_| client.unreachable(format!("no answer within {timeout:?}")))??;
    Ok(Reading { at: Instant::now(), data })
}

async fn data(client: &Client, page: TopPage) -> Result<Data, Error> {
    Ok(match page {
        TopPage::Workers => Data::Workers(perf::read(client).await?),
        TopPage::Ports => Data::Ports(read_ports(client).await?),
        TopPage::Drops => {
            let answer = client.drops().await?.list_drops(v1::ListDropsRequest { filter: None }).await;
            Data::Drops(client.answer(answer)?.drops)
        }
        TopPage::Connections => Data::Connections(Box::new(read_connections(client).await?)),
        TopPage::Policies => Data::Policies(read_policies(client).await.map_err(antrea::explained)?),
    })
}

async fn read_ports(client: &Client) -> Result<Vec<v1::PortStatistics>, Error> {
    let bridges = client.answer(client.bridges().await?.list_bridges(v1::ListBridgesRequest {}).await)?.bridges;
    let mut statistics = client.statistics().await?;
    let mut all = Vec::new();
    for config in bridges.into_iter().filter_map(|bridge| bridge.config) {
        let request = v1::GetPortStatisticsRequest { bridge: config.name, port: None };
        match statistics.get_port_statistics(request).await {
            // It was removed meanwhile.
            Err(status) if status.code() == Code::NotFound => {}
            answer => all.extend(client.answer(answer)?.ports),
        }
    }
    Ok(all)
}

async fn read_connections(client: &Client) -> Result<Table, Error> {
    let mut service = client.conntrack().await?;
    let request = |protocols| v1::GetConntrackStatsRequest { protocols, zone: None };
    let mut stats = client.answer(service.get_conntrack_stats(request(false)).await)?;
    if stats.connections < COUNTED_MAX {
        stats = client.answer(service.get_conntrack_stats(request(true)).await)?;
    }
    let request = v1::GetConntrackLimitsRequest { zones: Vec::new() };
    let zones = client.answer(service.get_conntrack_limits(request).await)?;
    Ok(Table { stats, zones })
}

async fn read_policies(client: &Client) -> Result<Policies, Error> {
    let state = client.answer(client.antrea_sync().await?.get_state(antrea_v1::GetStateRequest {}).await)?;
    if !state.initialized {
        return Ok(None);
    }
    antrea::find_policies(client, &[], None).await.map(Some)
}

/// The order that a page begins with.
pub(super) const fn first_order(page: TopPage) -> Order {
    Order::most(match page {
        TopPage::Workers => workers::MAIN,
        TopPage::Ports => ports::MAIN,
        TopPage::Drops => drops::MAIN,
        TopPage::Connections => connections::MAIN,
        TopPage::Policies => policies::MAIN,
    })
}

impl Reading {
    /// Seconds since another one.
    pub(super) fn since(&self, before: &Self) -> f64 {
        self.at.duration_since(before.at).as_secs_f64()
    }

    /// The page, with rates since another reading of it.
    pub(super) fn sheet(&self, before: Option<&Self>) -> Sheet {
        let seconds = before.map_or(0.0, |before| self.since(before));
        // Another page was read before: nothing to compare with.
        macro_rules! before {
            ($page:ident) => {
                before.and_then(|before| match &before.data {
                    Data::$page(data) => Some(Before { data, seconds }),
                    _ => None,
                })
            };
        }
        match &self.data {
            Data::Workers(now) => workers::sheet(now, before!(Workers)),
            Data::Ports(now) => ports::sheet(now, before!(Ports)),
            Data::Drops(now) => drops::sheet(now),
            Data::Connections(now) => {
                let before = before!(Connections);
                connections::sheet(now, before.map(|Before { data, seconds }| Before { data: &**data, seconds }))
            }
            Data::Policies(now) => policies::sheet(now, before!(Policies)),
        }
    }

    #[cfg(test)]
    pub(super) fn of(data: Data) -> Self {
        Self { at: Instant::now(), data }
    }
}
