//! Whether devices are healthy. A switch that restarts is away for seconds: that changes nothing.

use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long the switch may be away, and is to be there, before that counts.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Devices are unhealthy after so long without the switch.
    pub away: Duration,
    /// Devices are healthy after so long with it.
    pub back: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { away: Duration::from_secs(15), back: Duration::from_secs(2) }
    }
}

/// Says `health` by what `forwards` says, until one of them is gone.
pub(super) async fn follow(mut forwards: watch::Receiver<bool>, health: watch::Sender<bool>, patience: Patience) {
    loop {
        let is = *forwards.borrow_and_update();
        if is == *health.borrow() {
            if forwards.changed().await.is_err() {
                return;
            }
            continue;
        }
        match timeout(if is { patience.back } else { patience.away }, forwards.changed()).await {
            Err(_) => {
                health.send_replace(is);
                if is {
                    tracing::info!("device plug-in: the switch forwards: devices are healthy");
                } else {
                    tracing::warn!("device plug-in: the switch does not answer or forward: devices are unhealthy");
                }
            }
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither in this test.
    const NEVER: Duration = Duration::from_secs(3600);
    const SOON: Duration = Duration::from_millis(5);

    async fn becomes(healthy: &mut watch::Receiver<bool>, health: bool) {
        let waited = timeout(Duration::from_secs(60), healthy.wait_for(|is| *is == health)).await;
        assert!(waited.expect("in time").is_ok());
    }

    #[tokio::test]
    async fn devices_follow_the_switch() {
        let ((forwards, forwarding), (health, mut healthy)) = (watch::channel(false), watch::channel(false));
        let task = tokio::spawn(follow(forwarding, health, Patience { away: SOON, back: SOON }));
        for is in [true, false, true, false] {
            forwards.send_replace(is);
            becomes(&mut healthy, is).await;
        }
        drop(forwards);
        task.await.expect("it ends");
    }

    #[tokio::test]
    async fn what_is_short_does_not_count() {
        for (was, patience) in
            [(true, Patience { away: NEVER, back: SOON }), (false, Patience { away: SOON, back: NEVER })]
        {
            let ((forwards, forwarding), (health, healthy)) = (watch::channel(was), watch::channel(was));
            let _task = tokio::spawn(follow(forwarding, health, patience));
            for _ in 0..5 {
                forwards.send_replace(!was);
                tokio::time::sleep(SOON * 2).await; // long enough for the other direction
                forwards.send_replace(was);
                tokio::time::sleep(SOON * 2).await;
            }
            assert!(!healthy.has_changed().expect("it is followed") && *healthy.borrow() == was);
        }
    }
}
