//! The status of a PacketCapture, in Antrea's words.

use crate::feedback::{ANSWER_MAX, second};
use k8s_openapi::jiff::Timestamp;
use kube::Error;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

/// How far a capture is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It waits for others; or why it cannot begin.
    Pending(String),
    /// It has begun, and has so many packets.
    Started(u32),
    /// It has ended.
    Complete {
        /// Packets in the file.
        packets: u32,
        /// Where the file is. Empty: there is none.
        file: String,
        /// Why it has ended, in one word: Succeed, Timeout or Failed.
        reason: &'static str,
        /// More of it.
        message: String,
    },
}

impl State {
    /// A capture that failed without a file.
    pub(super) fn failed(message: &str) -> Self {
        Self::Complete { packets: 0, file: String::new(), reason: "Failed", message: message.to_owned() }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Complete { .. })
    }

    fn to_json(&self, now: &Value) -> Value {
        let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message});
        let (started, complete) = ("PacketCaptureStarted", "PacketCaptureComplete");
        let begun = condition(started, "True", "Started", "");
        let (packets, file, conditions) = match self {
            Self::Pending(reason) => {
                let word = if reason.is_empty() { "Pending" } else { "NotStarted" };
                (0, "", vec![condition(started, "False", word, reason)])
            }
            Self::Started(packets) => (*packets, "", vec![begun, condition(complete, "False", "Progressing", "")]),
            Self::Complete { packets, file, reason, message } => {
                (*packets, file.as_str(), vec![begun, condition(complete, "True", reason, message)])
            }
        };
        json!({"numberCaptured": packets, "filePath": file, "conditions": conditions})
    }
}

/// Writes a status. An object that is gone, or is another one, gets none: that is no error.
pub(super) async fn write(api: &Api<DynamicObject>, (name, uid): (&str, &str), state: &State) -> Result<(), String> {
    let status = state.to_json(&json!(second(Timestamp::now())));
    let patch = Patch::Merge(json!({"metadata": {"uid": uid}, "status": status}));
    let params = PatchParams::default();
    match tokio::time::timeout(ANSWER_MAX, api.patch_status(name, &params, &patch)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(Error::Api(status))) if [404, 409, 422].contains(&status.code) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_conditions_of_antrea() {
        let told = |state: State| {
            let status = state.to_json(&json!("t"));
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let words =
                |each: &Value| format!("{} {} {}", each["type"], each["status"], each["reason"]).replace('"', "");
            (status["numberCaptured"].clone(), conditions.iter().map(words).collect::<Vec<_>>().join("; "))
        };
        let started = "PacketCaptureStarted True Started";
        assert_eq!(told(State::Pending(String::new())), (json!(0), "PacketCaptureStarted False Pending".to_owned()));
        assert_eq!(told(State::Pending("why".to_owned())).1, "PacketCaptureStarted False NotStarted");
        let progress = format!("{started}; PacketCaptureComplete False Progressing");
        assert_eq!(told(State::Started(3)), (json!(3), progress));
        assert_eq!(told(State::failed("x")).1, format!("{started}; PacketCaptureComplete True Failed"));
    }
}
