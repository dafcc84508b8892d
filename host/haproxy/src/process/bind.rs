//! Trying an address before HAProxy does.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
use thiserror::Error;

/// HAProxy could not listen here.
#[derive(Debug, Error)]
#[error("address {address} cannot be bound: {source}; free it or change the bind line")]
pub struct BindError {
    address: SocketAddr,
    #[source]
    source: io::Error,
}

/// Binds as HAProxy does (`SO_REUSEADDR` and `SO_REUSEPORT`), without listening, and lets go.
///
/// A bind that fails at a reload pauses every listener of the old worker for about two seconds, and `haproxy -c` does not
/// see it (haproxy-facts §0 trap 1). An address that HAProxy itself listens on passes, because it shares the port.
pub fn test_bind(address: Option<IpAddr>, port: u16) -> Result<(), BindError> {
    let address = SocketAddr::new(address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), port);
    try_bind(address).map_err(|errno| BindError { address, source: errno.into() })
}

fn try_bind(address: SocketAddr) -> Result<(), rustix::io::Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket(family, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    bind(&socket, &address)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn names_an_address_that_another_process_holds() {
        let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = holder.local_addr().unwrap().port();
        let error = test_bind(Some(Ipv4Addr::LOCALHOST.into()), port).unwrap_err();
        assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
        drop(holder);
        test_bind(Some(Ipv4Addr::LOCALHOST.into()), port).unwrap();
    }

    #[test]
    fn refuses_an_address_that_is_not_of_this_machine() {
        assert!(test_bind(Some("192.0.2.1".parse().unwrap()), 8080).is_err());
    }
}
