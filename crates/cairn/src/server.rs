//! The HTTP server: accepts connections, serves them, and lets them end.
//!
//! Owns connections and their bounds. Must never know: any route.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Connections at a time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 1024;
/// How long a request's headers may take, idle time of a kept connection included: clients drop theirs earlier.
const HEADER_TIME: Duration = Duration::from_secs(30);
/// Pause after a failure to accept, so that a full file table does not make the loop spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` is cancelled, then lets open responses end for at most `grace`.
///
/// Returns whether all of them ended in time.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
    grace: Duration,
) -> bool {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME);
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, peer, place)) = accepted else {
            continue;
        };
        // Small frames are the normal case here; waiting to fill a segment would only add latency.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let connection =
            http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%peer, %error, "connection ended");
            }
            drop(place);
        });
    }
    drop(listener);
    tokio::time::timeout(grace, graceful.shutdown()).await.is_ok()
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(
    tokio::net::TcpStream,
    SocketAddr,
    tokio::sync::OwnedSemaphorePermit,
)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, place)),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            #[allow(
                clippy::disallowed_methods,
                reason = "a pause, so that a full file table does not spin"
            )]
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}
