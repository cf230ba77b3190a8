//! What the switch answers: everything that is asked of it, before anything is judged.

use crate::client::Client;
use crate::error::Error;
use std::time::Duration;
use vswitch_proto::{antrea, v1};

/// Between two readings of counters.
const INTERVAL: Duration = Duration::from_secs(1);

/// Answers of the switch. What an older switch does not know is empty.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Why there is no answer at all.
    pub(super) unreachable: Option<String>,
    pub(super) version: Option<v1::Version>,
    pub(super) health: Vec<v1::HealthPart>,
    pub(super) ports: Vec<v1::Port>,
    /// Before and after the interval.
    pub(super) workers: [Vec<v1::Worker>; 2],
    /// What ran out, at each port, lately.
    pub(super) drops: Vec<v1::PortDrops>,
    pub(super) limits: Vec<v1::SharedLimit>,
    pub(super) log: Option<v1::LogState>,
    pub(super) antrea: Option<antrea::v1::GetStateResponse>,
}

impl Asked {
    /// Asks the switch.
    pub(crate) async fn of(client: &Client) -> Self {
        let mut asked = Self::default();
        match asked.fill(client).await {
            Ok(()) => asked,
            Err(error) => Self { unreachable: Some(error.to_string()), ..Self::default() },
        }
    }

    async fn fill(&mut self, client: &Client) -> Result<(), Error> {
        let answer = client.capabilities().await?.get_capabilities(v1::GetCapabilitiesRequest {}).await;
        self.version = client.answer(answer)?.version;
        let mut statistics = client.statistics().await?;
        if let Ok(answer) = statistics.get_health(v1::GetHealthRequest {}).await {
            self.health = answer.into_inner().parts;
        }
        if let Ok(answer) = statistics.get_limits(v1::GetLimitsRequest { port: None }).await {
            self.limits = answer.into_inner().shared;
        }
        if let Ok(answer) = statistics.get_log(v1::GetLogRequest {}).await {
            self.log = answer.into_inner().log;
        }
        if let Ok(answer) = client.bridges().await?.list_bridges(v1::ListBridgesRequest {}).await {
            self.ports = answer.into_inner().bridges.into_iter().flat_map(|bridge| bridge.ports).collect();
        }
        let filter = v1::DropFilter { classes: vec!["resource".to_owned()], ..Default::default() };
        if let Ok(answer) = client.drops().await?.list_drops(v1::ListDropsRequest { filter: Some(filter) }).await {
            self.drops = answer.into_inner().drops;
        }
        if let Ok(answer) = client.antrea_sync().await?.get_state(antrea::v1::GetStateRequest {}).await {
            self.antrea = Some(answer.into_inner()).filter(|state| state.initialized);
        }
        let mut workers = client.workers().await?;
        for (i, reading) in self.workers.iter_mut().enumerate() {
            if i > 0 {
                tokio::time::sleep(INTERVAL).await;
            }
            if let Ok(answer) = workers.list_workers(v1::ListWorkersRequest {}).await {
                *reading = answer.into_inner().workers;
            }
        }
        Ok(())
    }
}
