//! Owns every task of an iteration. A task that ends before it is told to ends the iteration, with a named reason.

use std::{future::Future, time::Duration};

use haptic_kubernetes::SourceEnded;
use thiserror::Error;
use tokio::task::{JoinError, JoinSet};

use crate::{
    bus::BusFailure,
    cluster::{DiscoveryError, LeaderError},
    deployer::DeployerError,
    feed::FeedError,
};

/// How long a stage may take to finish what it is doing.
const STOP: Duration = Duration::from_secs(100);

#[derive(Default)]
pub struct Supervisor {
    tasks: JoinSet<(&'static str, Result<(), StageError>)>,
}

/// Why an iteration ended.
#[derive(Debug, Error)]
pub enum IterationError {
    #[error("the stage {stage} ended early")]
    EndedEarly { stage: &'static str },
    #[error("the stage {stage} failed")]
    Failed {
        stage: &'static str,
        #[source]
        source: StageError,
    },
    #[error("a stage stopped unexpectedly")]
    Panicked(#[source] JoinError),
    #[error("the event bus failed")]
    Bus(#[from] BusFailure),
    #[error("the stages did not stop within {STOP:?}")]
    StopTimeout,
}

#[derive(Debug, Error)]
pub enum StageError {
    #[error(transparent)]
    Deployer(#[from] DeployerError),
    #[error(transparent)]
    Feed(#[from] FeedError),
    #[error(transparent)]
    Source(#[from] SourceEnded),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Leader(#[from] LeaderError),
}

// === impl Supervisor ===

impl Supervisor {
    pub fn spawn(&mut self, stage: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(async move {
            task.await;
            (stage, Ok(()))
        });
    }

    pub fn spawn_fallible<E: Into<StageError>>(
        &mut self,
        stage: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.tasks.spawn(async move { (stage, task.await.map_err(Into::into)) });
    }

    /// Waits for a task to end, which none should. Safe to cancel.
    pub async fn ended_early(&mut self) -> IterationError {
        match self.tasks.join_next().await {
            Some(Ok((stage, Ok(())))) => IterationError::EndedEarly { stage },
            Some(Ok((stage, Err(source)))) => IterationError::Failed { stage, source },
            Some(Err(error)) => IterationError::Panicked(error),
            None => std::future::pending().await,
        }
    }

    /// Waits until all tasks have ended, which they were told to.
    pub async fn stopped(mut self) -> Result<(), IterationError> {
        let all = async {
            while let Some(ended) = self.tasks.join_next().await {
                match ended {
                    Ok((_, Ok(()))) => {}
                    Ok((stage, Err(source))) => return Err(IterationError::Failed { stage, source }),
                    Err(error) => return Err(IterationError::Panicked(error)),
                }
            }
            Ok(())
        };
        tokio::time::timeout(STOP, all).await.unwrap_or(Err(IterationError::StopTimeout))
    }
}
