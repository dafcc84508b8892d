//! Whether the two sides of a connection take each other at a time: handshakes of the real implementation, whose clock
//! is an argument.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haptic_wire::tls::{AGENT_NAME, CONTROLLER_NAME, Credentials};
use rustls::{ClientConnection, ServerConnection, time_provider::TimeProvider};
use rustls_pki_types::{ServerName, UnixTime};
use serde_json::Value;

use crate::cluster::certificates::certificate::{Certificate, Usage};

#[derive(Debug)]
struct At(u64);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0)))
    }
}

fn entry(secret: &Value, name: &str) -> Vec<u8> {
    STANDARD.decode(secret["data"][name].as_str().unwrap()).unwrap()
}

fn credentials(secret: &Value) -> Credentials {
    Credentials::from_pem(&entry(secret, "tls.crt"), &entry(secret, "tls.key"), &entry(secret, "ca.crt")).unwrap()
}

/// An agent with these contents and clock, and a controller with those.
pub(super) fn handshake(agent: (&Value, u64), controller: (&Value, u64)) -> Result<(), rustls::Error> {
    let server = credentials(agent.0).server_config(&CONTROLLER_NAME.parse().unwrap()).unwrap();
    let client = credentials(controller.0).client_config(&AGENT_NAME.parse().unwrap()).unwrap();
    let (mut server, mut client) = ((*server).clone(), (*client).clone());
    (server.time_provider, client.time_provider) = (Arc::new(At(agent.1)), Arc::new(At(controller.1)));
    let mut server = ServerConnection::new(Arc::new(server))?;
    let mut client = ClientConnection::new(Arc::new(client), ServerName::try_from(AGENT_NAME).unwrap())?;
    let mut wire = Vec::new();
    while client.is_handshaking() || server.is_handshaking() {
        wire.clear();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut sent = wire.as_slice();
        while !sent.is_empty() {
            server.read_tls(&mut sent).unwrap();
            server.process_new_packets()?;
        }
        wire.clear();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut sent = wire.as_slice();
        while !sent.is_empty() {
            client.read_tls(&mut sent).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok(())
}

/// An API server that trusts what the configuration says, and a webhook with these contents.
pub(super) fn is_taken_by_api_server(webhook: &Value, configuration: &Value, at: u64) -> bool {
    let own = Certificate::all_in(&entry(webhook, "tls.crt")).remove(0);
    let webhooks = configuration["webhooks"].as_array().unwrap();
    own.not_before <= at
        && at <= own.not_after
        && webhooks.iter().all(|one| {
            let bundle = STANDARD.decode(one["clientConfig"]["caBundle"].as_str().unwrap()).unwrap();
            Certificate::all_in(&bundle).iter().any(|authority| own.is_signed_by(authority, Usage::Server))
        })
}
