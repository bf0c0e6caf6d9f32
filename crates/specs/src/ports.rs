//! `ports`: the long form with `mode: host`; everything that needs the routing mesh is refused.

use model::{PortMode, PortSpec, Protocol};

use crate::keys;
use crate::problem::Findings;
use crate::reader::Field;
use crate::yaml::Value;

const MESH: &str = "is published through the routing mesh, which is not there yet; publish it on the node itself with `mode: host`, for example {mode: host, published: 8080, name: http} (without `published` a free port is chosen at placement)";

/// Reads the list of ports.
pub(crate) fn read(field: &Field<'_>, findings: &mut Findings) -> Vec<PortSpec> {
    let items = field.items(findings).unwrap_or_default();
    items.iter().filter_map(|item| read_one(item, findings)).collect()
}

fn read_one(field: &Field<'_>, findings: &mut Findings) -> Option<PortSpec> {
    if let Value::Scalar(short) = &field.node.value {
        let clipped: String = short.chars().take(40).collect();
        field.refuse(findings, format!("{clipped:?} {MESH}"));
        return None;
    }
    let fields = field.fields(findings, &keys::PORT)?;
    let mode = fields.get("mode").map(|f| f.text(findings).unwrap_or("host"));
    match mode {
        Some("host") => {}
        None => field.refuse(findings, format!("a port without a mode {MESH}")),
        Some("ingress") => field.refuse(findings, format!("a port with mode: ingress {MESH}")),
        Some(other) => {
            let clipped: String = other.chars().take(40).collect();
            field.refuse(findings, format!("{clipped:?} is not a mode; the mode of a port is host"));
        }
    }
    let protocol = fields.get("protocol").and_then(|f| f.parsed(findings, protocol)).unwrap_or_default();
    let published = fields.get("published").and_then(|f| f.parsed(findings, port)).unwrap_or(0);
    if let Some(target) = fields.get("target") {
        let wanted = target.parsed(findings, port);
        if let Some(wanted) = wanted.filter(|t| *t != published) {
            let published = if published == 0 { "is left open".into() } else { format!("is {published}") };
            target.refuse(findings, format!(
                "a process listens on its host port itself, so target {wanted} cannot be led to a published port that {published}; leave target out and listen on the port in $PORT"
            ));
        }
    }
    let name = fields.get("name").and_then(|f| f.text(findings)).unwrap_or_default();
    Some(PortSpec { name: name.into(), protocol, target: 0, published, mode: PortMode::Host })
}

fn protocol(text: &str) -> Result<Protocol, String> {
    Protocol::from_word(text).ok_or_else(|| {
        let clipped: String = text.chars().take(40).collect();
        format!("{clipped:?} is not a protocol; use tcp or udp")
    })
}

fn port(text: &str) -> Result<u16, String> {
    let clipped: String = text.chars().take(40).collect();
    if let Some((a, b)) = text.split_once('-')
        && [a, b].iter().all(|p| p.parse::<u16>().is_ok())
    {
        return Err(format!("{clipped:?} is a range; write each port by itself"));
    }
    match text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("{clipped:?} is not a port; write a number from 1 to 65535, or leave it out")),
    }
}
