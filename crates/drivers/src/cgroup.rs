//! Cgroups of programs: where they are made, the limits they carry, how everything in them is killed.
//!
//! Programs are tracked and killed through the unified hierarchy (v2) where it is mounted, also in hybrid mode, else
//! through the v1 freezer. A limit is set in whichever hierarchy has its controller. Nothing of this is required: where
//! a cgroup cannot be made there is a note, and the supervisor falls back on parentage.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::driver::Limits;
use crate::error::plain;

/// The controllers that limits need, with the word for people.
const CONTROLLERS: [&str; 3] = ["memory", "cpu", "pids"];
/// The period of CPU limits, in microseconds: the kernel's default.
const CPU_PERIOD_US: u64 = 100_000;
/// The smallest CPU quota that the kernel takes, in microseconds.
const MIN_CPU_QUOTA_US: u64 = 1_000;
/// How long a process may be on its way out of a group after it has let go of all else.
const EXIT_ATTEMPTS: u32 = 250;
const EXIT_PAUSE: Duration = Duration::from_millis(2);
/// How often it is tried to make a directory that others remove at the same time.
const CREATE_ATTEMPTS: u32 = 10;
/// Where the supervisors themselves live, beside their programs. No program's group has this name: theirs has an `@`.
const SUPERVISORS: &str = "supervisors";

/// Where one instance of the daemon keeps its cgroups. Part of the launch record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// The instance's directory in the unified hierarchy.
    pub unified: Option<PathBuf>,
    /// The instance's directories in v1 hierarchies, by controller (`freezer` too).
    pub v1: BTreeMap<String, PathBuf>,
}

/// The cgroups of one program. Part of its state record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProgramCgroups {
    pub unified: Option<PathBuf>,
    pub v1: BTreeMap<String, PathBuf>,
}

impl Layout {
    /// Finds the hierarchies of this machine that we may write to.
    pub(crate) fn detect(instance: &str) -> Layout {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Layout::from_text(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"), instance)
    }

    /// In v2 the instance's directory stands beside our own cgroup (a group with members may not delegate
    /// controllers, and a supervisor must not die with the daemon's unit), or below it where only that is allowed. In
    /// v1 it stands below our own, so that limits on the daemon's group hold for its programs too.
    fn from_text(mountinfo: &str, cgroup: &str, instance: &str) -> Layout {
        let mut layout = Layout::default();
        for (controllers, own) in cgroup.lines().filter_map(parse_membership) {
            let Some(own) = locate(mountinfo, controllers, own) else {
                continue;
            };
            if controllers.is_empty() {
                let beside = own.parent().filter(|_| own.join("cgroup.type").exists());
                let home = beside.into_iter().chain([own.as_path()]).find(|dir| may_delegate(dir));
                layout.unified = home.map(|dir| dir.join(instance));
            } else if writable(&own) {
                let wanted = |name: &&str| CONTROLLERS.contains(name) || *name == "freezer";
                for name in controllers.split(',').filter(wanted) {
                    layout.v1.insert(name.to_owned(), own.join(instance));
                }
            }
        }
        layout
    }

    /// Makes the instance's directories in v2 and hands the controllers down as far as we are let.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        let Some(unified) = &self.unified else {
            return Ok(());
        };
        fs::create_dir_all(unified.join(SUPERVISORS))?;
        let parent = unified.parent().unwrap_or(unified);
        for dir in [parent, unified] {
            let available = read_words(&dir.join("cgroup.controllers"));
            let enabled = read_words(&dir.join("cgroup.subtree_control"));
            for name in CONTROLLERS {
                let has = |words: &[String]| words.iter().any(|w| w == name);
                if has(&available) && !has(&enabled) {
                    // Refused where processes live in the group; the note then says what is missing.
                    let _ = write(&dir.join("cgroup.subtree_control"), &format!("+{name}"));
                }
            }
        }
        Ok(())
    }

    /// What cannot be done here, in sentences.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.unified.is_none() && !self.v1.contains_key("freezer") {
            notes.push("no cgroup is writable: processes are tracked by their parents".to_owned());
        }
        notes.extend(CONTROLLERS.iter().filter(|name| self.home(name).is_none()).map(|name| missing(name)));
        notes
    }

    /// The directory of the supervisors.
    pub(crate) fn supervisors(&self) -> Option<PathBuf> {
        self.unified.as_ref().map(|dir| dir.join(SUPERVISORS))
    }

    /// The cgroups that a program would have, whether they exist or not.
    pub(crate) fn program(&self, name: &str) -> ProgramCgroups {
        ProgramCgroups {
            unified: self.unified.as_ref().map(|dir| dir.join(name)),
            v1: self.v1.iter().map(|(c, dir)| (c.clone(), dir.join(name))).collect(),
        }
    }

    fn home(&self, controller: &str) -> Option<Home> {
        if let Some(unified) = &self.unified
            && read_words(&unified.join("cgroup.subtree_control")).iter().any(|w| w == controller)
        {
            return Some(Home::V2);
        }
        self.v1.contains_key(controller).then_some(Home::V1)
    }

    /// Makes the cgroups of a program and sets its limits. Hierarchies that have nothing to do are left alone.
    pub(crate) fn create(&self, name: &str, limits: &Limits) -> (ProgramCgroups, Vec<String>) {
        let mut made = ProgramCgroups::default();
        let mut notes = Vec::new();
        if let Some(unified) = &self.unified {
            let dir = unified.join(name);
            match create_all(&dir) {
                Ok(()) => made.unified = Some(dir),
                Err(error) => notes.push(format!("no cgroup: {}: {}", dir.display(), plain(&error))),
            }
        }
        if made.unified.is_none()
            && let Some(freezer) = self.v1.get("freezer")
        {
            made.create_v1("freezer", &freezer.join(name), &mut notes);
        }
        for controller in CONTROLLERS.into_iter().filter(|c| amount(limits, c) != 0) {
            let result = match self.home(controller) {
                Some(Home::V2) => match &made.unified {
                    Some(dir) => limit_v2(dir, controller, limits),
                    None => Err(io::Error::from(io::ErrorKind::NotFound)),
                },
                Some(Home::V1) => {
                    let dir = self.v1[controller].join(name);
                    if !made.create_v1(controller, &dir, &mut notes) {
                        continue;
                    }
                    limit_v1(&dir, controller, limits)
                }
                None => {
                    notes.push(missing(controller));
                    continue;
                }
            };
            if let Err(error) = result {
                notes.push(format!("{controller} limits are not enforced: {}", plain(&error)));
            }
        }
        (made, notes)
    }

    /// Removes the instance's directories, as far as they are empty.
    pub(crate) fn remove(&self) {
        if let Some(unified) = &self.unified {
            for _ in 0..EXIT_ATTEMPTS {
                let _ = fs::remove_dir(unified.join(SUPERVISORS));
                // With a program's group there, supervisors live on. Without, the last ones are on their way out.
                if children(unified).iter().any(|dir| !dir.ends_with(SUPERVISORS)) || remove_tree(unified) {
                    break;
                }
                std::thread::sleep(EXIT_PAUSE);
            }
        }
        self.remove_v1();
    }

    /// Called by a supervisor that ends: leaves the supervisors' group, and removes the instance's directories if it was the last one
    /// in there. A daemon that lives makes them again with its next start; see [`Layout::prepare`].
    pub(crate) fn leave(&self) {
        if let Some(unified) = &self.unified {
            // A group that hands controllers down takes no processes, but the root of the hierarchy always does.
            let mut outside = unified.ancestors().skip(1).take_while(|dir| dir.join("cgroup.procs").exists());
            if outside.any(|dir| write(&dir.join("cgroup.procs"), "0").is_ok())
                && fs::remove_dir(unified.join(SUPERVISORS)).is_ok()
            {
                let _ = fs::remove_dir(unified);
            }
        }
        self.remove_v1();
    }

    fn remove_v1(&self) {
        for dir in self.v1.values() {
            let _ = fs::remove_dir(dir);
        }
    }

    /// Removes what other instances left that were killed: groups beside ours whose names begin alike, in which nothing runs and
    /// nothing was made or removed for `age`. An instance that lives all the same makes them again when it needs them.
    pub(crate) fn sweep(&self, age: Duration) {
        for home in self.unified.iter().chain(self.v1.values()) {
            let (Some(parent), Some(name)) = (home.parent(), home.file_name().and_then(|n| n.to_str()))
            else {
                continue;
            };
            let Some((family, _)) = name.split_once('-') else { continue };
            for dir in children(parent) {
                let alike = dir.file_name().and_then(|n| n.to_str()).and_then(|n| n.split_once('-'));
                let other = alike.is_some_and(|(f, _)| f == family) && dir != *home;
                if other && is_older(&dir, age) && members(&dir).is_empty() {
                    remove_tree(&dir);
                }
            }
        }
    }
}

/// Whether nothing was made or removed in this directory for that long.
fn is_older(dir: &Path, age: Duration) -> bool {
    let modified = fs::metadata(dir).and_then(|meta| meta.modified());
    modified.is_ok_and(|at| at.elapsed().is_ok_and(|elapsed| elapsed >= age))
}

enum Home {
    V1,
    V2,
}

fn missing(controller: &str) -> String {
    format!("{controller} limits are not enforced: no {controller} controller is delegated")
}

fn amount(limits: &Limits, controller: &str) -> u64 {
    match controller {
        "memory" => limits.memory_bytes,
        "cpu" => limits.nano_cpus,
        _ => limits.pids,
    }
}

/// CPU time per period, in microseconds.
fn quota_us(nano_cpus: u64) -> u64 {
    let quota = u128::from(nano_cpus) * u128::from(CPU_PERIOD_US) / 1_000_000_000;
    u64::try_from(quota).unwrap_or(u64::MAX).max(MIN_CPU_QUOTA_US)
}

fn limit_v2(dir: &Path, controller: &str, limits: &Limits) -> io::Result<()> {
    match controller {
        "memory" => {
            write(&dir.join("memory.max"), &limits.memory_bytes.to_string())?;
            // Absent where the kernel has no swap accounting: then there is none to forbid.
            ignore_missing(write(&dir.join("memory.swap.max"), "0"))
        }
        "cpu" => write(&dir.join("cpu.max"), &format!("{} {CPU_PERIOD_US}", quota_us(limits.nano_cpus))),
        _ => write(&dir.join("pids.max"), &limits.pids.to_string()),
    }
}

fn limit_v1(dir: &Path, controller: &str, limits: &Limits) -> io::Result<()> {
    match controller {
        "memory" => {
            let bytes = limits.memory_bytes.to_string();
            write(&dir.join("memory.limit_in_bytes"), &bytes)?;
            ignore_missing(write(&dir.join("memory.memsw.limit_in_bytes"), &bytes))
        }
        "cpu" => {
            write(&dir.join("cpu.cfs_period_us"), &CPU_PERIOD_US.to_string())?;
            write(&dir.join("cpu.cfs_quota_us"), &quota_us(limits.nano_cpus).to_string())
        }
        _ => write(&dir.join("pids.max"), &limits.pids.to_string()),
    }
}

/// Makes a directory with its parents. Another supervisor that ends may remove the instance's empty one meanwhile.
fn create_all(dir: &Path) -> io::Result<()> {
    let mut made = fs::create_dir_all(dir);
    for _ in 0..CREATE_ATTEMPTS {
        match &made {
            Err(error) if error.kind() == io::ErrorKind::NotFound => made = fs::create_dir_all(dir),
            _ => break,
        }
    }
    made
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl ProgramCgroups {
    fn create_v1(&mut self, controller: &str, dir: &Path, notes: &mut Vec<String>) -> bool {
        match create_all(dir) {
            Ok(()) => {
                self.v1.insert(controller.to_owned(), dir.to_owned());
                true
            }
            Err(error) => {
                notes.push(format!("{controller} limits are not enforced: {}", plain(&error)));
                false
            }
        }
    }

    fn dirs(&self) -> impl Iterator<Item = &PathBuf> {
        self.unified.iter().chain(self.v1.values())
    }

    /// Moves the calling process into every v1 group, and into the unified one unless it was born there.
    pub(crate) fn enter(&self, born_inside: bool) -> io::Result<()> {
        let unified = self.unified.iter().filter(|_| !born_inside);
        for dir in unified.chain(self.v1.values()) {
            write(&dir.join("cgroup.procs"), "0")?;
        }
        Ok(())
    }

    /// How often the kernel killed something in here for want of memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        let unified = self.unified.as_ref().map(|dir| dir.join("memory.events"));
        let v1 = self.v1.get("memory").map(|dir| dir.join("memory.oom_control"));
        let count = |path: PathBuf| {
            let text = fs::read_to_string(path).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
            line.trim().parse::<u64>().ok()
        };
        unified.into_iter().chain(v1).filter_map(count).sum()
    }

    /// Kills everything inside, once. True when something is still there, so that the caller comes again.
    pub(crate) fn kill_once(&self) -> bool {
        let mut left = false;
        if let Some(dir) = &self.unified {
            if write(&dir.join("cgroup.kill"), "1").is_err() {
                kill_members(dir);
            }
            left |= populated(dir);
        }
        if let Some(dir) = self.v1.get("freezer") {
            let state = dir.join("freezer.state");
            let _ = write(&state, "FROZEN");
            kill_members(dir);
            let _ = write(&state, "THAWED");
        }
        for dir in self.v1.values() {
            left |= kill_members(dir);
        }
        left
    }

    /// Removes the groups with whatever groups the program made inside. False when one would not go.
    pub(crate) fn remove(&self) -> bool {
        let mut gone = true;
        for dir in self.dirs() {
            gone &= remove_tree(dir);
        }
        gone
    }
}

/// Whether a v2 group has living processes in it or below.
fn populated(dir: &Path) -> bool {
    match fs::read_to_string(dir.join("cgroup.events")) {
        Ok(text) => text.lines().any(|line| line == "populated 1"),
        Err(_) => !members(dir).is_empty(),
    }
}

fn kill_members(dir: &Path) -> bool {
    let members = members(dir);
    for pid in members.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        let _ = kill_process(pid, Signal::KILL);
    }
    !members.is_empty()
}

/// The processes of a group and of all groups below.
fn members(dir: &Path) -> Vec<i32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for child in children(dir) {
        pids.extend(members(&child));
    }
    pids
}

fn children(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let dirs = entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    dirs.map(|e| e.path()).collect()
}

fn remove_tree(dir: &Path) -> bool {
    for child in children(dir) {
        remove_tree(&child);
    }
    match fs::remove_dir(dir) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// One line of `/proc/self/cgroup`: controllers (none for v2) and path.
fn parse_membership(line: &str) -> Option<(&str, &str)> {
    let mut parts = line.splitn(3, ':').skip(1);
    Some((parts.next()?, parts.next()?))
}

/// Our own directory in the hierarchy with these controllers, where it is mounted.
fn locate(mountinfo: &str, controllers: &str, own: &str) -> Option<PathBuf> {
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let (Some(root), Some(point)) = (left.get(3), left.get(4)) else {
            continue;
        };
        let fits = match right.first() {
            Some(&"cgroup2") => controllers.is_empty(),
            Some(&"cgroup") if !controllers.is_empty() => {
                let options: Vec<&str> = right.get(2)?.split(',').collect();
                controllers.split(',').all(|c| options.contains(&c))
            }
            _ => false,
        };
        if fits {
            // A container sees a part of the hierarchy only, mounted as if it were all.
            let below = Path::new(own).strip_prefix(root).unwrap_or(Path::new(""));
            let below = below.strip_prefix("/").unwrap_or(below);
            let point = PathBuf::from(unescape(point));
            return Some(if below.as_os_str().is_empty() { point } else { point.join(below) });
        }
    }
    None
}

/// Undoes the octal escapes of mountinfo for the one character that matters.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ")
}

fn may_delegate(dir: &Path) -> bool {
    writable(dir) && writable(&dir.join("cgroup.procs"))
}

fn writable(path: &Path) -> bool {
    access(path, Access::WRITE_OK).is_ok()
}

fn read_words(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Writes without creating: a file that the kernel does not have is a feature that it does not have.
fn write(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that looks like a v2 hierarchy with a daemon in `system.slice/quelea.service`.
    fn fake_v2(controllers: &str) -> (tempfile::TempDir, Layout) {
        let root = tempfile::tempdir().unwrap();
        let slice = root.path().join("system.slice");
        let own = slice.join("quelea.service");
        fs::create_dir_all(&own).unwrap();
        for dir in [&slice, &own] {
            fs::write(dir.join("cgroup.procs"), "").unwrap();
            fs::write(dir.join("cgroup.type"), "domain\n").unwrap();
            fs::write(dir.join("cgroup.controllers"), controllers).unwrap();
            fs::write(dir.join("cgroup.subtree_control"), controllers).unwrap();
        }
        let mountinfo = format!("30 1 0:2 / {} rw - cgroup2 cgroup2 rw\n", root.path().display());
        let layout = Layout::from_text(&mountinfo, "0::/system.slice/quelea.service\n", "quelea-1");
        (root, layout)
    }

    const LIMITS: Limits = Limits { nano_cpus: 1_500_000_000, memory_bytes: 64 << 20, pids: 32 };

    #[test]
    fn v2_limits_are_written_beside_the_daemons_own_group() {
        let (root, layout) = fake_v2("cpu memory pids\n");
        let home = root.path().join("system.slice/quelea-1");
        assert_eq!(layout.unified.as_deref(), Some(home.as_path()));
        layout.prepare().unwrap();
        assert!(home.join("supervisors").is_dir());
        fs::write(home.join("cgroup.subtree_control"), "cpu memory pids\n").unwrap();
        assert_eq!(layout.notes(), Vec::<String>::new());
        let dir = home.join("t@main");
        fs::create_dir(&dir).unwrap();
        for file in ["memory.max", "memory.swap.max", "cpu.max", "pids.max"] {
            fs::write(dir.join(file), "max\n").unwrap();
        }
        let (made, notes) = layout.create("t@main", &LIMITS);
        assert_eq!((made.unified.as_deref(), notes), (Some(dir.as_path()), vec![]));
        // The fake file is longer than what we wrote: only its beginning counts.
        let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap();
        assert!(read("memory.max").starts_with("67108864"));
        assert!(read("memory.swap.max").starts_with("0"));
        assert!(read("cpu.max").starts_with("150000 100000"));
        assert!(read("pids.max").starts_with("32"));
    }

    #[test]
    fn controllers_are_handed_down() {
        let (root, layout) = fake_v2("cpu memory pids\n");
        let slice = root.path().join("system.slice");
        fs::write(slice.join("cgroup.subtree_control"), "").unwrap();
        layout.prepare().unwrap();
        // The fake keeps what was written last over what was there.
        let written = fs::read_to_string(slice.join("cgroup.subtree_control")).unwrap();
        assert!(written.starts_with("+pids"), "{written:?}");
    }

    #[test]
    fn a_missing_controller_is_a_note() {
        let (_root, layout) = fake_v2("\n");
        layout.prepare().unwrap();
        let wanted: Vec<String> = CONTROLLERS.iter().map(|c| missing(c)).collect();
        assert_eq!(layout.notes(), wanted);
        assert_eq!(layout.create("t@main", &LIMITS).1, wanted);
        assert_eq!(layout.create("t@main", &Limits::default()).1, Vec::<String>::new());
        assert_eq!(missing("memory"), "memory limits are not enforced: no memory controller is delegated");
    }

    #[test]
    fn what_others_left_is_swept_unless_something_is_in_it() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in ["quelea-1/supervisors", "quelea-2/supervisors", "quelea-3", "quelea-4/t@main", "other-1"]
        {
            fs::create_dir_all(at(name)).unwrap();
        }
        let layout = Layout { unified: Some(at("quelea-1")), v1: BTreeMap::new() };
        fs::write(at("quelea-4/t@main/cgroup.procs"), "1\n").unwrap();
        layout.sweep(Duration::from_secs(3600));
        assert!(at("quelea-2").exists(), "it may be about to be used");
        layout.sweep(Duration::ZERO);
        for (name, stays) in [
            ("quelea-1/supervisors", true),
            ("quelea-2", false),
            ("quelea-3", false),
            ("quelea-4", true),
            ("other-1", true),
        ] {
            assert_eq!(at(name).exists(), stays, "{name}");
        }
    }

    #[test]
    fn a_failed_write_is_a_note() {
        let (root, layout) = fake_v2("memory\n");
        layout.prepare().unwrap();
        let home = root.path().join("system.slice/quelea-1");
        fs::write(home.join("cgroup.subtree_control"), "memory\n").unwrap();
        let limits = Limits { memory_bytes: 1 << 30, ..Limits::default() };
        let notes = layout.create("t@main", &limits).1;
        assert_eq!(notes, ["memory limits are not enforced: no such file or directory"]);
    }

    #[test]
    fn hybrid_and_container_mounts_are_found() {
        let mountinfo = "1 0 0:1 / /cg rw - tmpfs tmpfs rw\n\
            2 1 0:2 /docker/abc /cg/memory rw - cgroup cgroup rw,memory\n\
            3 1 0:3 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
            4 1 0:4 / /cg/uni\\040fied rw - cgroup2 cgroup2 rw\n";
        let at = |c: &str, own: &str| locate(mountinfo, c, own).map(|p| p.display().to_string());
        assert_eq!(at("memory", "/docker/abc/x").as_deref(), Some("/cg/memory/x"));
        assert_eq!(at("memory", "/elsewhere").as_deref(), Some("/cg/memory"));
        assert_eq!(at("cpu,cpuacct", "/").as_deref(), Some("/cg/cpu,cpuacct"));
        assert_eq!(at("", "/a").as_deref(), Some("/cg/uni fied/a"));
        assert_eq!(at("pids", "/"), None);
    }

    #[test]
    fn tiny_cpu_limits_are_raised_to_what_the_kernel_takes() {
        assert_eq!(quota_us(1), 1_000);
        assert_eq!(quota_us(500_000_000), 50_000);
        assert_eq!(quota_us(64_000_000_000), 6_400_000);
    }

    /// On machines that have the v1 freezer and let us use it.
    #[test]
    fn the_freezer_kills_a_whole_group() {
        let dir = PathBuf::from(format!("/sys/fs/cgroup/freezer/quelea-unit-{}", std::process::id()));
        if fs::create_dir(&dir).is_err() || !dir.join("freezer.state").exists() {
            eprintln!("skipped: there is no v1 freezer for us here");
            return;
        }
        fs::create_dir(dir.join("below")).unwrap();
        let mut children = Vec::new();
        for place in [dir.clone(), dir.join("below")] {
            let child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
            write(&place.join("cgroup.procs"), &child.id().to_string()).unwrap();
            children.push(child);
        }
        let v1 = BTreeMap::from([("freezer".to_owned(), dir.clone())]);
        let groups = ProgramCgroups { unified: None, v1 };
        groups.kill_once();
        for mut child in children {
            use std::os::unix::process::ExitStatusExt;
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
        // The kernel takes a moment to let go of the dead.
        while groups.kill_once() {
            std::thread::yield_now();
        }
        while !groups.remove() {
            std::thread::yield_now();
        }
        assert!(!dir.exists());
    }
}
