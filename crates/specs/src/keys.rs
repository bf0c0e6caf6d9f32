//! The keys of a stack file: those that are read, those that compose knows and we do not support yet (with what to do
//! instead), and a guess for the rest.

/// The keys of one kind of map.
pub(crate) struct Known {
    /// Those that are read.
    pub read: &'static [&'static str],
    /// Those that compose knows and that are refused, each with what to do.
    pub refused: &'static [(&'static str, &'static str)],
}

/// Why an image is refused; said wherever one is asked for.
pub const IMAGE_REFUSED: &str = "an image needs the coming docker or oci driver; until then services are processes: write a command and no image";

const REMOVE: &str = "not supported yet; remove it";
const LIMIT_MEMORY: &str = "write deploy.resources.limits.memory";
const LIMIT_CPUS: &str = "write deploy.resources.limits.cpus";
const HOST_NETWORK: &str = "networks are not supported yet: a process uses the node's own network; remove it";
const HOST_FILES: &str = "not supported: a process sees the node's own files; remove it, or name a volume that nodes offer below volumes";
const OFFERED: &str = "nothing is made for a volume: it is a directory that nodes offer (quelea daemon --volume NAME=PATH); remove it";
const SECRETS: &str = "secrets and configs are not supported yet; remove it";
const PRIVILEGES: &str = "not supported for a process, which runs with the rights of its user; remove it";

/// At the top.
pub(crate) const TOP: Known = Known {
    read: &["services", "version", "name", "volumes"],
    refused: &[
        ("networks", HOST_NETWORK),
        ("secrets", SECRETS),
        ("configs", SECRETS),
        ("include", "include is not supported yet; put the services into one file"),
        ("models", REMOVE),
    ],
};

/// In a service.
pub(crate) const SERVICE: Known = Known {
    read: &[
        "command",
        "entrypoint",
        "environment",
        "labels",
        "working_dir",
        "user",
        "stop_signal",
        "stop_grace_period",
        "ports",
        "logging",
        "deploy",
        "platform",
        "x-driver",
        "volumes",
    ],
    refused: &[
        ("image", IMAGE_REFUSED),
        ("build", IMAGE_REFUSED),
        ("annotations", REMOVE),
        ("attach", REMOVE),
        ("blkio_config", REMOVE),
        ("cap_add", PRIVILEGES),
        ("cap_drop", PRIVILEGES),
        ("cgroup", REMOVE),
        ("cgroup_parent", REMOVE),
        ("configs", SECRETS),
        ("container_name", "a task's name is made from service and slot; remove it"),
        ("cpu_count", LIMIT_CPUS),
        ("cpu_percent", LIMIT_CPUS),
        ("cpu_period", LIMIT_CPUS),
        ("cpu_quota", LIMIT_CPUS),
        ("cpu_rt_period", REMOVE),
        ("cpu_rt_runtime", REMOVE),
        ("cpu_shares", "write deploy.resources.reservations.cpus"),
        ("cpus", LIMIT_CPUS),
        ("cpuset", REMOVE),
        ("credential_spec", REMOVE),
        (
            "depends_on",
            "start order is not supported yet; remove it and let the service end until what it needs is there: it is replaced as deploy.restart_policy says",
        ),
        ("develop", REMOVE),
        ("device_cgroup_rules", REMOVE),
        ("devices", PRIVILEGES),
        ("dns", HOST_NETWORK),
        ("dns_opt", HOST_NETWORK),
        ("dns_search", HOST_NETWORK),
        ("domainname", REMOVE),
        ("env_file", "files of variables are not read yet; write the variables under environment"),
        ("expose", "a process listens on its host port itself; write ports with mode: host"),
        ("extends", "extends is not supported yet; use an anchor and a merge key (<<: *name)"),
        ("external_links", HOST_NETWORK),
        ("extra_hosts", HOST_NETWORK),
        ("gpus", "write deploy.resources.reservations.generic_resources"),
        ("group_add", REMOVE),
        ("healthcheck", "health checks are not supported yet; remove it"),
        ("hostname", REMOVE),
        ("init", "the supervisor of a process ends the whole tree already; remove it"),
        ("ipc", REMOVE),
        ("isolation", REMOVE),
        ("label_file", REMOVE),
        ("links", HOST_NETWORK),
        ("mac_address", HOST_NETWORK),
        ("mem_limit", LIMIT_MEMORY),
        ("mem_reservation", "write deploy.resources.reservations.memory"),
        ("mem_swappiness", REMOVE),
        ("memswap_limit", REMOVE),
        ("models", REMOVE),
        ("network_mode", HOST_NETWORK),
        ("networks", HOST_NETWORK),
        ("oom_kill_disable", REMOVE),
        ("oom_score_adj", REMOVE),
        ("pid", REMOVE),
        ("pids_limit", "write deploy.resources.limits.pids"),
        ("post_start", REMOVE),
        ("pre_stop", REMOVE),
        ("privileged", PRIVILEGES),
        ("profiles", "profiles are not supported yet; put the service into a file of its own"),
        ("provider", REMOVE),
        ("pull_policy", IMAGE_REFUSED),
        ("read_only", PRIVILEGES),
        ("restart", "write deploy.restart_policy with condition: none, on-failure or any"),
        ("runtime", REMOVE),
        ("scale", "write deploy.replicas"),
        ("secrets", SECRETS),
        ("security_opt", PRIVILEGES),
        ("shm_size", REMOVE),
        ("stdin_open", "a service's standard input is closed; remove it"),
        ("storage_opt", REMOVE),
        ("sysctls", PRIVILEGES),
        ("tmpfs", HOST_FILES),
        ("tty", "a service has no terminal; remove it"),
        ("ulimits", REMOVE),
        ("use_api_socket", REMOVE),
        ("userns_mode", REMOVE),
        ("uts", REMOVE),
        ("volumes_from", HOST_FILES),
    ],
};

/// In a service's `deploy`.
pub(crate) const DEPLOY: Known = Known {
    read: &[
        "mode",
        "replicas",
        "x-max-concurrent",
        "labels",
        "restart_policy",
        "resources",
        "placement",
        "update_config",
        "rollback_config",
        "x-disruption",
    ],
    refused: &[("endpoint_mode", HOST_NETWORK), ("autoscale", REMOVE)],
};

/// In `restart_policy`.
pub(crate) const RESTART_POLICY: Known =
    Known { read: &["condition", "delay", "max_attempts", "window"], refused: &[] };

/// In `update_config` and `rollback_config`.
pub(crate) const UPDATE_CONFIG: Known = Known {
    read: &[
        "parallelism",
        "delay",
        "order",
        "failure_action",
        "monitor",
        "max_failure_ratio",
        "x-canary",
        "x-auto-promote",
        "x-promote-within",
    ],
    refused: &[],
};

/// In `resources`.
pub(crate) const RESOURCES: Known = Known { read: &["limits", "reservations"], refused: &[] };

/// In `resources.limits`.
pub(crate) const LIMITS: Known = Known { read: &["cpus", "memory", "pids"], refused: &[] };

/// In `resources.reservations`.
pub(crate) const RESERVATIONS: Known = Known {
    read: &["cpus", "memory", "generic_resources"],
    refused: &[
        ("devices", "write generic_resources"),
        ("pids", "processes can only be limited; write resources.limits.pids"),
    ],
};

/// One of `generic_resources`.
pub(crate) const GENERIC_RESOURCE: Known = Known {
    read: &["discrete_resource_spec"],
    refused: &[(
        "named_resource_spec",
        "a task reserves a number of a kind and is given the names at placement; write discrete_resource_spec",
    )],
};

/// In `discrete_resource_spec`.
pub(crate) const DISCRETE: Known = Known { read: &["kind", "value"], refused: &[] };

/// In `x-disruption`.
pub(crate) const DISRUPTION: Known = Known { read: &["min_healthy", "max_surge"], refused: &[] };

/// In `placement`.
pub(crate) const PLACEMENT: Known = Known {
    read: &["constraints", "max_replicas_per_node", "preferences", "x-affinities", "x-strategy"],
    refused: &[],
};

/// One of `preferences`.
pub(crate) const PREFERENCE: Known = Known { read: &["spread", "x-targets"], refused: &[] };

/// One of `x-targets`.
pub(crate) const TARGET: Known = Known { read: &["value", "percent"], refused: &[] };

/// One of `x-affinities`.
pub(crate) const AFFINITY: Known = Known { read: &["constraint", "weight"], refused: &[] };

/// A port in its long form.
pub(crate) const PORT: Known = Known {
    read: &["name", "target", "published", "protocol", "mode"],
    refused: &[
        ("host_ip", "a process listens on the address that it chooses itself; remove it"),
        ("app_protocol", REMOVE),
    ],
};

/// One of `volumes` at the top.
pub(crate) const VOLUME: Known = Known {
    read: &["external", "name"],
    refused: &[
        ("driver", OFFERED),
        ("driver_opts", OFFERED),
        ("labels", OFFERED),
        ("x-cluster-spec", OFFERED),
    ],
};

/// A volume of a service in its long form.
pub(crate) const MOUNT: Known = Known {
    read: &["type", "source", "target", "read_only"],
    refused: &[
        ("bind", REMOVE),
        ("volume", REMOVE),
        ("tmpfs", REMOVE),
        ("image", REMOVE),
        ("cluster", REMOVE),
        ("consistency", REMOVE),
    ],
};

/// In `logging`.
pub(crate) const LOGGING: Known = Known { read: &["driver", "options"], refused: &[] };

/// In `logging.options`.
pub(crate) const LOG_OPTIONS: Known = Known {
    read: &["max-size", "max-file"],
    refused: &[
        ("compress", REMOVE),
        ("labels", REMOVE),
        ("labels-regex", REMOVE),
        ("env", REMOVE),
        ("env-regex", REMOVE),
        ("tag", REMOVE),
        ("mode", REMOVE),
        ("max-buffer-size", REMOVE),
    ],
};

/// What a key is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It is read.
    Read,
    /// Anybody may add it (`x-...`): it is left alone.
    Extension,
    /// Compose knows it, we do not support it yet; what to do instead.
    Refused(&'static str),
    /// Nobody knows it; with a guess.
    Unknown(String),
}

/// What the key is in this kind of map.
pub(crate) fn kind(known: &Known, key: &str) -> Kind {
    if known.read.contains(&key) {
        return Kind::Read;
    }
    if let Some((_, advice)) = known.refused.iter().find(|(k, _)| *k == key) {
        return Kind::Refused(advice);
    }
    if key.starts_with("x-") {
        // Somebody's own, unless it is nearly one of ours: a slip must not turn off what it asks for.
        return match slip(known, key) {
            Some(ours) => Kind::Unknown(format!("unknown key; did you mean {ours}?")),
            None => Kind::Extension,
        };
    }
    Kind::Unknown(match nearest(known, key) {
        Some(near) => format!("unknown key; did you mean {near}?"),
        None => format!("unknown key; known here are {}", known.read.join(", ")),
    })
}

/// The known key that was probably meant: the nearest one, the first in order among equals.
fn nearest(known: &Known, key: &str) -> Option<&'static str> {
    if key.len() > 40 {
        return None;
    }
    let wrong = key.to_ascii_lowercase().replace(['-', ' '], "_");
    let all = known.read.iter().copied().chain(known.refused.iter().map(|(k, _)| *k));
    let measured = all.map(|k| (distance(&wrong, &k.replace('-', "_")), k));
    let (steps, near) = measured.min_by_key(|(steps, _)| *steps)?;
    (steps <= 1 + key.len() / 4).then_some(near)
}

/// The key of ours that begins with `x-` and is at most two slips away.
fn slip(known: &Known, key: &str) -> Option<&'static str> {
    let plain = |key: &str| key.to_ascii_lowercase().replace('-', "_");
    let ours = known.read.iter().copied().filter(|k| k.starts_with("x-") && key.len() <= k.len() + 2);
    ours.min_by_key(|k| distance(&plain(key), &plain(k))).filter(|k| distance(&plain(key), &plain(k)) <= 2)
}

/// How many characters must be changed, added, dropped or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_for_a_slip() {
        for (key, guess) in [
            ("comand", Some("command")),
            ("enviroment", Some("environment")),
            ("Command", Some("command")),
            ("working-dir", Some("working_dir")),
            ("vloumes", Some("volumes")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(&SERVICE, key), guess, "{key}");
        }
    }

    #[test]
    fn extensions_are_left_alone() {
        assert_eq!(kind(&SERVICE, "x-mine"), Kind::Extension);
        assert_eq!(kind(&SERVICE, "x-driver"), Kind::Read);
        for (known, key, ours) in [
            (&UPDATE_CONFIG, "x-canry", "x-canary"),
            (&DEPLOY, "x-max_concurrent", "x-max-concurrent"),
            (&DEPLOY, "x-disrupton", "x-disruption"),
        ] {
            assert_eq!(kind(known, key), Kind::Unknown(format!("unknown key; did you mean {ours}?")));
        }
        assert_eq!(kind(&SERVICE, "image"), Kind::Refused(IMAGE_REFUSED));
        assert!(matches!(kind(&SERVICE, "banana"), Kind::Unknown(m) if m.contains("known here are command")));
    }

    #[test]
    fn no_key_is_both_read_and_refused() {
        for known in [&TOP, &SERVICE, &DEPLOY, &UPDATE_CONFIG, &RESERVATIONS, &PORT, &LOG_OPTIONS] {
            assert!(known.refused.iter().all(|(k, _)| !known.read.contains(k)));
        }
    }
}
