//! Packets by hand, and a clock that obeys: only of a `vswitchd --enable-dummy`.

use crate::cli::{CacheState, Testing};
use crate::client::Client;
use crate::output::{Answer, Done, Report};
use serde_json::{Value, json};
use vswitch_proto::v1;

/// Does what a verb says.
pub(in crate::commands) async fn ask(client: &Client, command: &Testing) -> Answer {
    let mut service = client.dummy().await?;
    match command {
        Testing::Receive { port, packets } => {
            let request =
                |packet: &crate::cli::Bytes| v1::ReceiveRequest { port: port.clone(), packet: packet.0.clone() };
            let requests: Vec<_> = packets.iter().map(request).collect();
            let mut answers = client.answer(service.receive(tokio_stream::iter(requests)).await)?;
            let mut sent = Vec::new();
            while let Some(answer) = answers.message().await.map_err(|status| client.error(status))? {
                sent.push(answer.sent);
            }
            return Ok(Box::new(Sent(sent)));
        }
        Testing::Panic { port, sending } => {
            client.answer(service.panic(v1::PanicRequest { port: port.clone(), sending: *sending }).await)?;
        }
        Testing::StopTime => {
            client.answer(service.stop_time(v1::StopTimeRequest {}).await)?;
        }
        Testing::WarpTime { milliseconds, step } => {
            let step_milliseconds = step.unwrap_or_default();
            let request = v1::WarpTimeRequest { milliseconds: *milliseconds, step_milliseconds };
            client.answer(service.warp_time(request).await)?;
        }
        Testing::Cache { state } => {
            let enabled = match state {
                CacheState::On => Some(true),
                CacheState::Off => Some(false),
                CacheState::Flush => None,
            };
            let request = v1::SetCacheRequest { enabled, flush: enabled.is_none() };
            client.answer(service.set_cache(request).await)?;
        }
    }
    Ok(Box::new(Done))
}

/// What left because of each packet: `PORT HEX` lines.
struct Sent(Vec<Vec<v1::SentPacket>>);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Report for Sent {
    fn text(&self) -> String {
        self.0.iter().flatten().map(|sent| format!("{} {}\n", sent.port, hex(&sent.packet))).collect()
    }

    fn json(&self) -> Value {
        let sent = |sent: &v1::SentPacket| json!({ "port": sent.port, "packet": hex(&sent.packet) });
        self.0.iter().map(|packets| packets.iter().map(sent).collect::<Value>()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_left_both_ways() {
        let packet = |port: &str, byte| v1::SentPacket { port: port.to_owned(), packet: vec![byte, 0xff] };
        let sent = Sent(vec![vec![packet("p1", 0), packet("p2", 0)], Vec::new(), vec![packet("p1", 1)]]);
        assert_eq!(sent.text(), "p1 00ff\np2 00ff\np1 01ff\n");
        let packet = |port: &str, hex: &str| json!({ "port": port, "packet": hex });
        assert_eq!(sent.json(), json!([[packet("p1", "00ff"), packet("p2", "00ff")], [], [packet("p1", "01ff")]]));
    }
}
