//! The task that keeps changes at run time for the next start (`[control] persist`).

use std::sync::Arc;
use tokio::sync::watch;
use vswitch_antrea_node::RETRY;
use vswitch_control::running::{Running, SAVE_PAUSE};

/// Saves what is in force for the next start, behind changes; once more at the end.
pub(super) async fn save_behind(running: Arc<Running>, mut stopping: watch::Receiver<bool>) {
    if !running.saves() {
        return;
    }
    let mut last = String::new();
    loop {
        let saving = Arc::clone(&running);
        let saved = tokio::task::spawn_blocking(move || {
            let is_saved = saving.save(&mut last);
            (is_saved, last)
        });
        let Ok((is_saved, text)) = saved.await else { return };
        last = text;
        if *stopping.borrow() {
            return;
        }
        let pause = if is_saved { SAVE_PAUSE } else { RETRY };
        let more = async {
            tokio::time::sleep(pause).await;
            if is_saved {
                running.touched().await;
            }
        };
        tokio::select! {
            () = more => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    }
}
