//! Writes again and again what the newest picture says.

use std::{convert::Infallible, future::Future, time::Duration};

use haptic_kubernetes::{Failures, Trouble};
use tokio::{sync::watch, time::sleep};

use crate::cluster::status_applier::picture::Picture;

/// Writes one kind of thing.
pub(super) trait Pass: Send {
    /// For logs.
    const WRITES: &'static str;

    /// Writes what differs. Gives the time after which to look again although nothing changed, if any.
    fn write(&mut self, picture: &Picture) -> impl Future<Output = Result<Option<Duration>, Trouble>> + Send;
}

/// Latest wins: what changes during a round is in the next one. A failed round is tried again with what is then newest.
pub(super) async fn follow<P: Pass>(
    mut pass: P,
    mut pictures: watch::Receiver<Picture>,
    pace: Duration,
    mut failures: Failures,
) -> Infallible {
    loop {
        let picture = pictures.borrow_and_update().clone();
        let again = match pass.write(&picture).await {
            Ok(again) => {
                failures.reset();
                again
            }
            Err(trouble) => {
                let pause = failures.pause(Some(&trouble));
                tracing::warn!(writes = P::WRITES, %trouble, ?pause, "a status could not be written; it is tried again");
                sleep(pause.max(pace)).await;
                continue;
            }
        };
        sleep(pace).await;
        let look_again = async {
            match again {
                Some(after) => sleep(after.saturating_sub(pace)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = pictures.changed() => if changed.is_err() { std::future::pending::<()>().await },
            () = look_again => {}
        }
    }
}
