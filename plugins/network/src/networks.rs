//! Addresses and networks.

use std::net::IpAddr;

use haptic_plugin_sdk::{Arguments, FilterError};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use parts::cut;
use serde_json::Value;

use crate::Network;

pub(crate) fn cidr_contains(_: &Network, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [address] = arguments.bind(["address"])?;
    let address = address.ok_or_else(|| FilterError::refused("it needs an `address`"))?;
    let address = network(&address)?;
    let networks = networks(&value)?;
    Ok(networks.iter().any(|network| network.contains(&address)).into())
}

pub(crate) fn cidr_collapse(_: &Network, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [] = arguments.bind([])?;
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for network in networks(&value)? {
        match network {
            IpNet::V4(network) => v4.push(network),
            IpNet::V6(network) => v6.push(network),
        }
    }
    let (mut v4, mut v6) = (Ipv4Net::aggregate(&v4), Ipv6Net::aggregate(&v6));
    v4.sort();
    v6.sort();
    let texts = v4.iter().map(ToString::to_string).chain(v6.iter().map(ToString::to_string));
    Ok(texts.map(Value::from).collect())
}

pub(crate) fn cidr_normalize(_: &Network, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [] = arguments.bind([])?;
    Ok(network(&value)?.trunc().to_string().into())
}

pub(crate) fn ip_version(_: &Network, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [] = arguments.bind([])?;
    Ok(match network(&value)? {
        IpNet::V4(_) => 4.into(),
        IpNet::V6(_) => 6.into(),
    })
}

/// One network or a list of them.
fn networks(value: &Value) -> Result<Vec<IpNet>, FilterError> {
    match value {
        Value::Array(values) => values.iter().map(network).collect(),
        value => Ok(vec![network(value)?]),
    }
}

/// A network; an address is the network of itself.
fn network(value: &Value) -> Result<IpNet, FilterError> {
    let refused = || {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let text = cut(&text);
        FilterError::refused(format!("`{text}` is no address or network; write e.g. `10.0.0.0/8` or `2001:db8::1`"))
    };
    let text = value.as_str().ok_or_else(refused)?;
    if text.contains('/') {
        return text.parse().map_err(|_| refused());
    }
    text.parse::<IpAddr>().map(IpNet::from).map_err(|_| refused())
}
