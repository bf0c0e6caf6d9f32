//! `service update`: flags that change a spec which is there.

use clap::Args;
use native_api::types::{Mode, Mount, Port, ServiceSpec};

use super::service_spec::{self, CommonFlags};
use super::{mounts, options};
use crate::failure::Failure;

/// Change a service. A change of what tasks run replaces them, a few at a time.
#[derive(Debug, Args)]
pub struct Update {
    /// The service: its name, its id or the beginning of it.
    pub service: String,
    /// How many tasks; of a replicated job how many runs to completion.
    #[arg(long, value_name = "N", value_parser = options::count, allow_hyphen_values = true)]
    replicas: Option<u32>,
    /// How many tasks of a replicated job run at once; 0 for all.
    #[arg(long, value_name = "N", value_parser = options::count, allow_hyphen_values = true)]
    max_concurrent: Option<u32>,
    /// Another command, as one string that is cut into words as a shell does.
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    args: Option<String>,
    /// Replace every task although nothing else has changed; a paused update goes on, a job runs again from the beginning.
    #[arg(long)]
    force: bool,
    /// Add or change an environment variable.
    #[arg(long, value_name = "NAME[=VALUE]")]
    env_add: Vec<String>,
    /// Take an environment variable away.
    #[arg(long, value_name = "NAME")]
    env_rm: Vec<String>,
    /// Add or change a label.
    #[arg(long, value_name = "NAME=VALUE", value_parser = options::label)]
    label_add: Vec<(String, String)>,
    /// Take a label away.
    #[arg(long, value_name = "NAME")]
    label_rm: Vec<String>,
    /// Add a condition on nodes.
    #[arg(long, value_name = "CONSTRAINT")]
    constraint_add: Vec<String>,
    /// Take a condition on nodes away.
    #[arg(long, value_name = "CONSTRAINT")]
    constraint_rm: Vec<String>,
    /// Spread over one more key, inside the others: spread=node.labels.zone.
    #[arg(long, value_name = "spread=KEY", value_parser = service_spec::placement_pref)]
    placement_pref_add: Vec<String>,
    /// Spread over a key no longer.
    #[arg(long, value_name = "spread=KEY", value_parser = service_spec::placement_pref)]
    placement_pref_rm: Vec<String>,
    /// Add a host port, or change the one of the same number or name; see `service create`.
    #[arg(long, value_name = "PORT", value_parser = service_spec::port)]
    publish_add: Vec<Port>,
    /// Take a host port away: its number with or without /tcp or /udp, or its name.
    #[arg(long, value_name = "PORT|NAME")]
    publish_rm: Vec<String>,
    /// Add or change a counted resource that a task reserves.
    #[arg(long, value_name = "NAME=N", value_parser = service_spec::generic_resource)]
    generic_resource_add: Vec<(String, u64)>,
    /// Take a counted resource away.
    #[arg(long, value_name = "NAME")]
    generic_resource_rm: Vec<String>,
    /// Use one more volume, or the one of this name in another way; see `service create`.
    #[arg(long, value_name = "MOUNT", value_parser = mounts::mount)]
    mount_add: Vec<Mount>,
    /// Use a volume no longer.
    #[arg(long, value_name = "NAME")]
    mount_rm: Vec<String>,
    /// Not supported yet.
    #[arg(long, hide = true)]
    image: Option<String>,
    /// Go back to the previous revision, as `service rollback` does; no other change goes with it.
    #[arg(long)]
    pub rollback: bool,
    #[command(flatten)]
    common: CommonFlags,
}

impl Update {
    /// Changes the spec as the flags say; what is taken away must be there.
    ///
    /// # Errors
    /// What cannot be changed so.
    pub fn apply(
        self,
        spec: &mut ServiceSpec,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), Failure> {
        if self.image.is_some() {
            return Err(Failure::Refused(format!("--image: {}", specs::IMAGE_REFUSED)));
        }
        if let Some(replicas) = self.replicas {
            match spec.mode {
                Mode::Replicated => spec.replicas = Some(replicas),
                Mode::Batch => spec.completions = Some(replicas),
                Mode::Global | Mode::GlobalBatch => {
                    return Err(Failure::Refused(format!(
                        "{} is {}: one task runs on each node, --replicas does not go with it",
                        spec.name,
                        spec.mode.as_str()
                    )));
                }
            }
        }
        if let Some(at_once) = self.max_concurrent {
            if spec.mode != Mode::Batch {
                let (name, mode) = (&spec.name, spec.mode.as_str());
                let problem = format!("{name} is {mode}: --max-concurrent goes with a replicated job only");
                return Err(Failure::Refused(problem));
            }
            spec.concurrency = Some(at_once);
        }
        self.common.check_mode(spec.mode)?;
        if let Some(args) = self.args {
            spec.command = specs::split_words(&args).map_err(|e| Failure::Usage(format!("--args: {e}")))?;
        }
        if self.force {
            spec.force = spec.force.saturating_add(1);
        }
        let not_there = |flag: &str, what: &str| {
            Failure::Refused(format!("--{flag} {what}: the service has no such thing"))
        };
        for name in &self.env_rm {
            spec.env.remove(name).ok_or_else(|| not_there("env-rm", name))?;
        }
        for text in self.env_add {
            let (name, value) = service_spec::env(&text)?;
            service_spec::set_env(spec, name, value, variable);
        }
        for name in &self.label_rm {
            spec.labels.remove(name).ok_or_else(|| not_there("label-rm", name))?;
        }
        spec.labels.extend(self.label_add);
        for constraint in &self.constraint_rm {
            let before = spec.placement.constraints.len();
            spec.placement.constraints.retain(|c| !same_constraint(c, constraint));
            if spec.placement.constraints.len() == before {
                return Err(not_there("constraint-rm", constraint));
            }
        }
        for constraint in self.constraint_add {
            if !spec.placement.constraints.iter().any(|c| same_constraint(c, &constraint)) {
                spec.placement.constraints.push(constraint);
            }
        }
        let preferences = &mut spec.placement.preferences;
        for key in &self.placement_pref_rm {
            let place = preferences.iter().position(|p| same_key(&p.spread, key));
            let place = place.ok_or_else(|| not_there("placement-pref-rm", &format!("spread={key}")))?;
            preferences.remove(place);
        }
        for key in self.placement_pref_add {
            if !preferences.iter().any(|p| same_key(&p.spread, &key)) {
                preferences.push(service_spec::preference(key));
            }
        }
        for wanted in &self.publish_rm {
            let before = spec.ports.len();
            let named = port_names(wanted)?;
            spec.ports.retain(|p| !named(p));
            if spec.ports.len() == before {
                return Err(not_there("publish-rm", wanted));
            }
        }
        for port in self.publish_add {
            spec.ports.retain(|p| {
                let same_number =
                    p.published != 0 && (p.published, p.protocol) == (port.published, port.protocol);
                let same_name = !p.name.is_empty() && p.name == port.name;
                !same_number && !same_name
            });
            spec.ports.push(port);
        }
        let generic = &mut spec.resources.reservations.generic_resources;
        for name in &self.generic_resource_rm {
            generic.remove(name).ok_or_else(|| not_there("generic-resource-rm", name))?;
        }
        generic.extend(self.generic_resource_add);
        for name in &self.mount_rm {
            let place = spec.mounts.iter().position(|mount| mount.source == *name);
            spec.mounts.remove(place.ok_or_else(|| not_there("mount-rm", name))?);
        }
        for mount in self.mount_add {
            match spec.mounts.iter_mut().find(|there| there.source == mount.source) {
                Some(there) => *there = mount,
                None => spec.mounts.push(mount),
            }
        }
        self.common.apply(spec);
        Ok(())
    }
}

/// Equal without regard to blanks around the operator.
fn same_constraint(a: &str, b: &str) -> bool {
    let bare = |text: &str| match text.parse::<model::Constraint>() {
        Ok(constraint) => constraint.to_string(),
        Err(_) => text.trim().to_owned(),
    };
    bare(a) == bare(b)
}

/// One key, however it is spelled.
fn same_key(a: &str, b: &str) -> bool {
    a.parse::<model::ConstraintKey>().map_or(a == b, |a| Ok(a) == b.parse())
}

/// Which ports a text names: `8080`, `8080/udp`, or a port's name.
fn port_names(text: &str) -> Result<impl Fn(&Port) -> bool + use<>, Failure> {
    let (place, word) = match text.split_once('/') {
        Some((place, word)) => (place, Some(word)),
        None => (text, None),
    };
    let usage = |e: String| Failure::Usage(format!("--publish-rm {text}: {e}"));
    let protocol = word.map(service_spec::protocol).transpose().map_err(usage)?;
    let number = place.parse::<u16>().ok();
    let name = place.to_owned();
    Ok(move |port: &Port| {
        let same = match number {
            Some(number) => port.published == number,
            None => !name.is_empty() && port.name == name,
        };
        same && protocol.is_none_or(|p| p == port.protocol)
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        update: Update,
    }

    fn before() -> ServiceSpec {
        serde_json::from_value(json!({
            "name": "web", "replicas": 2, "command": ["a", "b"], "env": {"A": "1", "B": "2"}, "labels": {"x": "1"},
            "placement": {"constraints": ["node.role==worker"]}, "user": "nobody",
            "ports": [
                {"name": "http", "published": 80}, {"published": 53, "protocol": "udp"}, {"published": 53}, {"name": "any"},
            ],
            "resources": {"reservations": {"generic_resources": {"gpu": 1}}},
            "mounts": [{"source": "logs", "read_only": true}],
        }))
        .unwrap()
    }

    fn changed(flags: &[&str]) -> Result<ServiceSpec, Failure> {
        let line = Line::try_parse_from(["update", "web"].iter().chain(flags))
            .map_err(|e| Failure::Usage(e.to_string()))?;
        let mut spec = before();
        line.update.apply(&mut spec, &|_| None)?;
        Ok(spec)
    }

    /// What the request has that was not there before.
    fn differs(flags: &[&str]) -> Value {
        let Value::Object(after) = serde_json::to_value(changed(flags).unwrap()).unwrap() else { panic!() };
        let Value::Object(before) = serde_json::to_value(before()).unwrap() else { panic!() };
        Value::Object(after.into_iter().filter(|(k, v)| before.get(k) != Some(v)).collect())
    }

    #[test]
    fn flags_change_what_is_there() {
        let ports = |flags: &[&str]| {
            let show = |p: Port| format!("{}:{}/{:?}", p.name, p.published, p.protocol).to_lowercase();
            changed(flags).unwrap().ports.into_iter().map(show).collect::<Vec<_>>().join(" ")
        };
        for (flags, json) in [
            (&[][..], json!({})),
            (&["--replicas", "5"], json!({"replicas": 5})),
            (&["--force"], json!({"force": 1})),
            (&["--args", "run --fast 'two words'"], json!({"command": ["run", "--fast", "two words"]})),
            (
                &["--env-add", "A=9", "--env-add", "C=3", "--env-rm", "B"],
                json!({"env": {"A": "9", "C": "3"}}),
            ),
            (&["--label-rm", "x", "--label-add", "y=2"], json!({"labels": {"y": "2"}})),
            (
                &["--constraint-rm", "node.role == worker", "--constraint-add", "node.id==x"],
                json!({"placement": {"constraints": ["node.id==x"], "max_replicas_per_node": 0}}),
            ),
            (&["--constraint-add", "node.role == worker"], json!({})),
            (
                &[
                    "--placement-pref-add",
                    "spread=node.labels.zone",
                    "--placement-pref-add",
                    "spread=node.id",
                ],
                json!({"placement": {
                    "constraints": ["node.role==worker"], "max_replicas_per_node": 0,
                    "preferences": [{"spread": "node.labels.zone"}, {"spread": "node.id"}],
                }}),
            ),
            (&["--preempt=true"], json!({"preempt": true})),
            (&["--preempt=false"], json!({})),
            (&["--user", ""], json!({"user": null})),
            (&["--stop-grace-period", "1s"], json!({"stop_grace_period": "1s"})),
        ] {
            let mut got = differs(flags);
            if flags.contains(&"--user") {
                // A field that is gone does not show in what is sent.
                assert_eq!(changed(flags).unwrap().user, None);
                got = json!({"user": null});
            }
            assert_eq!(got, json, "{flags:?}");
        }
        assert_eq!(ports(&["--publish-rm", "53"]), "http:80/tcp any:0/tcp");
        assert_eq!(ports(&["--publish-rm", "53/udp"]), "http:80/tcp :53/tcp any:0/tcp");
        assert_eq!(ports(&["--publish-rm", "any", "--publish-rm", "80"]), ":53/udp :53/tcp");
        assert_eq!(
            ports(&["--publish-add", "mode=host,published=81,name=http"]),
            ":53/udp :53/tcp any:0/tcp http:81/tcp"
        );
        let mounts =
            changed(&["--mount-add", "source=data,ro", "--mount-add", "source=logs"]).unwrap().mounts;
        let shown: Vec<String> = mounts.iter().map(|m| format!("{} {}", m.source, m.read_only)).collect();
        assert_eq!(shown, ["logs false", "data true"], "the one that is there is changed in its place");
        assert_eq!(changed(&["--mount-rm", "logs"]).unwrap().mounts, []);
        let generic = changed(&["--generic-resource-rm", "gpu", "--generic-resource-add", "fpga=2"]).unwrap();
        assert_eq!(generic.resources.reservations.generic_resources, [("fpga".to_owned(), 2)].into());
    }

    #[test]
    fn a_job_has_completions() {
        let line = |flags: &[&str]| {
            let line = Line::try_parse_from(["update", "sum"].iter().chain(flags)).unwrap();
            let mut spec: ServiceSpec = serde_json::from_value(json!({
                "name": "sum", "mode": "batch", "completions": 2, "concurrency": 1, "command": ["a"],
            }))
            .unwrap();
            line.update.apply(&mut spec, &|_| None).map(|()| (spec.completions, spec.concurrency, spec.force))
        };
        assert_eq!(line(&["--replicas", "5", "--max-concurrent", "0"]).unwrap(), (Some(5), Some(0), 0));
        assert_eq!(line(&["--force"]).unwrap(), (Some(2), Some(1), 1));
        let failure = line(&["--update-delay", "1s"]).unwrap_err();
        assert!(
            failure.to_string().starts_with("--update-delay does not go with a job (mode replicated-job)"),
            "{failure}"
        );
    }

    #[test]
    fn what_cannot_be_changed_so() {
        for (flags, part) in [
            (&["--env-rm", "Z"][..], "--env-rm Z: the service has no such thing"),
            (&["--label-rm", "z"], "--label-rm z"),
            (&["--constraint-rm", "node.id==q"], "--constraint-rm node.id==q"),
            (&["--placement-pref-rm", "spread=node.id"], "--placement-pref-rm spread=node.id"),
            (&["--publish-rm", "8080"], "--publish-rm 8080"),
            (&["--publish-rm", "53/icmp"], "tcp or udp"),
            (&["--generic-resource-rm", "tpu"], "--generic-resource-rm tpu"),
            (&["--mount-rm", "data"], "--mount-rm data"),
            (&["--image", "nginx"], "needs the coming docker or oci driver"),
            (&["--args", "a 'b"], "not closed"),
            (&["--replicas", "-3"], "-3 is negative"),
            (
                &["--max-concurrent", "3"],
                "web is replicated: --max-concurrent goes with a replicated job only",
            ),
        ] {
            let failure = changed(flags).expect_err(part);
            assert!(failure.to_string().contains(part), "{flags:?}: {failure}");
        }
    }
}
